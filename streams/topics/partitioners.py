"""Which partition a key lies on, by the hash its producer uses."""

import zlib

from streams.settings import Partitioner


def partition_for(key: bytes, n: int, partitioner: Partitioner) -> int:
    """The partition that a producer with this partitioner chooses.

    Args:
        key: The record's key, as bytes; a run id in UTF-8.
        n: Partitions of the topic, 1 or more.
        partitioner: ``murmur2`` as Java's, aiokafka's and kafkajs' default does;
            ``crc32`` as librdkafka's ``consistent`` does.

    Returns:
        The partition, 0 to ``n`` - 1.

    Raises:
        ValueError: ``n`` is less than 1.
    """
    if n < 1:
        raise ValueError(f"expected 1 partition or more, got {n}")
    if partitioner is Partitioner.CRC32:
        return zlib.crc32(key) % n
    return (murmur2(key) & 0x7FFF_FFFF) % n


def murmur2(data: bytes) -> int:
    """MurmurHash2 with 32 bits and Kafka's seed, as an unsigned integer."""
    mask = 0xFFFF_FFFF
    factor = 0x5BD1_E995
    length = len(data)
    value = 0x9747_B28C ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        word = word * factor & mask
        word = (word ^ word >> 24) * factor & mask
        value = (value * factor & mask) ^ word
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    return value ^ value >> 15
