"""Reads a compacted topic as what it is: the newest value of each key."""

from collections.abc import Mapping

from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from streams.errors import AccessDeniedError, BrokerUnavailableError
from streams.kafka.reader import LogReader, Place, open_reader
from streams.kafka.security import principal_of
from streams.kafka.unpack import Record
from streams.settings import Settings


async def newest_in(
    reader: LogReader, spans: Mapping[Place, tuple[int, int]]
) -> dict[bytes, tuple[Place, Record]]:
    """The newest record of each key in stretches of a topic, tombstones too.

    Args:
        reader: An open reader.
        spans: As for ``LogReader.read``.

    Returns:
        Key -> (topic, partition) and record; records without a key are left out.

    Raises:
        KafkaError: As ``LogReader.read``.
    """
    newest: dict[bytes, tuple[Place, Record]] = {}
    async for place, records in reader.read(spans):
        newest |= {one.key: (place, one) for one in records if one.key is not None}
    return newest


async def read_newest(settings: Settings, topic: str) -> dict[bytes, bytes]:
    """The newest value of each key of a topic, up to its end as of now.

    Args:
        settings: Servers and security.
        topic: The topic; one that does not exist has no keys.

    Returns:
        Key -> value; keys that a tombstone removed are left out, and records
        without a key.

    Raises:
        BrokerUnavailableError: No broker answers, or not to the end.
        AccessDeniedError: The topic may not be read.
    """
    try:
        async with open_reader(settings) as reader:
            partitions = await reader.partitions_of(topic)
            spans = await reader.span((topic, number) for number in partitions)
            newest = await newest_in(reader, spans)
    except TopicAuthorizationFailedError as error:
        raise AccessDeniedError(
            f"{principal_of(settings)} needs Read on topic {topic}"
        ) from error
    except (KafkaError, OSError) as error:
        raise BrokerUnavailableError(
            f"{settings.bootstrap_servers}: {topic} was not read to its end:"
            f" {type(error).__name__}"
        ) from error
    return {
        key: record.value
        for key, (_, record) in newest.items()
        if record.value is not None
    }
