"""What ``decode_event`` reads and what it refuses, case by case."""

import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeVar

import pytest

from schemas import event_reader
from schemas.codec import decode_event, is_v2_grammar
from schemas.errors import DecodeCode, DecodeError
from schemas.events import (
    MAX_EVENT_BYTES,
    EvalCompleted,
    EvalScored,
    EvalStarted,
    EventType,
    RunEnded,
    ToolCalled,
)
from schemas.faults import MAX_DEPTH
from tests.unit.schemas.event_samples import (
    ENVELOPE,
    PAYLOADS,
    event,
    payload_members,
    write_object,
)

T = TypeVar("T")
INT64_MAX = 2**63 - 1


def refusal(data: bytes) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        decode_event(data)
    return caught.value


def called(data: bytes) -> ToolCalled:
    payload = decode_event(data)[1]
    assert isinstance(payload, ToolCalled)
    return payload


def scored(data: bytes) -> EvalScored:
    payload = decode_event(data)[1]
    assert isinstance(payload, EvalScored)
    return payload


def test_tool_called_is_read() -> None:
    """A call's envelope and payload come out as they were written."""
    envelope, payload = decode_event(event(envelope={"nodeId": '"node-1"'}))
    assert envelope.event_id == "evt-0000000000000001"
    assert envelope.run_id == "acme/run-0000000000000001"
    assert envelope.type == "agent.tool-called"
    assert envelope.sequence == 7
    assert envelope.node_id == "node-1"
    assert envelope.timestamp == datetime(2026, 10, 16, 15, 29, 51, 250_000, UTC)
    assert isinstance(payload, ToolCalled)
    assert payload.tool_name == "search"
    assert payload.args_hash is None
    assert bytes(payload.inputs) == PAYLOADS["agent.tool-called"]['"inputs"'].encode()


def test_inputs_absent_are_no_bytes() -> None:
    """A call without ``inputs`` is told from one with ``null``."""
    assert bytes(called(event(payload={"inputs": None})).inputs) == b""
    assert bytes(called(event(payload={"inputs": "null"})).inputs) == b"null"


def test_args_hash_is_read() -> None:
    """A SHA-256 in hex is taken as written."""
    text = "0123456789abcdefABCDEF" + "0" * 42
    assert called(event(payload={"argsHash": f'"{text}"'})).args_hash == text


def test_started_is_read() -> None:
    """``eval.started`` names the suite; modes are not needed."""
    payload = decode_event(
        event("eval.started", payload={"baselineRunId": '"acme/base"'})
    )[1]
    assert payload == EvalStarted(
        suite_id="acme.evals.refunds",
        suite_version="1.2.0",
        task_count=2,
        baseline_run_id="acme/base",
    )


def test_scored_numbers_keep_their_digits() -> None:
    """A score is the decimal that was written, not the nearest double."""
    payload = scored(event("eval.scored"))
    assert payload == EvalScored(
        task_id="refund-small",
        score=Decimal("0.70"),
        passed=True,
        cost_usd=Decimal("0.0125"),
        latency_ms=1830,
    )
    assert str(payload.score) == "0.70"


def test_numbers_are_remembered_by_their_text() -> None:
    """Numbers of one value keep each its own digits, whichever came first."""
    for text in ("0.7", "0.70", "7E-7", "1", "1.0", "0", "-0", "0.7"):
        payload = scored(event("eval.scored", payload={"score": text}))
        assert text == str(payload.score)


def test_few_and_short_numbers_are_remembered() -> None:
    """What hosts write cannot fill the memory."""
    event_reader._number.cache_clear()
    for number in range(2000):
        scored(event("eval.scored", payload={"costUsd": f"0.{number}1"}))
    refusal(event("eval.scored", payload={"score": "0." + 64 * "1" + 32 * "0" + "111"}))
    remembered = event_reader._number.cache_info()
    assert 1024 == remembered.currsize
    refusal(event("eval.scored", payload={"score": "0." + 10_000 * "1"}))
    assert remembered.misses == event_reader._number.cache_info().misses


