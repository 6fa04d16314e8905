"""Writes what changed on a partition: outputs, then state, then the offset.

Two loops a partition. One grades what changed and gives its records to the
producer. The other waits until they are acknowledged, then writes the rows to
the store and the changelog, and lets the offsets be committed: flush by flush,
in their order. So nobody waits for the brokers to grade what comes next, and a
row is never ahead of the records that it says are published.

Records go out at once, rows a few times a second: a run that is under way would
be written again with each of its calls. Until then its chunks are not committed.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, TypeVar

import structlog

from schemas.reasons import Reason, RunReason, TrialReason
from schemas.records import (
    RECORD_VERSION,
    AlertKind,
    AlertRecord,
    SuiteRecord,
    TaskRecord,
)
from streams.agents.control import Control, ControlKind, control_record
from streams.agents.entry import Entry
from streams.agents.lookup import runs_written
from streams.agents.records import SUITE_KEY, Evaluation, accept
from streams.agents.services import Services
from streams.agents.shard import Acknowledgeable, Shard, TooLate, Unknown, Unsealed
from streams.core.rows import Published
from streams.deadletter import dead_letter
from streams.errors import PathgateError
from streams.metrics import Repair, RunFigures, Target
from streams.publish import Outgoing, PublishError, UnderWay
from streams.tables import Span, run_of_key
from streams.topics import partition_for

logger = structlog.get_logger()

_T = TypeVar("_T")
_UNDOING: set[asyncio.Task[None]] = set()
# More rows than a worker has under way at once.
_MAX_UNDONE = 20_000
# Flushes that wait for the one that is being written.
_MAX_WAITING = 1
# How often rows are written at most.
_WRITE_S = 0.2
# How long a backlog is read before it is graded; and how long at most at the start,
# until it is known which runs lack calls: none can be graded before.
_GATHER_S = 0.25
_GATHER_AT_START_S = 2.0
_GATHER_STEP_S = 0.02


class Flush(NamedTuple):
    """A flush whose records are on their way.

    Args:
        records: What the producer was given.
        evaluations: What they come from.
        entries: Runs whose rows are written with this flush; empty in most.
        rows: Their rows as of now; key -> value, None to remove.
        removals: Run id -> rows, of runs whose state is to be removed.
        chunks: To be acknowledged when all that is written.
    """

    records: UnderWay
    evaluations: list[Evaluation]
    entries: list[Entry]
    rows: dict[bytes, bytes | None]
    removals: dict[str, dict[bytes, bytes | None]]
    chunks: list[Acknowledgeable]


class Committer:
    """Flushes one shard.

    Args:
        shard: The partition's runs.
        services: What makes, writes and counts records.
    """

    def __init__(self, shard: Shard, services: Services) -> None:
        self.shard = shard
        self._recorder = services.recorder
        self._publisher = services.publisher
        self._changelog = services.changelog
        self._settings = services.settings
        self._names = services.names
        self._metrics = services.metrics
        self._clock = services.clock
        self._baseline = services.baseline
        self._rebuild = services.rebuild
        self._ready: list[Acknowledgeable] = []
        # What was graded and whose rows are still to be made.
        self._unwritten: dict[str, Entry] = {}
        self._graded: list[Acknowledgeable] = []
        self._write_at_s = 0.0
        self._removals: dict[str, dict[bytes, bytes | None]] = {}
        self._grace: list[tuple[float, str]] = []
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._flushes: asyncio.Queue[Flush] = asyncio.Queue(_MAX_WAITING)

    def wake(self) -> None:
        """Says that there may be something to flush."""
        self._idle.clear()
        self._work.set()

    def remove(self, run_id: str, rows: dict[bytes, bytes | None]) -> None:
        """Has a run's state removed with the next flush."""
        self.shard.runs.pop(run_id, None)
        self._removals[run_id] = rows

    def acknowledge(self, chunk: Acknowledgeable) -> None:
        """Lets the chunk be committed once all that it changed is written."""
        self._ready.append(chunk)
        self.wake()

    def seal(self, unsealed: list[Unsealed]) -> None:
        """Takes up scores and endings whose cut has been passed."""
        now_s = self._clock.now_s()
        trials = self.shard.seal(unsealed)
        for trial in trials:
            self._metrics.observe_sealing_wait(now_s - trial.seen_at_s)
        self._metrics.trials_sealed(len(trials))
        self.wake()

    def end_grace(self) -> None:
        """Grades runs whose host's verdict was not published in its time."""
        while self._grace and self._grace[0][0] <= self.shard.read_up_to_s:
            _, run_id = heapq.heappop(self._grace)
            entry = self.shard.find(run_id)
            if entry is not None and not entry.closed:
                self.shard.touch(entry)
                self.wake()

    def drop_unknown(self, unknown: Unknown) -> None:
        """Takes up what waited for ``eval.started``, which has been read."""
        dropped = self.shard.drop(unknown.run_ids)
        self._metrics.ordinary_calls_dropped(dropped)
        self._ready += unknown.chunks
        self.wake()

    async def publish(self, is_far_behind: Callable[[], bool]) -> None:
        """Grades and publishes whenever something changed, until cancelled.

        Args:
            is_far_behind: Whether whole chunks wait to be read.

        Raises:
            PublishError: The producer refused a record.
        """
        while True:
            await self._wait_for_work()
            await self._gather(is_far_behind)
            self._work.clear()
            await self._flushes.put(await self._flush())
            if not (self._work.is_set() or self._lacks_rows):
                self._idle.set()

    async def store(self) -> None:
        """Writes the state of each flush, in their order, until cancelled.

        Raises:
            PublishError: Records or state were not acknowledged; nothing that
                rests on them is stored or committed.
        """
        while True:
            await self._store(await self._flushes.get())
            self._flushes.task_done()

    async def drained(self) -> None:
        """Waits until everything that was read is written."""
        await self._idle.wait()
        await self._flushes.join()

    @property
    def _lacks_rows(self) -> bool:
        """Whether something was graded of which no rows are made yet."""
        return bool(self._unwritten or self._graded)

    async def _wait_for_work(self) -> None:
        """Waits until something changed, or rows that wait may be written."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(
                self._write_at_s if self._lacks_rows else None
            ):
                await self._work.wait()

    async def _gather(self, is_far_behind: Callable[[], bool]) -> None:
        """In a backlog, has more chunks read before anything is graded.

        The events of a run come over several topics: flushed chunk by chunk, it
        would be graded and stored once for each.
        """
        gathered_s = 0.0
        while is_far_behind():
            most_s = _GATHER_S if self.shard.knows_dropped else _GATHER_AT_START_S
            if gathered_s >= most_s:
                break
            await asyncio.sleep(_GATHER_STEP_S)
            gathered_s += _GATHER_STEP_S

    async def _flush(self) -> Flush:
        """Grades everything that changed and gives its records to the producer."""
        shard = self.shard
        if shard.rebuilds:
            run_ids, shard.rebuilds = shard.rebuilds, set()
            await self._rebuild(shard, run_ids)
        dirty, shard.dirty = shard.dirty, {}
        self._graded += self._ready
        self._ready = []
        outgoing = self._side_records()
        evaluations = []
        now_s = self._clock.now_s()
        for entry in dirty.values():
            entry.is_clean = True
            if entry.state.unsealed:
                sealed = entry.state.seal_gapless(self._settings.attribution)
                self._metrics.trials_sealed(sealed)
                shard.wait_for_seals(entry, now_s)
            if shard.may_lack_calls(entry.state.run_id):
                evaluation = Evaluation(entry)
            else:
                evaluation = await self._evaluate(entry)
            evaluations.append(evaluation)
            outgoing += evaluation.outgoing
        for evaluation in evaluations:
            accept(evaluation)
            entry = evaluation.entry
            if entry.state.run_id not in self._unwritten:
                self._unwritten[entry.state.run_id] = entry
                entry.unstored += 1
        entries, chunks = self._take_unwritten()
        rows: dict[bytes, bytes | None] = {}
        for entry in entries:
            lacks_calls = shard.may_lack_calls(entry.state.run_id)
            rows.update(entry.rows(now_s, lacks_calls=lacks_calls))
        removals, self._removals = self._removals, {}
        handing = self._publisher.hand_over(outgoing)
        records = await self._send(Target.OUTPUT, handing)
        return Flush(records, evaluations, entries, rows, removals, chunks)

    def _take_unwritten(self) -> tuple[list[Entry], list[Acknowledgeable]]:
        """Runs to make rows of, and the chunks they are of; none before time."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._write_at_s:
            return [], []
        self._write_at_s = now_s + _WRITE_S
        entries, self._unwritten = list(self._unwritten.values()), {}
        chunks, self._graded = self._graded, []
        return entries, chunks

    async def _store(self, flush: Flush) -> None:
        """Writes what rests on a flush's records, once they are acknowledged."""
        shard, chunks = self.shard, flush.chunks
        await self._send(Target.OUTPUT, flush.records.acknowledged())
        now_s = self._clock.now_s()
        for evaluation in flush.evaluations:
            self._count(evaluation, now_s)
        for entry in flush.entries:
            entry.unstored -= 1
        rows = self._kept_removals(flush.removals) | flush.rows
        if rows:
            shard.rows.put(rows)
        shard.evict()
        writing = shard.rows.log(rows, self._changelog)
        foreign = await self._send(Target.CHANGELOG, writing)
        if foreign is not None:
            # Apart, as it outlives the partition: the group is rebalanced soon.
            undoing = asyncio.create_task(self._undo_foreign(foreign, rows))
            _UNDOING.add(undoing)
            undoing.add_done_callback(_UNDOING.discard)
        for chunk in chunks:
            chunk.ack()
        if rows or chunks:
            self._metrics.progressed(now_s)

    async def _undo_foreign(self, span: Span, rows: Iterable[bytes]) -> None:
        """Has runs rebuilt that two workers wrote to.

        One of the two has lost the partition and does not know it yet: what it
        wrote is old. If it is this one, that is what ``rows`` are of; else it is
        what else the stretch holds. A long stretch is what a new owner wrote.
        """
        records = span.end - span.first
        logger.error(
            "changelog_written_by_another",
            partition=span.partition,
            offset=span.first,
            records=records,
        )
        run_ids = {run_of_key(key) for key in rows}
        try:
            if records <= _MAX_UNDONE:
                run_ids |= await runs_written(self._settings, span)
            await self._publisher.send(
                control_record(
                    Control(kind=ControlKind.REBUILD, run_id=run_id),
                    self._settings,
                    self._names,
                )
                for run_id in sorted(run_ids)
            )
        except PathgateError:
            self._metrics.changelog_conflict(Repair.FAILED)
            logger.exception("changelog_not_repaired", partition=span.partition)
        else:
            self._metrics.changelog_conflict(Repair.ASKED)

    async def _send(self, target: Target, work: Awaitable[_T]) -> _T:
        try:
            return await work
        except PublishError:
            self._metrics.produce_failed(target)
            raise

    async def _evaluate(self, entry: Entry) -> Evaluation:
        started = entry.state.started
        baseline = None
        if started is not None and started.baseline_run_id is not None:
            baseline = await self._baseline(started.baseline_run_id)
        now_s = self._clock.now_s()
        grace_s = self._settings.host_verdict_grace_s
        whole_at_s = entry.whole_at_s
        evaluation = self._recorder.evaluate(
            entry,
            self.shard.partition,
            grace_over=whole_at_s is not None
            and self.shard.read_up_to_s >= whole_at_s + grace_s,
            baseline=baseline,
        )
        if evaluation.waits_for_host and whole_at_s is None:
            entry.whole_at_s = now_s
            heapq.heappush(self._grace, (now_s + grace_s, entry.state.run_id))
        return evaluation

    def _kept_removals(
        self, removals: dict[str, dict[bytes, bytes | None]]
    ) -> dict[bytes, bytes | None]:
        rows: dict[bytes, bytes | None] = {}
        for run_id, removal in removals.items():
            # An event that came since has brought the run back to life.
            if run_id not in self.shard.runs:
                rows.update(removal)
        return rows

    def _side_records(self) -> list[Outgoing]:
        """Dead letters, notes to other partitions, alerts about what is too late."""
        shard, settings, names = self.shard, self._settings, self._names
        rejected, shard.rejected = shard.rejected, []
        misrouted, shard.misrouted = shard.misrouted, []
        too_late, shard.too_late = shard.too_late, []
        records = []
        for topic, record, error in rejected:
            self._metrics.rejected(error.code)
            self._metrics.dead_lettered(error.code)
            logger.warning(
                "event_dead_lettered",
                topic=topic,
                partition=shard.partition,
                offset=record.offset,
                code=str(error.code),
                path=error.path,
            )
            records.append(
                dead_letter(
                    record,
                    error,
                    source=(topic, shard.partition),
                    topic=names.dead_letter,
                    app_id=settings.app_id,
                    body=settings.dead_letter_body,
                )
            )
        for run_id in misrouted:
            control = Control(kind=ControlKind.MISROUTED, run_id=run_id)
            records.append(control_record(control, settings, names))
        evals, shard.misrouted_evals = shard.misrouted_evals, []
        records += [self._misrouted_alert(*one) for one in evals]
        records += [self._too_late_alert(late) for late in too_late]
        return records

    def _misrouted_alert(self, run_id: str, suite_id: str) -> Outgoing:
        reason = Reason(code=RunReason.MISROUTED_EVENTS.value)
        return self._alert(AlertKind.MISROUTED_EVENTS, run_id, suite_id, reason)

    def _too_late_alert(self, late: TooLate) -> Outgoing:
        suite_id = late.suite_key.partition("@")[0]
        code = RunReason.UNATTRIBUTED_FORBIDDEN_CALL.value
        reason = Reason(code=code, observed=late.tool)
        return self._alert(AlertKind.LATE_FORBIDDEN_CALL, late.run_id, suite_id, reason)

    def _alert(
        self, kind: AlertKind, run_id: str, suite_id: str, reason: Reason
    ) -> Outgoing:
        """An alert that comes with no record."""
        settings = self._settings
        severity = settings.severity_of(kind)
        self._metrics.alerts_published(kind, severity)
        alert = AlertRecord(
            record_version=RECORD_VERSION,
            run_id=run_id,
            suite_id=suite_id,
            kind=kind,
            severity=severity,
            revision=1,
            reasons=(reason,),
            task_ids=(),
        )
        home = partition_for(run_id.encode(), settings.partitions, settings.partitioner)
        return self._recorder.alert(alert, home, None)

    def _count(self, evaluation: Evaluation, now_s: float) -> None:
        metrics = self._metrics
        for alert in evaluation.alerts:
            metrics.alerts_published(alert.kind, alert.severity)
        for change in evaluation.changes:
            record = change.record
            if isinstance(record, TaskRecord):
                self._count_task(record, is_first=change.before is None)
                continue
            self._count_run(record, change.before)
            if change.key == SUITE_KEY and change.before is None:
                scored_at_s = evaluation.entry.scored_at_s
                if scored_at_s:
                    metrics.observe_decision_latency(now_s - scored_at_s)

    def _count_task(self, record: TaskRecord, *, is_first: bool) -> None:
        if not is_first:
            self._metrics.task_revised()
            return
        self._metrics.task_finished(
            record.suite_id,
            passed=record.task.passed,
            legacy_passed=record.legacy_passed,
        )
        for trial in record.trials:
            for code in {reason.code for reason in trial.reasons}:
                self._metrics.trials_gated(TrialReason(code))

    def _count_run(self, record: SuiteRecord, before: Published | None) -> None:
        figures = RunFigures.from_record(record)
        if before is None:
            self._metrics.run_finished(figures)
            if record.host:
                for disagreement in record.host.disagreements:
                    self._metrics.host_disagreements(disagreement.kind)
        else:
            self._metrics.run_revised(figures, changed_before=before.changed)
