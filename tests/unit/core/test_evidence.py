"""What is kept of a call's arguments, and what is not."""

import hashlib
from typing import Any

import msgspec
import pytest

from schemas.codec import decode_event
from schemas.events import ToolCalled
from streams.core.arguments import ArgsDigester
from streams.core.evidence import (
    Call,
    call_from,
    hidden_key,
    settle_arguments,
    trim,
)
from streams.core.trajectory import ArgsNeed
from tests.factories import DIGESTER, Log

HASH = "ab" * 32


def kept(
    need: ArgsNeed, inputs: Any = None, keys: set[str] | None = None, **fields: Any
) -> Call:
    envelope, payload = decode_event(Log().call("a", inputs, **fields).lines[0])
    assert isinstance(payload, ToolCalled)
    return call_from(envelope, payload, need, DIGESTER, keys)


def of(form: bytes) -> bytes:
    """The digest by its definition: 16 bytes of the SHA-256 of the JCS form."""
    return hashlib.sha256(form).digest()[:16]


def test_nothing_is_kept_where_nothing_is_compared() -> None:
    """Neither of inputs nor of a hash."""
    call = kept(ArgsNeed.NONE, {"x": 1}, args_hash=HASH)
    assert (None, None) == (call.digest, call.parts)


def test_the_whole_is_digested_in_its_canonical_form() -> None:
    """Key order and spelling of numbers do not count."""
    call = kept(ArgsNeed.WHOLE, {"y": 2.0, "x": 1})
    assert (of(b'{"x":1,"y":2}'), None) == (call.digest, call.parts)


def test_the_hosts_hash_goes_before_the_inputs() -> None:
    """``argsHash`` is used if present."""
    for need in (ArgsNeed.WHOLE, ArgsNeed.PARTS):
        assert bytes.fromhex(HASH)[:16] == kept(need, {"x": 1}, args_hash=HASH).digest
        assert bytes.fromhex(HASH)[:16] == kept(need, args_hash=HASH).digest


def test_parts_are_digested_by_key() -> None:
    """All keys, hidden, where no suite is known; else those that it names."""
    call = kept(ArgsNeed.PARTS, {"x": 1, "y": "b"})
    hidden = {
        hidden_key("x", DIGESTER): of(b"1"),
        hidden_key("y", DIGESTER): of(b'"b"'),
    }
    assert (of(b'{"x":1,"y":"b"}'), hidden) == (call.digest, call.parts)
    call = kept(ArgsNeed.PARTS, {"x": 1, "y": "b"}, {"y", "z"})
    assert {"y": of(b'"b"')} == call.parts


@pytest.mark.parametrize("need", [ArgsNeed.WHOLE, ArgsNeed.PARTS])
def test_no_inputs_are_no_evidence(need: ArgsNeed) -> None:
    """Absent is not null, and not an empty object."""
    assert (None, None) == (kept(need).digest, kept(need).parts)
    empty = kept(need, {})
    assert of(b"{}") == empty.digest
    assert ({} if need is ArgsNeed.PARTS else None) == empty.parts


def test_arguments_that_are_no_object_have_no_parts() -> None:
    """A list has a whole, and nothing by key."""
    call = kept(ArgsNeed.PARTS, [1])
    assert (of(b"[1]"), None) == (call.digest, call.parts)


@pytest.mark.parametrize("need", [ArgsNeed.WHOLE, ArgsNeed.PARTS])
def test_arguments_without_a_canonical_form_are_no_evidence(need: ArgsNeed) -> None:
    """One key twice: still a call; the host's hash still counts."""
    line = Log().call("a", {"x": 1}).lines[0].replace(b'{"x":1}', b'{"x":1,"x":2}')
    envelope, payload = decode_event(line)
    assert isinstance(payload, ToolCalled)
    call = call_from(envelope, payload, need, DIGESTER)
    assert (None, None) == (call.digest, call.parts)
    hashed = msgspec.structs.replace(payload, args_hash=HASH)
    call = call_from(envelope, hashed, need, DIGESTER)
    assert (bytes.fromhex(HASH)[:16], None) == (call.digest, call.parts)


