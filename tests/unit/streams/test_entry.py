"""A run's rows: every fact in one place, and blocks that are written once."""

from typing import cast

from streams.agents.entry import Entry, load_entry
from streams.core.evidence import Call, Fact
from streams.core.rows import (
    BLOCK_FACTS,
    RowStatus,
    RunRow,
    decode_block,
    decode_row,
    encode_block,
    encode_row,
)
from streams.core.run import RunState
from streams.tables import PartitionRows, block_key, run_key
from tests.factories import RUN, Log, apply, make_context

CONTEXT = make_context()
CALLS = 201

Rows = dict[bytes, bytes | None]


def log_of(calls: int) -> list[bytes]:
    return Log().start().calls(*[f"tool-{n}" for n in range(calls)]).lines


def load(rows: Rows) -> Entry:
    held = cast(PartitionRows, rows)
    return load_entry(RUN, rows[run_key(RUN)] or b"", held, CONTEXT, hold=False)


def stored(rows: Rows) -> list[Fact]:
    """The facts of all rows, in the order in which they are stored."""
    row = decode_row(rows[run_key(RUN)] or b"")
    blocks = [decode_block(rows[block_key(RUN, n)] or b"") for n in range(row.blocks)]
    return [fact for facts in (*blocks, row.tail) for fact in facts]


def sequences(facts: list[Fact]) -> list[int]:
    return [fact.sequence for fact in facts]


def test_facts_move_to_blocks_that_are_written_once() -> None:
    """A block is 64 facts, and is made where 64 more are left for the row."""
    entry, rows = Entry(RunState(RUN)), cast(Rows, {})
    tails, blocks = [], []
    lines = log_of(CALLS)
    for first in range(0, len(lines), 50):
        for line in lines[first : first + 50]:
            apply(entry.state, line, CONTEXT)
        written = entry.rows(0.0)
        blocks += [key for key in written if key != run_key(RUN)]
        rows |= written
        tails.append(len(entry.tail()))
    # 50, 100; 150 - 64; 86 + 50 = 136, and 136 - 64; 72 + 2.
    assert [50, 100, 86, 72, 74] == tails
    assert [block_key(RUN, 0), block_key(RUN, 1)] == blocks
    assert list(range(CALLS + 1)) == sequences(stored(rows))
    assert 2 * BLOCK_FACTS == entry.in_blocks


def test_many_facts_at_once_fill_several_blocks() -> None:
    """202 facts: two blocks, as a third would leave fewer than 64 in the row."""
    entry = Entry(RunState(RUN))
    for line in log_of(CALLS):
        apply(entry.state, line, CONTEXT)
    rows = entry.rows(0.0)
    assert [64, 64] == [
        len(decode_block(rows[block_key(RUN, n)] or b"")) for n in (0, 1)
    ]
    assert list(range(CALLS + 1)) == sequences(stored(rows))
    assert 202 - 128 == len(entry.tail())


def test_what_is_read_back_goes_on_where_it_was() -> None:
    """A run that was let go of and read back stores what is new, and that once."""
    lines = log_of(CALLS)
    entry = Entry(RunState(RUN))
    for line in lines[:150]:
        apply(entry.state, line, CONTEXT)
    rows = entry.rows(0.0)
    again = load(rows)
    assert (1, 64) == (again.blocks, again.in_blocks)
    for line in lines[150:]:
        apply(again.state, line, CONTEXT)
    written = again.rows(0.0)
    assert {run_key(RUN), block_key(RUN, 1)} == written.keys()
    assert list(range(CALLS + 1)) == sequences(stored(rows | written))


def test_a_replaced_fact_lays_all_out_anew() -> None:
    """An event with a smaller id takes another's place, wherever that is stored."""
    lines = log_of(CALLS)
    entry = Entry(RunState(RUN))
    for line in lines[:150]:
        apply(entry.state, line, CONTEXT)
    entry.rows(0.0)
    apply(entry.state, Log(first=7).call("wire", event_id="-" * 16).lines[0], CONTEXT)
    rows = entry.rows(0.0)
    assert {run_key(RUN), block_key(RUN, 0)} == rows.keys()
    facts = stored(rows)
    assert list(range(150)) == sequences(facts)
    assert isinstance(facts[7], Call)
    assert "wire" == facts[7].tool


def test_a_fact_in_a_block_and_in_the_row_is_one() -> None:
    """A worker killed between two of a run's rows leaves facts in both."""
    entry = Entry(RunState(RUN))
    for line in log_of(CALLS):
        apply(entry.state, line, CONTEXT)
    facts = entry.tail()
    # The block came to be written, and the row is the one before it, but for 3.
    row = RunRow(1, RowStatus.OPEN, 0.0, blocks=1, tail=facts[30:100])
    rows: Rows = {
        block_key(RUN, 0): encode_block(facts[:BLOCK_FACTS]),
        run_key(RUN): encode_row(row),
    }
    again = load(rows)
    assert list(range(100)) == again.state.order
    assert list(range(64, 100)) == sequences(again.tail())
    assert list(range(100)) == sequences(stored(rows | again.rows(0.0)))
