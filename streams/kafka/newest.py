"""Reads a compacted topic as what it is: the newest value of each key."""

from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from streams.errors import AccessDeniedError, BrokerUnavailableError
from streams.kafka.reader import open_reader
from streams.kafka.security import principal_of
from streams.settings import Settings


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
    newest: dict[bytes, bytes | None] = {}
    try:
        async with open_reader(settings) as reader:
            partitions = await reader.partitions_of(topic)
            spans = await reader.span((topic, number) for number in partitions)
            async for _, records in reader.read(spans):
                newest |= {r.key: r.value for r in records if r.key is not None}
    except TopicAuthorizationFailedError as error:
        raise AccessDeniedError(
            f"{principal_of(settings)} needs Read on topic {topic}"
        ) from error
    except (KafkaError, OSError) as error:
        raise BrokerUnavailableError(
            f"{settings.bootstrap_servers}: {topic} was not read to its end:"
            f" {type(error).__name__}"
        ) from error
    return {key: value for key, value in newest.items() if value is not None}
