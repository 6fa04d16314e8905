"""``decode_event`` against a slow, plain reader, on events with faults."""

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from schemas.codec import decode_event
from schemas.errors import DecodeError
from schemas.events import (
    EvalCompleted,
    EvalScored,
    EvalStarted,
    Payload,
    RunEnded,
    ToolCalled,
)
from tests.unit.schemas.event_samples import (
    ENVELOPE,
    PAYLOADS,
    Member,
    event_members,
    payload_members,
    write_object,
)
from tests.unit.schemas.strict_reader import Refused, read

ODD_VALUES = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-0.0",
    "1",
    "1.0",
    "1e0",
    "-1",
    "0.5",
    "5E-1",
    "1e-999",
    "1e-1000",
    "1e999999999",
    "1e400",
    "-1e-400",
    "1.0000000000000000001",
    "1000000000000",
    "1000000000000.1",
    "9223372036854775807",
    "9223372036854775808",
    "9" * 40,
    "01",
    ".5",
    "+1",
    "NaN",
    "-Infinity",
    '""',
    '"1"',
    '"0.5"',
    '"x"',
    '"\\u0061"',
    '"\\ud83d\\udd0e"',
    '"\\ud83d"',
    '"\\udd0e\\ud83d"',
    '"\\q"',
    '"\x01"',
    '"\x7f"',
    '"é, 検"',
    f'"{"n" * 512}"',
    f'"{"n" * 513}"',
    f'"{"0aF" * 21}0"',
    f'"{"0aF" * 21}0\\n"',
    '"2026-10-16T15:29:51+05:30"',
    '"2026-10-16t15:29:51.123456789z"',
    '"2026-02-30T15:29:51Z"',
    '"0001-01-01T00:00:00Z"',
    "[]",
    "{}",
    '[1,{"toolName":"x","score":","}]',
    '{"toolName":"a","toolName":"b","type":"c"}',
    "[" * 197 + "]" * 197,
    "[" * 198 + "]" * 198,
    "[" * 199 + "]" * 199,
    '{"a":' * 900 + "1" + "}" * 900,
    "[1,]",
    "{,}",
]

KEYS = sorted(
    {key for members in [ENVELOPE, *PAYLOADS.values()] for key in members}
    | {
        '"payload"',
        '"nodeId"',
        '"causationId"',
        '"engineVersion"',
        '"argsHash"',
        '"principal"',
        '"transport"',
        '"causationHostId"',
        '"baselineRunId"',
        '"schemaValid"',
        '"fixtureMiss"',
        '"openwop-fixture-miss"',
        '"x-fixture-miss"',
        '"x-other"',
        '"vendor.a,b"',
        '""',
    }
)

values = st.sampled_from(ODD_VALUES) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
).map(json.dumps)


def escaped(key: str) -> st.SearchStrategy[str]:
    """The key with one of its characters as an escape."""
    if key == '""':
        return st.just(key)
    return st.integers(1, len(key) - 2).map(
        lambda i: f"{key[:i]}\\u{ord(key[i]):04x}{key[i + 1 :]}"
    )


keys = st.sampled_from(KEYS).flatmap(lambda key: st.just(key) | escaped(key))


@st.composite
def changed(draw: st.DrawFn, members: list[Member]) -> list[Member]:
    """Members with up to three of them replaced, repeated, renamed or lost."""
    members = list(members)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(members)))
        present = at < len(members)
        key, value = members[at] if present else (draw(keys), draw(values))
        kind = draw(st.sampled_from(["value", "insert", "repeat", "rename", "drop"]))
        if kind == "insert" or not present:
            members.insert(at, (draw(keys), draw(values)))
        elif kind == "value":
            members[at] = (key, draw(values))
        elif kind == "repeat":
            twin = draw(st.just(key) | escaped(key))
            again = draw(st.just(value) | values)
            members.insert(draw(st.integers(0, len(members))), (twin, again))
        elif kind == "rename":
            members[at] = (draw(keys), value)
        else:
            del members[at]
    return members


@st.composite
def events(draw: st.DrawFn) -> bytes:
    """The bytes of an event, mostly with a fault or two."""
    event_type = draw(st.sampled_from([*PAYLOADS, "agent.toolCalled"]))
    sample = "agent.tool-called" if "toolC" in event_type else event_type
    payload = write_object(draw(changed(payload_members(sample))))
    members = event_members(event_type)
    at = draw(st.integers(0, len(members)))
    members.insert(at, ('"payload"', payload))
    text = write_object(draw(changed(members)))
    if draw(st.booleans()):
        text = text.replace('":', '" : ').replace(',"', ' ,\n "')
    data = text.encode("utf-8", "surrogatepass")
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(data)))
        end = at + draw(st.integers(0, 1))
        data = data[:at] + draw(st.binary(max_size=2)) + data[end:]
    return data


def facts(payload: Payload | None) -> object:
    """The payload as the slow reader gives it."""
    match payload:
        case ToolCalled():
            return payload.tool_name, payload.args_hash
        case EvalStarted():
            return (
                payload.suite_id,
                payload.suite_version,
                payload.task_count,
                payload.baseline_run_id,
            )
        case EvalScored():
            return (
                payload.task_id,
                payload.score,
                payload.passed,
                payload.cost_usd,
                payload.latency_ms,
                payload.schema_valid,
                payload.fixture_miss,
            )
        case EvalCompleted():
            return (
                payload.aggregate_score,
                payload.passed,
                payload.task_count,
                payload.passed_count,
            )
        case RunEnded() | None:
            return None


@settings(max_examples=1500, suppress_health_check=[HealthCheck.too_slow])
@given(events())
def test_fast_and_slow_reader_agree(data: bytes) -> None:
    """Both refuse the same events, and read the same from the others."""
    try:
        expected = read(data)
    except Refused:
        event("refused")
        with pytest.raises(DecodeError):
            decode_event(data)
        return
    event("read")
    envelope, payload = decode_event(data)
    assert expected == (
        envelope.event_id,
        envelope.run_id,
        envelope.type,
        envelope.sequence,
        envelope.node_id,
        facts(payload),
    )


@settings(max_examples=300)
@given(st.binary(max_size=600))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Nothing but ``DecodeError`` comes of arbitrary bytes."""
    with suppress(DecodeError):
        decode_event(data)