@pytest.mark.parametrize("key", ["passed", "latencyMs", "score"])
def test_key_twice_is_seen_where_another_is_absent(key: str) -> None:
    """As many commas as a payload with all its keys, and one of them twice."""
    members = [*payload_members("eval.scored"), ('"schemaValid"', "null")]
    text = dict(members)[f'"{key}"']
    twice = write_object([*members[:-1], (f'"{key}"', text)])
    fault = refusal(event("eval.scored", payload=twice))
    assert DecodeCode.DUPLICATE_KEY is fault.code
    assert f"$.payload.{key}" == fault.path


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("0", "0"),
        ("1", "1"),
        ("1.0", "1.0"),
        ("-0", "0"),
        ("5e-1", "0.5"),
        ("1E-999", "1E-999"),
        ("0." + "3" * 64, "0." + "3" * 64),
    ],
)
def test_score_at_the_edges_is_read(text: str, score: str) -> None:
    """Every spelling of a number from 0 to 1 within the bounds is read."""
    assert scored(event("eval.scored", payload={"score": text})).score == Decimal(score)


@pytest.mark.parametrize(
    "text",
    [
        "-0.1",
        "1.0000000000000000000000001",
        "2",
        '"0.5"',
        "true",
        "null",
        "[]",
        "{}",
        "1e-1000",
        "1e-999999999",
        "0e999999999",
        "1e999999999",
        "0." + "3" * 65,
        "0" * 1 + "." + "1" * 5000,
    ],
)
def test_score_that_is_no_ratio_is_refused(text: str) -> None:
    """Out of range, of another type, or too long or extreme to be exact."""
    fault = refusal(event("eval.scored", payload={"score": text}))
    assert (fault.code, fault.path) == (
        DecodeCode.INVALID_PAYLOAD,
        "$.payload.score",
    )
    assert fault.expected == "expected a number from 0 to 1, of at most 100 characters"


@pytest.mark.parametrize("text", ["-0.01", '"1"', "true", "1e13", "1e-1000", "[1]"])
def test_cost_out_of_bounds_is_refused(text: str) -> None:
    """A cost is a number from 0 to 1e12, so that sums stay finite."""
    fault = refusal(event("eval.scored", payload={"costUsd": text}))
    assert (fault.code, fault.path) == (
        DecodeCode.INVALID_PAYLOAD,
        "$.payload.costUsd",
    )


def test_unreported_figures_are_none() -> None:
    """Absent and null figures are both unreported."""
    absent = scored(event("eval.scored", payload={"costUsd": None, "latencyMs": None}))
    null = scored(
        event("eval.scored", payload={"costUsd": "null", "latencyMs": "null"})
    )
    assert absent == null
    assert (absent.cost_usd, absent.latency_ms) == (None, None)


@pytest.mark.parametrize(
    ("key", "text", "missed"),
    [
        ("fixtureMiss", "true", True),
        ("openwop-fixture-miss", "true", True),
        ("x-fixture-miss", "true", True),
        ("fixtureMiss", "false", False),
        ("x-fixture-miss", "false", False),
        ("vendor.fixture-miss", "true", False),
    ],
)
def test_fixture_miss_is_read_from_its_keys(key: str, text: str, missed: bool) -> None:  # noqa: FBT001  # the expected value
    """A miss is told by the field or by one of the two extension keys."""
    assert scored(event("eval.scored", payload={key: text})).fixture_miss is missed


def test_completed_is_read() -> None:
    """``eval.completed`` carries the host's verdict."""
    assert decode_event(event("eval.completed"))[1] == EvalCompleted(
        aggregate_score=0.9, passed=True, task_count=2, passed_count=1
    )


@pytest.mark.parametrize(
    "ending", [EventType.RUN_COMPLETED, EventType.RUN_FAILED, EventType.RUN_CANCELLED]
)
def test_endings_are_read_by_type(ending: EventType) -> None:
    """Which ending it is follows from the type alone."""
    assert decode_event(event(ending.value))[1] == RunEnded(ending=ending)