def test_a_hidden_key_is_a_digest_of_it() -> None:
    """Same key, same name; not readable; with a secret nobody can guess it."""
    assert hidden_key("x", DIGESTER) == "~" + of(b'"x"').hex()
    assert hidden_key("x", DIGESTER) != hidden_key("y", DIGESTER)
    assert hidden_key("x", ArgsDigester(b"secret")) != hidden_key("x", DIGESTER)


NAMED = {hidden_key(key, DIGESTER): key for key in ("x", "z")}


@pytest.mark.parametrize("need", list(ArgsNeed))
def test_trimming_gives_what_would_have_been_kept(need: ArgsNeed) -> None:
    """As if the suite had been known on arrival; trimming twice changes nothing."""
    inputs = {"x": 1, "y": 2}
    keys = set(NAMED.values()) if need is ArgsNeed.PARTS else set()
    named = NAMED if need is ArgsNeed.PARTS else {}
    trimmed = trim(kept(ArgsNeed.PARTS, inputs), need, named)
    assert kept(need, inputs, keys) == trimmed
    assert trimmed is trim(trimmed, need, named)


def test_a_hash_is_trimmed_where_nothing_is_compared() -> None:
    """Also where it is all that was kept: the event carried no inputs."""
    hashed = kept(ArgsNeed.PARTS, args_hash=HASH)
    assert (bytes.fromhex(HASH)[:16], None) == (hashed.digest, hashed.parts)
    assert kept(ArgsNeed.NONE, args_hash=HASH) == trim(hashed, ArgsNeed.NONE, {})
    assert hashed is trim(hashed, ArgsNeed.WHOLE, {})


def test_a_call_without_evidence_stays_as_it_is() -> None:
    """There is nothing to trim."""
    call = kept(ArgsNeed.NONE)
    for need in ArgsNeed:
        assert call is trim(call, need, NAMED)


def call(digest: bytes | None, parts: dict[str, bytes] | None = None) -> Call:
    return Call(1, "evt", "a", digest, parts)


LOW, HIGH = call(b"1"), call(b"2")
LOW_A, LOW_B = call(b"1", {"x": b"1"}), call(b"1", {"x": b"2"})


@pytest.mark.parametrize(
    ("stands", "falls", "disputed"),
    [
        (LOW, HIGH, ArgsNeed.WHOLE),
        (HIGH, call(None), ArgsNeed.WHOLE),
        (LOW_A, LOW_B, ArgsNeed.PARTS),
        (LOW_B, LOW, ArgsNeed.PARTS),
        (call(b"1", {}), LOW, ArgsNeed.PARTS),
        (call(b"1", {"x": b"1"}), call(b"1", {"y": b"1"}), ArgsNeed.PARTS),
        (LOW_B, call(b"2", {"x": b"1"}), ArgsNeed.WHOLE),
    ],
)
def test_of_two_arguments_the_same_stand_in_either_order(
    stands: Call, falls: Call, disputed: ArgsNeed
) -> None:
    """Evidence before none, then the smaller; marked with what tells them apart."""
    expected = msgspec.structs.replace(stands, disputed=disputed)
    assert expected == settle_arguments(stands, falls)
    assert expected == settle_arguments(falls, stands)


def test_equal_arguments_are_not_disputed() -> None:
    """The first stays, with the disputes it had."""
    assert LOW is settle_arguments(LOW, call(b"1"))
    marked = msgspec.structs.replace(LOW, disputed=ArgsNeed.PARTS)
    assert marked is settle_arguments(marked, LOW)


def test_the_least_evidence_that_tells_them_apart_is_kept() -> None:
    """Three deliveries: wholes that differ tell more surely than parts."""
    parts = settle_arguments(LOW_A, LOW_B)
    assert ArgsNeed.PARTS is parts.disputed
    assert ArgsNeed.WHOLE is settle_arguments(parts, HIGH).disputed
    whole = settle_arguments(LOW_A, HIGH)
    assert ArgsNeed.WHOLE is settle_arguments(whole, LOW_B).disputed
    assert ArgsNeed.WHOLE is settle_arguments(LOW_B, whole).disputed
