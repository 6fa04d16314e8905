"""Which runs an event that cannot be read is evidence of."""

import pytest

from schemas.codec import decode_event, runs_of_rejected
from schemas.errors import DecodeError
from schemas.events import MAX_EVENT_BYTES, MAX_RUN_ID_LENGTH
from tests.unit.schemas.event_samples import event

RUN = "acme/run-0000000000000001"


def _with_inputs(text: str) -> bytes:
    return event(payload={"inputs": text})


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(_with_inputs('"\\ud83d"'), id="surrogate"),
        pytest.param(_with_inputs('{"\\ud83d":1}'), id="surrogate-key"),
        pytest.param(_with_inputs("[" * 9000 + "]" * 9000), id="deep"),
        pytest.param(_with_inputs("NaN"), id="no-number"),
        pytest.param(_with_inputs('"' + "a" * MAX_EVENT_BYTES + '"'), id="large"),
        pytest.param(_with_inputs('"\xff"').replace(b"\xc3", b""), id="no-utf8"),
        pytest.param(event(payload={"toolName": "7"}), id="payload"),
        pytest.param(event(envelope={"type": "7"}), id="type"),
        pytest.param(event(envelope={"type": "null"}), id="type-null"),
        pytest.param(event(envelope={"type": '"\\ud800"'}), id="type-surrogate"),
        pytest.param(event(envelope={"type": None}), id="no-type"),
        pytest.param(b"\xef\xbb\xbf" + event(), id="byte-order-mark"),
        pytest.param(b"\x00\x00\x00\x00\x07" + event(), id="framing"),
        pytest.param(event()[:-1], id="breaks-off"),
        pytest.param(event()[:-1] + b',"x":"' + b'\\"' * 500_000, id="open-string"),
        pytest.param(event()[:-1] + b',"x":"a\\', id="open-escape"),
    ],
)
def test_the_run_is_found_whatever_broke_the_event(data: bytes) -> None:
    """A forbidden call must not vanish because its content is odd."""
    with pytest.raises(DecodeError):
        decode_event(data)
    assert runs_of_rejected(data) == (RUN,)


def test_each_run_that_is_named_is_found() -> None:
    """Parsers disagree on which of two equal keys counts, so both are closed."""
    twice = b'{"run\\u0049d":"acme/other",' + event()[1:]
    assert runs_of_rejected(twice) == ("acme/other", RUN)
    assert runs_of_rejected(event() + event()) == (RUN,)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'"',
        b"not json",
        b'["runId","x"]',
        b'{"a":"runId","b":"x"}',
        b'{"runId":["x"],"payload":{"runId":"y"}}',
        b'{"runId":7}',
        b'{"runId":""}',
        b'{"runId":"breaks off',
        b'{"runId":"%s"}' % (b"x" * (MAX_RUN_ID_LENGTH + 1)),
    ],
)
def test_what_names_no_run_closes_none(data: bytes) -> None:
    """Only what stands directly in the event is its run, not its content."""
    assert runs_of_rejected(data) == ()


def test_a_type_that_is_not_read_closes_no_run() -> None:
    """It would have been passed over whole, too."""
    other = event(envelope={"type": '"agent.thought"'})[:-1]
    assert runs_of_rejected(other) == ()
    # Of two types, the one that is read decides.
    assert runs_of_rejected(other + b',"type":"eval.scored"') == (RUN,)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x00\x00\x00\x00\x07\x02acme", id="framing"),
        pytest.param(b"[" + event() + b"]", id="list"),
        pytest.param(event(envelope={"runId": None}), id="no-run"),
        pytest.param(b'{"payload":{"inputs":"', id="breaks-off-before-the-run"),
    ],
)
def test_the_key_names_the_run_where_the_bytes_do_not(data: bytes) -> None:
    """Hosts key events by their run, whatever became of the value."""
    assert runs_of_rejected(data) == ()
    assert runs_of_rejected(data, RUN.encode()) == (RUN,)


def test_a_key_that_names_another_run_closes_both() -> None:
    """Nobody can say which of the two the event was of."""
    broken = event()[:-1]
    assert runs_of_rejected(broken, b"acme/other") == (RUN, "acme/other")
    assert runs_of_rejected(broken, RUN.encode()) == (RUN,)


@pytest.mark.parametrize(
    "key", [None, b"", b"\xff\xfe", b"x" * (MAX_RUN_ID_LENGTH + 1)]
)
def test_a_key_that_is_no_run_id_closes_none(key: bytes | None) -> None:
    """Nor does the key of an event that would not have been read."""
    assert runs_of_rejected(b"{", key) == ()
    other = event(envelope={"type": '"agent.thought"'})[:-1]
    assert runs_of_rejected(other, RUN.encode()) == ()