def test_v1_spelling_of_a_call_is_a_call() -> None:
    """``agent.toolCalled`` is read, and its spelling is kept."""
    data = event(envelope={"type": '"agent.toolCalled"', "runId": '"run-1"'})
    envelope, payload = decode_event(data)
    assert isinstance(payload, ToolCalled)
    assert (envelope.type, envelope.run_id) == ("agent.toolCalled", "run-1")


@pytest.mark.parametrize("payload", ["null", "[]", "7", '"x"', '{"score":"x"}'])
def test_unknown_type_passes_with_any_payload(payload: str) -> None:
    """A type that is not read passes, whatever its payload holds."""
    envelope, read = decode_event(event("agent.message-sent", payload=payload))
    assert read is None
    assert bytes(envelope.payload) == payload.encode()


@pytest.mark.parametrize("event_type", sorted(PAYLOADS))
def test_keys_of_v2_that_are_not_read_are_carried(event_type: str) -> None:
    """They keep their bytes, and change nothing else."""
    extra = {"nodeId": '"n"', "causationId": '["a", "b"]', "engineVersion": "3"}
    envelope, payload = decode_event(event(event_type, envelope=extra))
    assert payload == decode_event(event(event_type))[1]
    assert envelope.node_id == "n"
    assert bytes(envelope.causation_id) == b'["a", "b"]'
    assert bytes(envelope.engine_version) == b"3"
    assert bytes(envelope.schema_version) == b"1"


@pytest.mark.parametrize("event_type", sorted(PAYLOADS))
def test_unknown_keys_pass(event_type: str) -> None:
    """Keys nobody knows change nothing, on both levels and twice over."""
    extra = {"x-new": "{}", "openwop-a,b": '[1,"x"]', "vendor.\\u00e9": "null"}
    plain = decode_event(event(event_type))
    more = decode_event(event(event_type, envelope=extra))
    assert more[0] == plain[0]
    if event_type != "agent.tool-called":
        assert decode_event(event(event_type, payload=extra))[1] == plain[1]
    else:
        assert called(event(payload=extra)) == plain[1]


def test_unread_key_may_stand_twice() -> None:
    """Only keys that mean something are held to stand once."""
    data = event().replace(b'{"agentId"', b'{"x-a":1,"x-a":2,"agentId"')
    assert called(data).tool_name == "search"


