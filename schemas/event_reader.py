"""Reads events: strictly, and fast enough for every call of every run."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import Raw

from schemas.errors import DecodeCode, DecodeError
from schemas.events import (
    ABSENT,
    MAX_COST_USD,
    MAX_EVENT_BYTES,
    MAX_RUN_ID_LENGTH,
    Envelope,
    EvalCompleted,
    EvalScored,
    EvalStarted,
    EventType,
    Int64,
    Name,
    Payload,
    RunEnded,
    ToolCalled,
)
from schemas.faults import MAX_DEPTH, check_text, place_and_shape, syntax_fault

# Too short to be too deep, far below what is too large.
_SHORT_BYTES = 2 * MAX_DEPTH

_V1_TOOL_CALLED = "agent.toolCalled"

# Bounds the work and the size of exact arithmetic: 1e-999999999 is valid JSON,
# and as a fraction it would fill the memory.
_NUMBER = re.compile(rb"-?[0-9]{1,32}(\.[0-9]{1,64})?([eE][+-]?[0-9]{1,3})?")
_MAX_NUMBER_BYTES = 1 + 32 + 65 + 5


class _ScoredWire(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """``eval.scored`` with its numbers as they are written."""

    task_id: Name
    score: Raw
    passed: bool
    cost_usd: Raw = ABSENT
    latency_ms: Int64 | None = None
    schema_valid: bool | None = None
    fixture_miss: bool | None = None
    openwop_fixture_miss: bool | None = msgspec.field(
        default=None, name="openwop-fixture-miss"
    )
    x_fixture_miss: bool | None = msgspec.field(default=None, name="x-fixture-miss")


class _EndedWire(msgspec.Struct):
    """The payload of a run's ending: an object, of which nothing is read."""


class _Reader(NamedTuple):
    """How the payload of one event type is read.

    Args:
        read: Undecoded payload -> payload, and how many of ``keys`` it surely
            has.
        keys: The keys it reads.
    """

    read: Callable[[Raw], tuple[Payload, int]]
    keys: tuple[str, ...]


_ZERO = Decimal(0)
_MAX_SCORE = Decimal(1)
_MAX_COST = Decimal(MAX_COST_USD)


@lru_cache(maxsize=1024)
def _number(text: bytes) -> Decimal | None:
    # Few scores are written in many ways. Only short texts come here, so what
    # is remembered is small whatever hosts write.
    return Decimal(text.decode()) if _NUMBER.fullmatch(text) else None


def _decimal(raw: Raw, path: str, limit: Decimal, expected: str) -> Decimal:
    text = bytes(raw)
    if len(text) <= _MAX_NUMBER_BYTES:
        number = _number(text)
        if number is not None and _ZERO <= number <= limit:
            return number
    raise DecodeError(path, expected, DecodeCode.INVALID_PAYLOAD)


_read_scored_wire = msgspec.json.Decoder(_ScoredWire).decode


def _read_scored(raw: Raw) -> tuple[EvalScored, int]:
    wire = _read_scored_wire(raw)
    cost = None
    if wire.cost_usd and bytes(wire.cost_usd) != b"null":
        cost = _decimal(
            wire.cost_usd,
            "$.payload.costUsd",
            _MAX_COST,
            "expected a number from 0 to 1e12, of at most 100 characters",
        )
    score = _decimal(
        wire.score,
        "$.payload.score",
        _MAX_SCORE,
        "expected a number from 0 to 1, of at most 100 characters",
    )
    misses = (wire.fixture_miss, wire.openwop_fixture_miss, wire.x_fixture_miss)
    scored = EvalScored(
        task_id=wire.task_id,
        score=score,
        passed=wire.passed,
        cost_usd=cost,
        latency_ms=wire.latency_ms,
        schema_valid=wire.schema_valid,
        fixture_miss=True in misses,
    )
    absent = (wire.latency_ms, wire.schema_valid, *misses).count(None)
    return scored, _SCORED_KEYS - absent - (cost is None)


def _read_started(raw: Raw) -> tuple[EvalStarted, int]:
    started = _read_started_wire(raw)
    return started, _STARTED_KEYS - (started.baseline_run_id is None)


def _read_completed(raw: Raw) -> tuple[EvalCompleted, int]:
    return _read_completed_wire(raw), _COMPLETED_KEYS


def _keys(model: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(model))


def _ending(event_type: EventType) -> _Reader:
    ended = RunEnded(ending=event_type), 0
    check = msgspec.json.Decoder(_EndedWire).decode

    def read(raw: Raw) -> tuple[RunEnded, int]:
        check(raw)
        return ended

    return _Reader(read, ())


_read_started_wire = msgspec.json.Decoder(EvalStarted).decode
_read_completed_wire = msgspec.json.Decoder(EvalCompleted).decode
_SCORED_KEYS = len(_keys(_ScoredWire))
_STARTED_KEYS = len(_keys(EvalStarted))
_COMPLETED_KEYS = len(_keys(EvalCompleted))


