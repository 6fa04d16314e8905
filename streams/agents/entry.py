"""A run as the worker holds it: its state, and how far that is written."""

from itertools import islice

from streams.core.context import Context
from streams.core.evidence import Fact
from streams.core.rows import (
    BLOCK_FACTS,
    ROW_VERSION,
    Published,
    RowFlag,
    RowStatus,
    RunRow,
    decode_block,
    decode_row,
    encode_block,
    encode_row,
    flags_of,
    restore_state,
)
from streams.core.run import RunState
from streams.tables import PartitionRows, block_key, run_key


class Entry:
    """One run in memory.

    Args:
        state: Its evidence.

    Attributes:
        blocks: Blocks of evidence already written.
        in_blocks: How many facts are in them: the first that came.
        published: Task id, or "" for the suite record -> newest revision.
        closed: Whether the suite record was due once.
        graded: Whether its suite was known when it was last published.
        whole_at_s: When every declared trial was sealed while the host's own
            verdict was outstanding; None before.
        scored_at_s: Newest score's record time, seconds since the epoch.
        is_clean: Whether nothing happened since its rows were last made.
        unstored: How many of its rows are to be made, or not in the store yet.
    """

    __slots__ = (
        "_waiting",
        "blocks",
        "closed",
        "graded",
        "in_blocks",
        "is_clean",
        "published",
        "scored_at_s",
        "state",
        "unstored",
        "whole_at_s",
    )

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.blocks = 0
        self.in_blocks = 0
        self.published: dict[str, Published] = {}
        self.closed = False
        self.graded = False
        self.whole_at_s: float | None = None
        self.scored_at_s = 0.0
        self._waiting: set[int] | None = None
        self.is_clean = False
        self.unstored = 0

    @property
    def waiting(self) -> set[int]:
        """Unsealed sequences that wait at a cut of the barrier."""
        if self._waiting is None:
            # Not before: most open trials have none, and an empty set 216 bytes.
            self._waiting = set()
        return self._waiting

    def tail(self) -> list[Fact]:
        """Facts that are in no block yet, in the order in which they came."""
        facts = self.state.facts
        # From the end, so that the cost does not grow with the run.
        newest = list(islice(reversed(facts.values()), len(facts) - self.in_blocks))
        newest.reverse()
        return newest

    def rows(
        self, now_s: float, *, lacks_calls: bool = False
    ) -> dict[bytes, bytes | None]:
        """The rows to write: the run's own, and blocks that filled up.

        Args:
            now_s: Seconds since the epoch.
            lacks_calls: Whether calls may be missing; a worker that reads such a
                row has the run rebuilt.
        """
        run_id = self.state.run_id
        rows: dict[bytes, bytes | None] = {}
        if self.state.rewritten:
            # A stored fact was replaced: lay everything out anew.
            surplus, self.blocks, self.in_blocks = self.blocks, 0, 0
            rows.update({block_key(run_id, n): None for n in range(surplus)})
            self.state.rewritten = False
        tail = self.tail()
        moved = 0
        while len(tail) - moved >= 2 * BLOCK_FACTS:
            full = tail[moved : moved + BLOCK_FACTS]
            rows[block_key(run_id, self.blocks)] = encode_block(full)
            self.blocks += 1
            moved += BLOCK_FACTS
        self.in_blocks += moved
        started = self.state.started
        rows[run_key(run_id)] = encode_row(
            RunRow(
                ROW_VERSION,
                RowStatus.CLOSED if self.closed else RowStatus.OPEN,
                now_s,
                "" if started is None else started.suite_key,
                self.graded,
                bool(self.state.unsealed)
                or self.whole_at_s is not None
                or self.state.calls_dropped
                or lacks_calls,
                flags=flags_of(self.state)
                | (RowFlag.CALLS_DROPPED if lacks_calls else 0),
                latest_at=self.state.latest_at,
                blocks=self.blocks,
                unsealed=sorted(self.state.unsealed),
                published=self.published,
                tail=tail[moved:],
            )
        )
        return rows


def load_entry(
    run_id: str, data: bytes, rows: PartitionRows, context: Context, *, hold: bool
) -> Entry:
    """The run whose row is ``data``.

    Raises:
        RowError: A row is of a newer version, or a block is missing.
    """
    row = decode_row(data)
    blocks = []
    for number in range(row.blocks):
        block = rows.get(block_key(run_id, number))
        blocks.append(decode_block(block or b""))
    entry = Entry(restore_state(run_id, row, blocks, context, hold=hold))
    entry.blocks = row.blocks
    entry.in_blocks = len({fact.sequence for block in blocks for fact in block})
    entry.published = row.published
    entry.closed = row.status is RowStatus.CLOSED
    entry.graded = row.graded
    return entry


def removal(run_id: str, blocks: int, last: bytes | None) -> dict[bytes, bytes | None]:
    """Rows to write when a run's state is removed.

    Args:
        run_id: The run.
        blocks: Its number of blocks.
        last: What stays in place of its row; None for a tombstone.
    """
    rows: dict[bytes, bytes | None] = {
        block_key(run_id, number): None for number in range(blocks)
    }
    rows[run_key(run_id)] = last
    return rows
