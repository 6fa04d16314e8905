"""Builds what a broker would answer: record batches of magic 2, checksums and all."""

import struct
from collections.abc import Sequence

from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition

# Where the batch header keeps the checksum, and what it covers (KIP-98).
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_LAST_DELTA_AT = 23
_CONTROL = 0x20
# Key of a control record: version 0, type 0 abort or 1 commit.
ABORT = struct.pack(">hh", 0, 0)
COMMIT = struct.pack(">hh", 0, 1)
_ANY = TopicPartition("t", 0)


def batch(
    base: int,
    deltas: Sequence[int],
    *,
    last_delta: int | None = None,
    producer: int | None = None,
    marker: bytes | None = None,
    compression: int = 0,
) -> bytes:
    """One batch whose records lie at ``base`` plus each of ``deltas``.

    Args:
        base: Offset of the batch, 0 or more.
        deltas: Ascending; with gaps as compaction leaves them. May be empty.
        last_delta: Where the batch ends, if compaction took its last record.
        producer: Id of a transactional producer.
        marker: ``ABORT`` or ``COMMIT``: a control batch of that one record.
        compression: Codec of the protocol; 1 is gzip.
    """
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=int(producer is not None),
        producer_id=-1 if producer is None else producer,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1 << 20,
    )
    for delta in deltas:
        value = b"value-%d" % (base + delta)
        builder.append(delta, 1_700_000_000_000, marker or b"key", value, [])
    raw = bytearray(builder.build())
    struct.pack_into(">q", raw, 0, base)
    if marker is not None:
        (attributes,) = struct.unpack_from(">h", raw, _ATTRIBUTES_AT)
        struct.pack_into(">h", raw, _ATTRIBUTES_AT, attributes | _CONTROL)
    if last_delta is not None:
        struct.pack_into(">i", raw, _LAST_DELTA_AT, last_delta)
    crc = calc_crc32c(bytes(raw[_ATTRIBUTES_AT:]))
    struct.pack_into(">I", raw, _CRC_AT, crc)
    return bytes(raw)


def fetched(
    raw: bytes,
    at: int = 0,
    aborted: Sequence[tuple[int, int]] = (),
    level: int = READ_COMMITTED,
    tp: TopicPartition = _ANY,
) -> PartitionRecords:
    """A response as the fetcher keeps it.

    Args:
        raw: Its batches.
        at: The offset that was asked for.
        aborted: Producer and first offset of transactions that were taken back.
        level: aiokafka's isolation level.
        tp: Its partition.
    """
    return PartitionRecords(
        tp,
        MemoryRecords(raw),
        list(aborted),
        at,
        None,
        None,
        check_crcs=True,
        isolation_level=level,
    )