_read_envelope = msgspec.json.Decoder(Envelope).decode
_read_called = msgspec.json.Decoder(ToolCalled).decode
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
_ENVELOPE_KEYS = _keys(Envelope)
_CALLED_KEYS = _keys(ToolCalled)
# Commas of an event that has every key once.
_ENVELOPE_COMMAS = len(_ENVELOPE_KEYS) - 1
_CALLED_COMMAS = _ENVELOPE_COMMAS + len(_CALLED_KEYS) - 1
_CALL_TYPES = frozenset({EventType.TOOL_CALLED.value, _V1_TOOL_CALLED})
_READERS = {
    EventType.EVAL_STARTED.value: _Reader(_read_started, _keys(EvalStarted)),
    EventType.EVAL_SCORED.value: _Reader(_read_scored, _keys(_ScoredWire)),
    EventType.EVAL_COMPLETED.value: _Reader(_read_completed, _keys(EvalCompleted)),
} | {
    ending.value: _ending(ending)
    for ending in (
        EventType.RUN_COMPLETED,
        EventType.RUN_FAILED,
        EventType.RUN_CANCELLED,
    )
}


def _check_unique(text: bytes, keys: tuple[str, ...], at: str) -> None:
    """Refuses an object in which one of ``keys`` stands twice.

    Parsers disagree on which of the two counts, so that a call could be one
    tool to the gate and another to the host.

    Args:
        text: The object, valid JSON.
        keys: The keys that may stand once.
        at: JSON path of the object.

    Raises:
        DecodeError: One of them stands more than once, in whatever spelling.
    """
    members = _read_members(text)
    inside = b"".join(members.values())
    if text.count(b",") - inside.count(b",") < len(members):
        return
    # A key stands twice, or holds a comma.
    pairs = json.loads(text, object_pairs_hook=list, parse_int=len, parse_float=len)
    found = [key for key, _ in pairs]
    for key in keys:
        if found.count(key) > 1:
            raise DecodeError(
                f"{at}.{key}", "expected this key only once", DecodeCode.DUPLICATE_KEY
            )


# n keys have at least n - 1 commas between them. So where the commas outside
# the values that may hold some are no more than the distinct keys need, no key
# stands twice: a proof in two counts of a byte, which most events give.


def _decode_other(data: bytes, envelope: Envelope) -> Payload | None:
    payload = bytes(envelope.payload)
    absent = (
        envelope.schema_version,
        envelope.causation_id,
        envelope.engine_version,
    ).count(ABSENT)
    if envelope.node_id is None:
        absent += 1
    inside = payload.count(b",")
    if data.count(b",") - inside != _ENVELOPE_COMMAS - absent:
        _check_unique(data, _ENVELOPE_KEYS, "$")
    reader = _READERS.get(envelope.type)
    if reader is None:
        return None
    read, present = reader.read(envelope.payload)
    if reader.keys and inside != present - 1:
        _check_unique(payload, reader.keys, "$.payload")
    return read


def decode_event(data: bytes) -> tuple[Envelope, Payload | None]:
    """Reads one event.

    Unknown types and unknown keys pass. A key that ``Envelope`` or the
    payload's model names may stand once in its object, however it is spelled;
    keys inside ``inputs`` and inside payloads that are not read are not held
    to that.

    Args:
        data: One JSON document, UTF-8, at most 1 MiB, nested at most
            ``MAX_DEPTH`` deep.

    Returns:
        The envelope, and the payload, or None for a type pathgate does not
        read.

    Raises:
        DecodeError: The bytes are no event, or a payload that is read is not
            of its shape. Holds no text of the event.
        RecursionError: The caller's own stack is too deep for parsing; says
            nothing about the event.
    """
    if len(data) > _SHORT_BYTES or not data.isascii():
        check_text(data, MAX_EVENT_BYTES)
    try:
        envelope = _read_envelope(data)
        # An offset must not carry the time out of the calendar.
        if not 1 < envelope.timestamp.year < 9999:
            raise DecodeError(
                "$.timestamp", "expected a year from 2 to 9998", DecodeCode.NOT_AN_EVENT
            )
        if envelope.type not in _CALL_TYPES:
            return envelope, _decode_other(data, envelope)
        call = _read_called(envelope.payload)
    except msgspec.DecodeError:
        fault = _find_fault(data)
    else:
        _check_call(data, envelope, call)
        return envelope, call
    # Raised here, so that no error of the parser hangs on it as its context.
    raise fault


