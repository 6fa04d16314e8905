"""The only decoder and encoder of bytes."""

import re
from decimal import Decimal

import msgspec
from msgspec import Meta, Raw
from typing import Annotated

from schemas.errors import DecodeError
from schemas.events import (
    MAX_EVENT_BYTES,
    Envelope,
    EvalCompleted,
    EvalScored,
    EvalStarted,
    EventType,
    Payload,
    RunEnded,
    ToolCalled,
)


class _ScoredWire(msgspec.Struct, rename="camel", kw_only=True):
    task_id: Annotated[str, Meta(min_length=1, max_length=512)]
    score: Raw
    passed: bool
    cost_usd: Raw | None = None
    latency_ms: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    schema_valid: bool | None = None
    fixture_miss: bool | None = None
    openwop_fixture_miss: bool | None = msgspec.field(default=None, name="openwop-fixture-miss")
    x_fixture_miss: bool | None = msgspec.field(default=None, name="x-fixture-miss")


_NUMBER = re.compile(rb"-?[0-9]{1,32}(\.[0-9]{1,64})?([eE][+-]?[0-9]{1,3})?")
_envelope = msgspec.json.Decoder(Envelope)
_called = msgspec.json.Decoder(ToolCalled)
_started = msgspec.json.Decoder(EvalStarted)
_scored = msgspec.json.Decoder(_ScoredWire)
_completed = msgspec.json.Decoder(EvalCompleted)


def _decimal(raw: Raw | None, path: str) -> Decimal | None:
    if raw is None:
        return None
    data = bytes(raw)
    if data == b"null":
        return None
    if not _NUMBER.fullmatch(data):
        raise DecodeError(path, "expected a number of at most 100 characters")
    return Decimal(data.decode())


def _read_called(raw: Raw) -> Payload:
    return _called.decode(raw)


def _read_started(raw: Raw) -> Payload:
    return _started.decode(raw)


def _read_scored(raw: Raw) -> Payload:
    wire = _scored.decode(raw)
    score = _decimal(wire.score, "$.payload.score")
    if score is None or not 0 <= score <= 1:
        raise DecodeError("$.payload.score", "expected a number from 0 to 1")
    cost = _decimal(wire.cost_usd, "$.payload.costUsd")
    if cost is not None and cost < 0:
        raise DecodeError("$.payload.costUsd", "expected a number >= 0")
    return EvalScored(
        task_id=wire.task_id,
        score=score,
        passed=wire.passed,
        cost_usd=cost,
        latency_ms=wire.latency_ms,
        schema_valid=wire.schema_valid,
        fixture_miss=bool(
            wire.fixture_miss or wire.openwop_fixture_miss or wire.x_fixture_miss
        ),
    )


def _read_completed(raw: Raw) -> Payload:
    return _completed.decode(raw)


_READERS = {
    EventType.TOOL_CALLED.value: _read_called,
    "agent.toolCalled": _read_called,
    EventType.EVAL_STARTED.value: _read_started,
    EventType.EVAL_SCORED.value: _read_scored,
    EventType.EVAL_COMPLETED.value: _read_completed,
    EventType.RUN_COMPLETED.value: lambda _: RunEnded(ending=EventType.RUN_COMPLETED),
    EventType.RUN_FAILED.value: lambda _: RunEnded(ending=EventType.RUN_FAILED),
    EventType.RUN_CANCELLED.value: lambda _: RunEnded(ending=EventType.RUN_CANCELLED),
}


def decode_event(data: bytes) -> tuple[Envelope, Payload | None]:
    """Reads one event.

    Args:
        data: One JSON document, UTF-8, at most 1 MiB.

    Returns:
        The envelope, and the payload, or None for a type pathgate does not
        read.

    Raises:
        DecodeError: The bytes are no event, or a payload that is read is not
            of its shape.
    """
    if len(data) > MAX_EVENT_BYTES:
        raise DecodeError("$", "expected at most 1 MiB", "too-large")
    try:
        envelope = _envelope.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DecodeError("$", "expected an event") from error
    reader = _READERS.get(envelope.type)
    if reader is None:
        return envelope, None
    try:
        return envelope, reader(envelope.payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DecodeError("$.payload", "expected a payload of its type") from error


def encode(record: msgspec.Struct) -> bytes:
    """The bytes of a record: compact JSON, declared key order, same every run."""
    return msgspec.json.encode(record)