def test_whitespace_changes_nothing() -> None:
    """A pretty-printed event is the same event."""
    plain = event()
    loose = plain.replace(b'":', b'" :\n ').replace(b',"', b' ,\r\n\t"') + b" \n"
    assert decode_event(loose)[0].event_id == decode_event(plain)[0].event_id
    assert called(loose).tool_name == "search"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", DecodeCode.EMPTY),
        (b" \r\n\t", DecodeCode.EMPTY),
        (b"\x00" + event(), DecodeCode.SCHEMA_REGISTRY_FRAMING),
        (b"\x00\x00\x00\x00\x2a" + event(), DecodeCode.SCHEMA_REGISTRY_FRAMING),
        (b"\xef\xbb\xbf" + event(), DecodeCode.BYTE_ORDER_MARK),
        (event().decode().encode("utf-16"), DecodeCode.INVALID_UTF8),
        (event().decode().encode("utf-16-be"), DecodeCode.SCHEMA_REGISTRY_FRAMING),
        (event().decode().encode("utf-16-le"), DecodeCode.NOT_JSON),
        # A line of such a log that is cut at its line end.
        (
            b"\x00" + event().decode().encode("utf-16-le"),
            DecodeCode.SCHEMA_REGISTRY_FRAMING,
        ),
        (b"not json", DecodeCode.NOT_JSON),
        (event()[:-1], DecodeCode.NOT_JSON),
        (event() + b"x", DecodeCode.NOT_JSON),
        (event() + b"\x00", DecodeCode.NOT_JSON),
        (event() + event(), DecodeCode.NOT_JSON),
        (event() + b"\n" + event(), DecodeCode.NOT_JSON),
        (event(envelope={"sequence": "NaN"}), DecodeCode.NOT_JSON),
        (event(payload={"inputs": "Infinity"}), DecodeCode.NOT_JSON),
        (event("eval.scored", payload={"score": "NaN"}), DecodeCode.NOT_JSON),
        (event("eval.scored", payload={"score": "01"}), DecodeCode.NOT_JSON),
        (event("eval.scored", payload={"score": ".5"}), DecodeCode.NOT_JSON),
        (event(payload={"inputs": "[1,]"}), DecodeCode.NOT_JSON),
        (event(payload={"inputs": '"a\nb"'}), DecodeCode.NOT_JSON),
        (event(payload={"inputs": "{'a':1}"}), DecodeCode.NOT_JSON),
        (event(payload={"inputs": '"\\ud800"'}), DecodeCode.LONE_SURROGATE),
        (event(payload={"inputs": '{"\\udc00":1}'}), DecodeCode.LONE_SURROGATE),
        (event(payload={"toolName": '"\\ud83dx"'}), DecodeCode.LONE_SURROGATE),
        (event(envelope={"x-a": '"\\ud83d\\ud83d"'}), DecodeCode.LONE_SURROGATE),
        (b"[]", DecodeCode.NOT_AN_EVENT),
        (b"null", DecodeCode.NOT_AN_EVENT),
        (b"7", DecodeCode.NOT_AN_EVENT),
        (b'"event"', DecodeCode.NOT_AN_EVENT),
    ],
)
def test_bytes_that_are_no_event_are_named(data: bytes, code: DecodeCode) -> None:
    """Each fault of the document as a whole has a code and the path ``$``."""
    fault = refusal(data)
    assert (fault.path, fault.code) == ("$", code)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_called_that(encoding: str) -> None:
    """Each line of a log in UTF-16, cut at the byte of its line end."""
    log = (event() + b"\n" + event() + b"\n").decode().encode(encoding)
    lines = [line for line in log.split(b"\n") if len(line) > 1]
    assert len(lines) == 2
    assert all("UTF-16" in refusal(line).expected for line in lines)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"sequence": "-1"}, "$.sequence"),
        ({"sequence": "1.0"}, "$.sequence"),
        ({"sequence": "1e0"}, "$.sequence"),
        ({"sequence": '"1"'}, "$.sequence"),
        ({"sequence": "true"}, "$.sequence"),
        ({"sequence": "null"}, "$.sequence"),
        ({"sequence": str(INT64_MAX + 1)}, "$.sequence"),
        ({"sequence": "9" * 5000}, "$.sequence"),
        ({"sequence": None}, "$.sequence"),
        ({"eventId": None}, "$.eventId"),
        ({"eventId": '""'}, "$.eventId"),
        ({"eventId": "7"}, "$.eventId"),
        ({"runId": None}, "$.runId"),
        ({"runId": '""'}, "$.runId"),
        ({"runId": f'"{"r" * 513}"'}, "$.runId"),
        ({"type": None}, "$.type"),
        ({"type": '""'}, "$.type"),
        ({"type": "null"}, "$.type"),
        ({"payload": None}, "$.payload"),
        ({"timestamp": None}, "$.timestamp"),
        ({"timestamp": '"yesterday"'}, "$.timestamp"),
        ({"timestamp": '"2026-10-16T15:29:51"'}, "$.timestamp"),
        ({"timestamp": "1718000000"}, "$.timestamp"),
        ({"timestamp": '"0001-01-01T00:00:00+14:00"'}, "$.timestamp"),
        ({"timestamp": '"9999-12-31T23:00:00-14:00"'}, "$.timestamp"),
        ({"nodeId": '""'}, "$.nodeId"),
        ({"nodeId": "1"}, "$.nodeId"),
    ],
)
def test_envelope_faults_are_placed(change: dict[str, str | None], path: str) -> None:
    """A field of the envelope that is missing or wrong is named by its path."""
    fault = refusal(event(envelope=change))
    assert (fault.path, fault.code) == (path, DecodeCode.NOT_AN_EVENT)


