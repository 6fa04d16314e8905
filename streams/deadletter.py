"""What is written for an event that cannot be read.

Headers in Kafka Connect's spelling, so that existing tools find their way; no
stack trace, no text of the event. The value is left out unless asked for.
"""

import hashlib

from schemas.errors import DecodeError
from streams.kafka import Record
from streams.publish import Outgoing
from streams.settings import DeadLetterBody

EXCEPTION_CLASS = "pathgate.DecodeError"


def dead_letter(
    record: Record,
    error: DecodeError,
    *,
    source: tuple[str, int],
    topic: str,
    app_id: str,
    body: DeadLetterBody,
) -> Outgoing:
    """The dead letter of one record.

    Args:
        record: The record as it was read.
        error: Why it cannot be read.
        source: Topic and partition it was read from.
        topic: The dead-letter topic.
        app_id: Named as the connector.
        body: Whether the value is carried along.

    Returns:
        The record to write, on the same partition, with the original key.

    Source: Kafka Connect's ``DeadLetterQueueReporter`` for the header names.
    """
    value = record.value
    size = 0 if value is None else len(value)
    digest = hashlib.sha256(value or b"").hexdigest()
    headers = [
        ("__connect.errors.topic", source[0]),
        ("__connect.errors.partition", str(source[1])),
        ("__connect.errors.offset", str(record.offset)),
        ("__connect.errors.connector.name", app_id),
        ("__connect.errors.stage", "VALUE_CONVERTER"),
        ("__connect.errors.exception.class.name", EXCEPTION_CLASS),
        ("__connect.errors.exception.message", str(error)),
        ("pathgate.reason", str(error.code)),
        ("pathgate.size", str(size)),
        ("pathgate.sha256", digest),
    ]
    return Outgoing(
        topic=topic,
        partition=source[1],
        key=record.key,
        value=value if body is DeadLetterBody.RAW else None,
        headers=[(name, text.encode()) for name, text in headers],
        timestamp_ms=record.timestamp,
    )
