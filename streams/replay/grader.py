"""The core over log files: folds lines, retires finished runs, grades the rest."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import NamedTuple, Self

from schemas.codec import decode_event, encode, runs_of_rejected
from schemas.errors import DecodeCode, DecodeError
from schemas.events import MAX_EVENT_BYTES
from streams.core.context import Context
from streams.core.evidence import Fact
from streams.core.rows import (
    ROW_VERSION,
    RowStatus,
    RunRow,
    decode_row,
    encode_row,
    flags_of,
    restore_state,
)
from streams.core.run import Applied, RunState
from streams.core.summarize import grade_run, task_record
from streams.replay.reader import Line
from streams.replay.spool import Spool, Spooled

# Finished runs are kept in memory a little while: a run's last events come
# close together, and each would read the run back from disk.
COOLING_RUNS = 512

# Runs in memory; the longest open are put aside on disk beyond that, so that a
# log of runs that never end needs no more memory.
MAX_OPEN_RUNS = 10_000


class GradedRun(NamedTuple):
    """One run's final records.

    Args:
        run_id: The run.
        record: Bytes of the suite record.
        tasks: Bytes of the task records, in suite order.
    """

    run_id: str
    record: bytes
    tasks: tuple[bytes, ...]


class FileGrader:
    """Grades the events of one or more logs, in any order.

    Args:
        context: Policy, digester, suites.
        reject: Called with source, line number and error for each line that is
            no event; the rest is graded.
        emit: Called with the records of runs that ended, and of ended runs
            whose records changed, at the end of each block of lines; for
            following a log. Without it, records are read from ``finish``.
        tasks: Whether task records are wanted.

    Attributes:
        events: Events that were read, of any type.
        graded: Events of the types that are graded, duplicates included.
        rejected: Lines that are no event.
        duplicates: Events seen before.
        conflicts: Events that contradict another of the same sequence.
        overflowed: Calls left out beyond what a run may have.
    """

    def __init__(
        self,
        context: Context,
        reject: Callable[[str, int, DecodeError], None],
        emit: Callable[[GradedRun], None] | None = None,
        *,
        tasks: bool = True,
    ) -> None:
        self.events = 0
        self.graded = 0
        self.rejected = 0
        self.duplicates = 0
        self.conflicts = 0
        self.overflowed = 0
        self._context = context
        self._reject = reject
        self._emit = emit
        self._tasks = tasks
        self._runs: dict[str, RunState] = {}
        self._cooling: dict[str, None] = {}
        self._spool = Spool()

    def __enter__(self) -> Self:
        """The grader itself; leaving removes what it put on disk."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Removes what was put on disk, whatever happened."""
        self._spool.close()

    def add(self, source: str, lines: Iterable[Line]) -> None:
        """Folds a block of lines in.

        Args:
            source: Name of the log, for errors.
            lines: As from ``read_lines``.
        """
        runs, context = self._runs, self._context
        counts = [0, 0, 0, 0]
        for line in lines:
            data = line.data
            try:
                if data is None:
                    raise _too_large()
                envelope, payload = decode_event(data)
                self.events += 1
                if payload is None:
                    continue
                state = runs.get(envelope.run_id)
                if state is None:
                    state = self._open(envelope.run_id)
                counts[state.apply(envelope, payload, context)] += 1
            except DecodeError as error:
                self.rejected += 1
                self._reject(source, line.number, error)
                self._lose(line.start if data is None else data, line.key)
                continue
            if state.completed is not None or state.ended is not None:
                self._cooling[envelope.run_id] = None
                if len(self._cooling) > 2 * COOLING_RUNS:
                    self._retire_cooled(COOLING_RUNS)
        self.graded += sum(counts)
        self.duplicates += counts[Applied.DUPLICATE]
        self.conflicts += counts[Applied.CONFLICT]
        self.overflowed += counts[Applied.OVERFLOW]
        self._retire_cooled(0 if self._emit is not None else COOLING_RUNS)

    def _lose(self, data: bytes, key: bytes | None) -> None:
        """Closes the runs whose event cannot be read, if they can be told."""
        for run_id in runs_of_rejected(data, key):
            state = self._runs.get(run_id) or self._open(run_id)
            state.unreadable = True
            if state.completed is not None or state.ended is not None:
                self._cooling[run_id] = None

    def finish(self) -> Iterator[GradedRun]:
        """Ends the input: what is open is graded as abandoned.

        Yields:
            Each run's final records, by run id.
        """
        for state in list(self._runs.values()):
            self._abandon(state)
        while run_ids := self._spool.some_open():
            for run_id in run_ids:
                self._abandon(self._open(run_id))
        for run_id in self._spool.with_baseline():
            self._retire(self._open(run_id))
        for run in self._spool:
            if run.record:
                yield _graded(run)

    def evidence_of(self, run_id: str) -> list[Fact]:
        """The facts a finished run was graded on, by ``sequence``; empty if none."""
        spooled = self._spool.get(run_id)
        facts = decode_row(spooled.row).tail if spooled is not None else []
        return sorted(facts, key=lambda fact: fact.sequence)

    def _open(self, run_id: str) -> RunState:
        spooled = self._spool.get(run_id)
        if spooled is None:
            state = RunState(run_id)
        else:
            row = decode_row(spooled.row)
            state = restore_state(run_id, row, [], self._context, hold=False)
        if len(self._runs) >= MAX_OPEN_RUNS:
            for longest_open in list(islice(self._runs.values(), MAX_OPEN_RUNS // 2)):
                self._put_aside(longest_open)
        self._runs[run_id] = state
        return state

    def _retire_cooled(self, keep: int) -> None:
        """Retires the ended runs but for the ``keep`` that ended last."""
        cooling = self._cooling
        for run_id in list(islice(cooling, max(0, len(cooling) - keep))):
            del cooling[run_id]
            state = self._runs.get(run_id)
            if state is not None:
                self._retire(state)

    def _put_aside(self, state: RunState) -> None:
        del self._runs[state.run_id]
        before = self._spool.get(state.run_id)
        self._spool.put(
            Spooled(
                state.run_id,
                _row_of(state),
                b"" if before is None else before.record,
                b"" if before is None else before.tasks,
                None if before is None else before.baseline,
                0.0 if before is None else before.aggregate,
                is_open=True,
            )
        )

    def _abandon(self, state: RunState) -> None:
        if state.completed is None and state.ended is None:
            state.idle = True
        self._retire(state)

    def _retire(self, state: RunState) -> None:
        del self._runs[state.run_id]
        run = self._spooled(state)
        if self._emit is not None and run.record:
            before = self._spool.get(state.run_id)
            if before is None or before[2:4] != run[2:4]:
                self._emit(_graded(run))
        self._spool.put(run)

    def _spooled(self, state: RunState) -> Spooled:
        row = _row_of(state)
        if not state.publishes:
            return Spooled(state.run_id, row, b"", b"", None, 0.0)
        named = state.started.baseline_run_id if state.started is not None else None
        baseline = self._spool.aggregate_of(named) if named is not None else None
        graded = grade_run(state, state.suite, self._context.policy, baseline)
        tasks = [
            encode(task_record(state, state.suite, figures))
            for figures in graded.figures
            if self._tasks and state.suite is not None
        ]
        return Spooled(
            state.run_id,
            row,
            encode(graded.suite_record),
            b"\n".join(tasks),
            named,
            graded.suite_record.summary.aggregate_score,
        )


def _too_large() -> DecodeError:
    return DecodeError(
        "$", f"expected at most {MAX_EVENT_BYTES} bytes", DecodeCode.TOO_LARGE
    )


def _row_of(state: RunState) -> bytes:
    return encode_row(
        RunRow(
            ROW_VERSION,
            RowStatus.CLOSED,
            0.0,
            flags=flags_of(state),
            latest_at=state.latest_at,
            tail=list(state.facts.values()),
        )
    )


def _graded(run: Spooled) -> GradedRun:
    tasks = tuple(run.tasks.split(b"\n")) if run.tasks else ()
    return GradedRun(run.run_id, run.record, tasks)