def test_sequence_at_the_edges_is_read() -> None:
    """0 and the largest 64-bit integer are positions."""
    for edge in (0, INT64_MAX):
        data = event(envelope={"sequence": str(edge)})
        assert decode_event(data)[0].sequence == edge


def test_time_of_the_outermost_years_survives_any_offset() -> None:
    """Every time that is read can be moved to UTC."""
    for text in ("0002-01-01T00:00:00+23:59", "9998-12-31T23:59:59-23:59"):
        at = decode_event(event(envelope={"timestamp": f'"{text}"'}))[0].timestamp
        assert at.astimezone(UTC).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("event_type", "change", "path"),
    [
        ("agent.tool-called", {"toolName": None}, "$.payload.toolName"),
        ("agent.tool-called", {"toolName": '""'}, "$.payload.toolName"),
        ("agent.tool-called", {"toolName": "null"}, "$.payload.toolName"),
        ("agent.tool-called", {"toolName": '["rm"]'}, "$.payload.toolName"),
        ("agent.tool-called", {"toolName": f'"{"t" * 513}"'}, "$.payload.toolName"),
        ("agent.tool-called", {"argsHash": '"abc"'}, "$.payload.argsHash"),
        (
            "agent.tool-called",
            {"argsHash": f'"{"a" * 64}\\n"'},
            "$.payload.argsHash",
        ),
        ("eval.started", {"suiteId": None}, "$.payload.suiteId"),
        ("eval.started", {"suiteVersion": "1"}, "$.payload.suiteVersion"),
        ("eval.started", {"taskCount": "-1"}, "$.payload.taskCount"),
        ("eval.started", {"taskCount": str(2**63)}, "$.payload.taskCount"),
        ("eval.scored", {"taskId": None}, "$.payload.taskId"),
        ("eval.scored", {"score": None}, "$.payload.score"),
        ("eval.scored", {"passed": "1"}, "$.payload.passed"),
        ("eval.scored", {"passed": '"true"'}, "$.payload.passed"),
        ("eval.scored", {"latencyMs": "1.5"}, "$.payload.latencyMs"),
        ("eval.scored", {"latencyMs": "-1"}, "$.payload.latencyMs"),
        ("eval.scored", {"schemaValid": '"yes"'}, "$.payload.schemaValid"),
        ("eval.scored", {"x-fixture-miss": "1"}, "$.payload.x-fixture-miss"),
        ("eval.completed", {"aggregateScore": "1.01"}, "$.payload.aggregateScore"),
        ("eval.completed", {"aggregateScore": '"1"'}, "$.payload.aggregateScore"),
        ("eval.completed", {"passedCount": None}, "$.payload.passedCount"),
    ],
)
def test_payload_faults_are_placed(
    event_type: str, change: dict[str, str | None], path: str
) -> None:
    """A field of a payload that is missing or wrong is named by its path."""
    fault = refusal(event(event_type, payload=change))
    assert (fault.path, fault.code) == (path, DecodeCode.INVALID_PAYLOAD)


@pytest.mark.parametrize("payload", ["null", "[]", "7", '"x"', "true"])
@pytest.mark.parametrize("event_type", [each.value for each in EventType])
def test_payload_that_is_no_object_is_refused(event_type: str, payload: str) -> None:
    """Every type that is read has an object as payload."""
    fault = refusal(event(event_type, payload=payload))
    assert (fault.path, fault.code) == ("$.payload", DecodeCode.INVALID_PAYLOAD)
    assert fault.expected == "expected an object"