def _check_call(data: bytes, envelope: Envelope, call: ToolCalled) -> None:
    """Refuses a call in which a key that is read stands twice."""
    absent = (
        envelope.schema_version,
        envelope.causation_id,
        envelope.engine_version,
        call.inputs,
        call.agent_id,
        call.call_id,
        call.principal,
        call.transport,
        call.causation_host_id,
    ).count(ABSENT)
    if envelope.node_id is None:
        absent += 1
    if call.args_hash is None:
        absent += 1
    commas = data.count(b",") - bytes(call.inputs).count(b",")
    if commas != _CALLED_COMMAS - absent:
        _check_unique(data, _ENVELOPE_KEYS, "$")
        _check_unique(bytes(envelope.payload), _CALLED_KEYS, "$.payload")


def _find_fault(data: bytes) -> DecodeError:
    """What is wrong with an event that the typed decoders refused."""
    try:
        envelope = _read_envelope(data)
    except msgspec.ValidationError as error:
        return DecodeError(*place_and_shape(error), DecodeCode.NOT_AN_EVENT)
    except msgspec.DecodeError:
        return syntax_fault(data)
    reader = _READERS.get(envelope.type)
    read = _read_called if reader is None else reader.read
    try:
        read(envelope.payload)
    except msgspec.ValidationError as error:
        path, expected = place_and_shape(error, "$.payload")
        return DecodeError(path, expected, DecodeCode.INVALID_PAYLOAD)
    return DecodeError(  # pragma: no cover  # the same bytes are refused twice
        "$.payload", "expected a payload of its type", DecodeCode.INVALID_PAYLOAD
    )


_EVENT_ID = re.compile(r"[A-Za-z0-9._~-]{16,128}")
_RUN_ID = re.compile(r"(anon:)?[A-Za-z0-9._~-]{1,128}/[A-Za-z0-9._~-]{16,128}")
_NODE_ID = re.compile(r"[A-Za-z0-9._~:-]{1,128}")
_TYPE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)+")


@lru_cache(maxsize=4096)
def _labels_conform(run_id: str, event_type: str, node_id: str | None) -> bool:
    return (
        _RUN_ID.fullmatch(run_id) is not None
        and _TYPE.fullmatch(event_type) is not None
        and (node_id is None or _NODE_ID.fullmatch(node_id) is not None)
    )


def is_v2_grammar(envelope: Envelope) -> bool:
    """Whether the ids and the type are spelled as OpenWOP v2 has them.

    Events that are not are read all the same; this is for counting them.
    """
    return _EVENT_ID.fullmatch(envelope.event_id) is not None and _labels_conform(
        envelope.run_id, envelope.type, envelope.node_id
    )


# Whole strings and the marks between them; a string that breaks off is a token
# too, so that every byte is looked at once.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}:,]', re.DOTALL)
_read_string = msgspec.json.Decoder(str).decode


def _outer_members(data: bytes) -> Iterator[tuple[str, str]]:
    """What stands directly in the outermost objects.

    Bytes that no parser takes are read as far as their brackets and quotes go:
    what breaks a document mostly lies deep within its payload.

    Yields:
        Key and value, of the members whose value is a string.
    """
    depth = 0
    key: str | None = None
    may_be_key = False
    for found in _TOKEN.finditer(data):
        token = found[0]
        if token in (b"{", b"["):
            depth += 1
            key, may_be_key = None, depth == 1 and token == b"{"
        elif token in (b"}", b"]"):
            depth -= 1
            key = None
        elif depth != 1:
            continue
        elif token == b",":
            key, may_be_key = None, True
        elif token == b":":
            may_be_key = False
        elif may_be_key:
            key, may_be_key = _string(token), False
        elif key is not None:
            value = _string(token)
            if value is not None:
                yield key, value
            key = None


def _string(token: bytes) -> str | None:
    try:
        return _read_string(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def runs_of_rejected(data: bytes, key: bytes | None = None) -> tuple[str, ...]:
    """The runs that bytes which are no event belong to, as far as can be told.

    Evidence of those runs is missing, so their gates have to close. So this
    takes whatever ``decode_event`` refuses: a lone surrogate or endless nesting
    in what the event carries, a key twice, a document that breaks off, no
    document at all.

    Args:
        data: Of any size; read in one pass.
        key: The record's key, where it came from a topic: hosts key events by
            their run, also those whose bytes do not name it.

    Returns:
        Each ``runId`` of an outermost object, and the key, once; none where
        neither names one, or the bytes say by their ``type`` that they would
        not have been read.
    """
    run_ids: dict[str, None] = {}
    types = set()
    for name, value in _outer_members(data):
        if name == "type":
            types.add(value)
        elif name == "runId" and 1 <= len(value) <= MAX_RUN_ID_LENGTH:
            run_ids[value] = None
    if key:
        with suppress(UnicodeDecodeError):
            run_id = key.decode()
            if len(run_id) <= MAX_RUN_ID_LENGTH:
                run_ids[run_id] = None
    if types and types.isdisjoint(_CALL_TYPES) and types.isdisjoint(_READERS):
        return ()
    return tuple(run_ids)
