"""How a run is stored: what comes back, and what is refused."""

import msgspec
import pytest

from streams.core import rows
from streams.core.run import RunState
from tests.factories import RUN, Log, apply, fold, make_context, make_suite, task

SUITE = make_suite(
    task("t", {"steps": [{"tool": "a", "args": {"x": 1}, "argsMatch": "subset"}]})
)
CONTEXT = make_context(SUITE)


def stored() -> RunState:
    log = Log().start().call("a", {"x": 1, "y": 2}, node="n1")
    log.score("t", "0.70", costUsd=0.1).completed().end()
    state, _ = fold(log.lines, CONTEXT, hold=True)
    state.seal(2)
    return state


def row_of(state: RunState, **fields: object) -> rows.RunRow:
    row = rows.RunRow(
        rows.ROW_VERSION,
        rows.RowStatus.OPEN,
        12.5,
        SUITE.key,
        graded=True,
        waits=True,
        flags=rows.flags_of(state),
        latest_at=state.latest_at,
        unsealed=sorted(state.unsealed),
        published={"": rows.Published(3, b"12345678", passed=True)},
        tail=list(state.facts.values()),
    )
    return msgspec.structs.replace(row, **fields)


def test_a_row_comes_back_as_it_was() -> None:
    """Every field, and the state in it."""
    state = stored()
    row = row_of(state)
    again = rows.decode_row(rows.encode_row(row))
    assert row == again
    restored = rows.restore_state(RUN, again, [], CONTEXT, hold=True)
    for name in [
        "facts",
        "order",
        "scores",
        "unsealed",
        "call_count",
        "latest_at",
        "started",
        "suite",
        "completed",
        "ended",
        "conflict",
        "overflow",
        "calls_dropped",
        "misrouted",
        "idle",
    ]:
        assert getattr(state, name) == getattr(restored, name), name


def test_a_restored_run_goes_on_holding() -> None:
    """New scores wait if the run's did, and not otherwise."""
    data = rows.encode_row(row_of(stored()))
    line = Log(first=9).score("t").lines[0]
    for hold in (True, False):
        state = rows.restore_state(RUN, rows.decode_row(data), [], CONTEXT, hold=hold)
        apply(state, line, CONTEXT)
        assert hold is (9 in state.unsealed)


def test_the_head_is_the_start_of_the_row() -> None:
    """Enough for sweeps, without the facts."""
    head = rows.decode_head(rows.encode_row(row_of(stored())))
    assert (1, rows.RowStatus.OPEN, 12.5, SUITE.key, True, True) == (
        head.version,
        head.status,
        head.touched_at_s,
        head.suite_key,
        head.graded,
        head.waits,
    )


def test_facts_may_stand_in_blocks() -> None:
    """In any order of blocks; the row's tail is one more."""
    state = stored()
    facts = list(state.facts.values())
    blocks = [
        rows.decode_block(rows.encode_block(part)) for part in (facts[2:4], facts[:2])
    ]
    row = row_of(state, tail=facts[4:], blocks=2)
    restored = rows.restore_state(RUN, row, blocks, CONTEXT, hold=True)
    assert state.facts == restored.facts
    assert state.order == restored.order


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("conflict", rows.RowFlag.CONFLICT),
        ("overflow", rows.RowFlag.OVERFLOW),
        ("calls_dropped", rows.RowFlag.CALLS_DROPPED),
        ("misrouted", rows.RowFlag.MISROUTED),
        ("idle", rows.RowFlag.IDLE),
        ("unreadable", rows.RowFlag.UNREADABLE),
    ],
)
def test_each_flag_is_its_own(name: str, flag: rows.RowFlag) -> None:
    """Set, stored and restored alone."""
    state = stored()
    assert 0 == rows.flags_of(state)
    setattr(state, name, True)
    assert flag == rows.flags_of(state)
    restored = rows.restore_state(RUN, row_of(state), [], CONTEXT, hold=True)
    names = ["conflict", "overflow", "calls_dropped", "misrouted", "idle", "unreadable"]
    assert [name] == [other for other in names if getattr(restored, other)]