def test_size_is_bounded() -> None:
    """1 MiB is read, one byte more is not."""
    padding = MAX_EVENT_BYTES - len(event(payload={"inputs": '""'}))
    data = event(payload={"inputs": f'"{"a" * padding}"'})
    assert len(data) == MAX_EVENT_BYTES
    assert called(data).tool_name == "search"
    fault = refusal(data + b" ")
    assert (fault.path, fault.code) == ("$", DecodeCode.TOO_LARGE)


# The event and its payload are two levels, the innermost value none.
INNER_DEPTH = MAX_DEPTH - 2


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("place", ["inputs", "x-unknown"])
def test_depth_is_bounded(opening: str, closing: str, place: str) -> None:
    """200 levels are read, 201 are refused, in skipped values too."""

    def nested(depth: int) -> bytes:
        value = opening * depth + "1" + closing * depth
        return event(payload={place: value, "callId": '"[[[[{{{"'})

    assert called(nested(INNER_DEPTH)).tool_name == "search"
    for depth in (INNER_DEPTH + 1, 900, 1_100, 100_000):
        fault = refusal(nested(depth))
        assert (fault.path, fault.code) == ("$", DecodeCode.TOO_DEEP)


@pytest.mark.parametrize(
    "before", ['"\\\\"', '"\\\\\\""', '"\\\\\\\\"', '"\\"[{"', '"[\\u005b"']
)
def test_escapes_hide_no_brackets(before: str) -> None:
    """Strings that end in escapes end where they end."""

    def nested(depth: int) -> bytes:
        value = "[" * depth + "]" * depth
        return event(payload=f'{{"callId":{before},"inputs":{value},"toolName":"a"}}')

    assert called(nested(INNER_DEPTH)).tool_name == "a"
    assert refusal(nested(INNER_DEPTH + 1)).code is DecodeCode.TOO_DEEP


def test_many_brackets_are_not_depth() -> None:
    """A long flat value, and brackets inside strings, are no nesting."""
    flat = "[" + ",".join(["[]", '{"a":"[[[[["}'] * 500) + "]"
    quoted = '"' + '[{\\"' * 1_000 + '"'
    for value in (flat, quoted):
        assert called(event(payload={"inputs": value})).tool_name == "search"


def test_unclosed_brackets_are_refused_whatever_their_number() -> None:
    """A flood of opening brackets is refused without being parsed."""
    assert refusal(b"[" * MAX_EVENT_BYTES).code is DecodeCode.TOO_DEEP
    assert refusal(b"[" * 150).code is DecodeCode.NOT_AN_EVENT
    assert refusal(b'{"a":' * 150).code is DecodeCode.NOT_JSON


def _under(frames: int, call: Callable[[], T]) -> T:
    return call() if frames == 0 else _under(frames - 1, call)


def test_verdict_does_not_depend_on_the_callers_stack() -> None:
    """The deepest event that is read is read far down a caller's stack too."""
    depth = 1
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        depth += 1
    room = sys.getrecursionlimit() - depth - MAX_DEPTH - 50
    deepest = event(payload={"inputs": "[" * INNER_DEPTH + "]" * INNER_DEPTH})
    too_deep = event(payload={"inputs": "[" * MAX_DEPTH + "]" * MAX_DEPTH})
    assert room > 300
    assert _under(room, lambda: called(deepest)).tool_name == "search"
    assert _under(room, lambda: refusal(too_deep)).code is DecodeCode.TOO_DEEP


@pytest.mark.parametrize(
    "text",
    [
        event(payload={"inputs": '{"a":"?"}'}),
        event(payload={"inputs": '{"?":1}'}),
        event(payload={"toolName": '"?"'}),
        event(payload={"x-a": '"?"'}),
        event(envelope={"x-a": '"?"'}),
        event(envelope={"?": "1"}),
        event(envelope={"runId": '"?"'}),
    ],
)
@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"]
)
def test_invalid_utf8_is_refused_anywhere(text: bytes, bad: bytes) -> None:
    """Bytes that are no UTF-8 are found in fields that are skipped, too."""
    fault = refusal(text.replace(b"?", bad))
    assert (fault.path, fault.code) == ("$", DecodeCode.INVALID_UTF8)


