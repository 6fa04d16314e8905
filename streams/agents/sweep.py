"""Goes over the stored runs, a slice at a time, for what no event brings about.

Abandoned runs are closed, old state is removed, runs that wait for a suite are
graded once it is known. Nothing here decides a verdict by the clock alone: it
closes what the host abandoned.
"""

from streams.agents.committer import Committer
from streams.agents.entry import removal
from streams.agents.shard import Shard
from streams.clock import Clock
from streams.core.compiled import CompiledSuite
from streams.core.rows import RowHead, RowStatus, decode_head, decode_row, marker
from streams.settings import Settings
from streams.tables import RUN_PREFIX

SLICE_ROWS = 2_000
FIRST_SLICE_ROWS = 20_000


class Sweeper:
    """Sweeps one shard.

    Args:
        shard: The partition's runs.
        committer: Writes removals.
        settings: Timeouts and windows.
        clock: Seconds since the epoch.
    """

    def __init__(
        self, shard: Shard, committer: Committer, settings: Settings, clock: Clock
    ) -> None:
        self._shard = shard
        self._committer = committer
        self._settings = settings
        self._clock = clock
        self._cursor = RUN_PREFIX
        self._is_first = True
        self._rows_seen = 0
        self._rotated_at_s = clock.now_s()
        self.row_count = 0

    def learn_suite(self, suite: CompiledSuite) -> None:
        """Grades the runs that name this suite, in memory now, stored ones soon."""
        for entry in list(self._shard.runs.values()):
            started = entry.state.started
            if (
                started is not None
                and started.suite_key == suite.key
                and entry.state.suite is None
            ):
                entry.state.know_suite(suite)
                self._shard.touch(entry)
        self._cursor, self._is_first = RUN_PREFIX, True

    def sweep(self) -> None:
        """Looks at the next slice of rows, and starts over at the end.

        Ages are as of what was read: where the worker is behind, the silence of
        a host is not known.
        """
        now_s = self._clock.now_s()
        if now_s - self._rotated_at_s > self._settings.late_start_window_s / 2:
            self._shard.dropped.rotate()
            self._rotated_at_s = now_s
        read_up_to_s = self._shard.read_up_to_s
        limit = FIRST_SLICE_ROWS if self._is_first else SLICE_ROWS
        rows = self._shard.rows.scan(self._cursor, limit)
        for key, data in rows:
            head = decode_head(data)
            run_id = key[len(RUN_PREFIX) :].decode()
            self._look(run_id, data, head, read_up_to_s - head.touched_at_s)
        self._rows_seen += len(rows)
        if len(rows) < limit:
            self._cursor, self._is_first = RUN_PREFIX, False
            self.row_count, self._rows_seen = self._rows_seen, 0
        else:
            self._cursor = rows[-1][0] + b"\x00"

    def _look(self, run_id: str, data: bytes, head: RowHead, age_s: float) -> None:
        settings, shard = self._settings, self._shard
        if head.status is RowStatus.MARKER:
            if age_s > settings.closed_retention_s:
                self._committer.remove(run_id, removal(run_id, 0, None))
            return
        held = shard.runs.get(run_id)
        if held is not None and (held.unstored or not held.is_clean):
            # What is stored of it is out of date.
            return
        if head.status is RowStatus.CLOSED:
            if self._is_due(head) and (self._is_first or not head.waits):
                self._wake(run_id)
            elif age_s > settings.late_window_s:
                self._remove(run_id, data)
        elif self._is_first and self._is_due(head):
            self._wake(run_id)
        elif age_s > settings.run_idle_timeout_s:
            self._abandon(run_id)

    def _is_due(self, head: RowHead) -> bool:
        """Whether something is to be done about the run without a further event."""
        suites = self._shard.context.suites
        return head.waits or (not head.graded and head.suite_key in suites)

    def _wake(self, run_id: str) -> None:
        entry = self._shard.find(run_id)
        if entry is not None:
            self._shard.touch(entry)

    def _abandon(self, run_id: str) -> None:
        entry = self._shard.find(run_id)
        if entry is None:
            return
        if not entry.state.publishes:
            # A start or score that comes after all has the run rebuilt.
            self._shard.dropped.add(run_id)
            self._committer.remove(run_id, removal(run_id, entry.blocks, None))
        elif not entry.state.unsealed:
            entry.state.idle = True
            self._shard.touch(entry)

    def _remove(self, run_id: str, data: bytes) -> None:
        row = decode_row(data)
        record = row.published.get("")
        passed = record is not None and record.passed
        last = marker(self._clock.now_s(), row.suite_key, passed=passed)
        self._committer.remove(run_id, removal(run_id, row.blocks, last))