def test_a_fact_stored_twice_is_one_fact() -> None:
    """In a block and in the tail, as after a crash between the two."""
    state = stored()
    facts = list(state.facts.values())
    restored = rows.restore_state(RUN, row_of(state), [facts[:3]], CONTEXT, hold=True)
    assert state.facts == restored.facts
    assert (state.order, 1) == (restored.order, restored.call_count)


def test_a_seal_of_a_fact_that_is_gone_is_dropped() -> None:
    """A sequence that no fact has waits for nothing."""
    row = row_of(stored(), unsealed=[2, 99])
    assert {2} == rows.restore_state(RUN, row, [], CONTEXT, hold=True).unsealed


def test_a_marker_says_little() -> None:
    """Status, time, suite and the last verdict."""
    for passed in (True, False):
        row = rows.decode_row(rows.marker(7.0, SUITE.key, passed=passed))
        assert (rows.RowStatus.MARKER, 7.0, SUITE.key, [], passed) == (
            row.status,
            row.touched_at_s,
            row.suite_key,
            row.tail,
            row.published[""].passed,
        )
        assert rows.Published(0, b"", passed) == row.published[""]


def test_an_older_row_is_read() -> None:
    """Fields that came later have defaults."""
    data = msgspec.msgpack.encode([1, 0, 3.5])
    row = rows.decode_row(data)
    assert ("", False, False, 0, None, [], {}) == (
        row.suite_key,
        row.graded,
        row.waits,
        row.flags,
        row.latest_at,
        row.tail,
        row.published,
    )


def test_two_verdicts_in_a_row_contradict_whatever_its_flags_say() -> None:
    """A row may be older than the rule that they do."""
    log = Log().start().completed(1, passed=True).completed(1, passed=False)
    state, _ = fold(log.lines, CONTEXT)
    for flags in (rows.RowFlag.CONFLICT, 0):
        row = row_of(state, flags=int(flags))
        restored = rows.restore_state(RUN, row, [], CONTEXT, hold=False)
        assert restored.is_contradictory


def test_a_newer_field_is_passed_over() -> None:
    """A row of this version with a field more."""
    whole = msgspec.msgpack.decode(rows.encode_row(row_of(stored())))
    data = msgspec.msgpack.encode([*whole, "from next year"])
    assert row_of(stored()) == rows.decode_row(data)


def test_a_newer_version_is_refused() -> None:
    """Its meaning may have changed; the error says what to do by its type."""
    data = rows.encode_row(row_of(stored(), version=rows.ROW_VERSION + 1))
    for decode in (rows.decode_head, rows.decode_row):
        with pytest.raises(rows.RowError, match=r"row version <= 1, got 2"):
            decode(data)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93\x01\x00\xa1x"])
def test_bytes_that_are_no_row_are_refused(data: bytes) -> None:
    """Nothing of them stands in the error."""
    for decode in (rows.decode_head, rows.decode_row):
        with pytest.raises(rows.RowError, match=r"^expected a run row$"):
            decode(data)


def test_a_row_with_a_broken_body_is_refused() -> None:
    """The head may be whole where the rest is not."""
    data = msgspec.msgpack.encode([1, 0, 3.5, "", False, False, "no flags"])
    assert 1 == rows.decode_head(data).version
    with pytest.raises(rows.RowError, match=r"^expected a run row$"):
        rows.decode_row(data)


def test_bytes_that_are_no_block_are_refused() -> None:
    """Likewise."""
    with pytest.raises(rows.RowError, match=r"^expected a block of facts$"):
        rows.decode_block(b"\x91\x01")


def test_no_content_is_stored() -> None:
    """Neither keys nor values of arguments, the suite known or not."""
    line = Log().call("a", {"canary-key": "canary-value"}).lines[0]
    for context in (CONTEXT, make_context()):
        state, _ = fold([*Log(first=5).start().lines, line], context)
        data = rows.encode_row(row_of(state))
        assert b"canary" not in data