def test_text_beyond_ascii_is_read() -> None:
    """Names in any script come out as written, raw or escaped."""
    raw = called(event(payload={"toolName": '"søk-検索-🔎"'}))
    escaped = called(
        event(payload={"toolName": '"s\\u00f8k-\\u691c\\u7d22-\\ud83d\\udd0e"'})
    )
    assert raw.tool_name == escaped.tool_name == "søk-検索-🔎"


def _spellings(key: str) -> list[str]:
    """The plain spelling of a key, and two with escapes."""
    return [
        key,
        f"\\u{ord(key[0]):04x}{key[1:]}",
        f"{key[:-1]}\\u{ord(key[-1]):04X}",
    ]


ENVELOPE_KEYS = [key.strip('"') for key in ENVELOPE] + ["payload"]
PAYLOAD_KEYS = [
    (event_type, key.strip('"'))
    for event_type, members in PAYLOADS.items()
    for key in members
    if event_type.startswith(("eval.", "agent.tool-"))
    if key != '"modes"'
]


@pytest.mark.parametrize("event_type", sorted(PAYLOADS))
@pytest.mark.parametrize("key", ENVELOPE_KEYS)
def test_envelope_key_twice_is_refused(event_type: str, key: str) -> None:
    """A key of the envelope stands once, for every type and in any spelling."""
    data = event(event_type)
    values = {
        **ENVELOPE,
        '"type"': f'"{event_type}"',
        '"payload"': write_object(payload_members(event_type)),
    }
    value = values[f'"{key}"'].encode()
    for spelling in _spellings(key):
        member = b'"' + spelling.encode() + b'":' + value
        for twice in (
            b"{" + member + b"," + data[1:],
            data[:-1] + b"," + member + b"}",
            data[:-1] + b", " + member.replace(b'":', b'" : ') + b"\n}",
        ):
            fault = refusal(twice)
            assert (fault.path, fault.code) == (f"$.{key}", DecodeCode.DUPLICATE_KEY)


def test_payload_twice_is_refused_though_both_are_valid() -> None:
    """Two payloads are a fault wherever the second stands."""
    data = event()
    second = event(payload={"toolName": '"rm"'})
    start = second.index(b'"payload"')
    twice = data[:-1] + b"," + second[start:-1] + b"}"
    fault = refusal(twice)
    assert (fault.path, fault.code) == ("$.payload", DecodeCode.DUPLICATE_KEY)


@pytest.mark.parametrize(("event_type", "key"), PAYLOAD_KEYS)
def test_payload_key_twice_is_refused(event_type: str, key: str) -> None:
    """A key of a payload stands once, in any spelling, also with equal values."""
    value = PAYLOADS[event_type][f'"{key}"'].encode()
    data = event(event_type)
    for spelling in _spellings(key):
        member = b'"' + spelling.encode() + b'":' + value
        twice = data.replace(b'"payload":{', b'"payload":{' + member + b",")
        fault = refusal(twice)
        assert (fault.path, fault.code) == (
            f"$.payload.{key}",
            DecodeCode.DUPLICATE_KEY,
        )


def test_tool_name_cannot_be_hidden_behind_another() -> None:
    """The classic case: one parser sees ``ok``, the other ``rm``."""
    for first, second in (("toolName", "toolName"), ("tool\\u004eame", "toolName")):
        data = event(
            payload=f'{{"{first}":"ok","{second}":"rm","agentId":"a","callId":"c"}}'
        )
        assert refusal(data).path == "$.payload.toolName"


@pytest.mark.parametrize(
    "value",
    [
        '{"toolName":"a","toolName":"b"}',
        '{"a,b":",,,","type":"x","eventId":"y","payload":{}}',
        '"text, with, commas"',
        '"\\"toolName\\":\\"rm\\""',
    ],
)
@pytest.mark.parametrize("place", ["inputs", "principal", "x-any"])
def test_keys_inside_other_values_are_not_duplicates(value: str, place: str) -> None:
    """What stands inside a value that is not read is the host's business."""
    assert called(event(payload={place: value})).tool_name == "search"


def test_commas_in_names_are_not_duplicates() -> None:
    """Commas where none are usual only take the longer way."""
    data = event(
        envelope={"runId": '"a,b,c"', "nodeId": '"n,1"', "causationId": "[1,2]"},
        payload={"toolName": '"a,b"', "callId": '","'},
    )
    assert called(data).tool_name == "a,b"


CANARY = "CANARY"
_CANARY_EVENTS = [
    f"{CANARY}",
    f'"{CANARY}"',
    f'{{"{CANARY}":1}}',
    event(envelope={"timestamp": f'"{CANARY}"'}).decode(),
    event(envelope={"sequence": f'"{CANARY}"'}).decode(),
    event(envelope={"eventId": f'["{CANARY}"]'}).decode(),
    event(envelope={CANARY: f'"{CANARY}\\ud800"'}).decode(),
    event(payload={"argsHash": f'"{CANARY}"'}).decode(),
    event(payload={"toolName": f'{{"{CANARY}":1}}'}).decode(),
    event(payload=f'"{CANARY}"').decode(),
    event(payload={"inputs": f'{{"{CANARY}":}}'}).decode(),
    event("eval.scored", payload={"score": f'"{CANARY}"'}).decode(),
    event("eval.scored", payload={"passed": f'"{CANARY}"'}).decode(),
    event("eval.scored", payload={"fixtureMiss": f'"{CANARY}"'}).decode(),
    event("eval.started", payload={"taskCount": f'"{CANARY}"'}).decode(),
    event("eval.completed", payload={"passed": f'"{CANARY}"'}).decode(),
    event(payload=f'{{"toolName":"{CANARY}","toolName":"{CANARY}"}}').decode(),
    event(payload={"inputs": f'"{CANARY}"' + " " * MAX_EVENT_BYTES}).decode(),
    event(payload={CANARY: f'"{CANARY}"', "x": "[" * 999 + "]" * 999}).decode(),
    f'{{"x - at `$.{CANARY}`":1}}',
]


@pytest.mark.parametrize("text", _CANARY_EVENTS)
def test_no_text_of_the_event_is_in_the_error(text: str) -> None:
    """Neither message, fields, cause nor traceback quote the event."""
    fault = refusal(text.encode())
    shown = "".join(traceback.format_exception(fault)) + repr(vars(fault))
    assert CANARY not in shown.replace("_CANARY_EVENTS", "")
    assert fault.__cause__ is None
    assert fault.__context__ is None


def test_invalid_utf8_error_quotes_no_bytes() -> None:
    """The error of the text decoder, which holds the bytes, is not kept."""
    fault = refusal(event(payload={"inputs": f'"{CANARY}?"'}).replace(b"?", b"\xff"))
    assert fault.__cause__ is None
    assert fault.__context__ is None


@pytest.mark.parametrize(
    ("change", "conforms"),
    [
        ({}, True),
        ({"runId": '"anon:acme/run-0000000000000001"'}, True),
        ({"nodeId": '"a:b"'}, True),
        ({"runId": '"run-0000000000000001"'}, False),
        ({"runId": '"a/b/run-0000000000000001"'}, False),
        ({"runId": '"acme/run-0000000000000001\\n"'}, False),
        ({"eventId": '"short"'}, False),
        ({"nodeId": '"a b"'}, False),
        ({"type": '"agent.toolCalled"'}, False),
    ],
)
def test_ids_outside_the_grammar_are_told(
    change: dict[str, str | None],
    conforms: bool,  # noqa: FBT001  # the expected value
) -> None:
    """Events with v1 ids are read, and told apart."""
    assert is_v2_grammar(decode_event(event(envelope=change))[0]) is conforms
