"""From a run that changed to the records that have to be published."""

import hashlib
from collections.abc import Callable

import msgspec

from schemas.codec import encode
from schemas.records import (
    RECORD_VERSION,
    AlertKind,
    AlertRecord,
    Severity,
    SuiteRecord,
    TaskRecord,
)
from streams.agents.entry import Entry
from streams.core.alerts import affected_tasks, alert_kinds
from streams.core.closing import due
from streams.core.policy import Policy
from streams.core.rows import Published
from streams.core.summarize import figures_of_task, grade_run, task_record
from streams.core.verdict import lacks_calls
from streams.publish import Outgoing, event_headers
from streams.topics import TopicNames

SUITE_KEY = ""


class Change(msgspec.Struct, gc=False):
    """One record that differs from the newest published.

    Args:
        key: Task id, or "" for the suite record.
        record: The record.
        revision: Its number, from 1.
        digest: First 8 bytes of the SHA-256 of its bytes.
        before: The newest published; None for the first.
    """

    key: str
    record: TaskRecord | SuiteRecord
    revision: int
    digest: bytes
    before: Published | None

    @property
    def passed(self) -> bool:
        """The verdict it holds."""
        record = self.record
        if isinstance(record, TaskRecord):
            return record.task.passed
        return record.summary.passed

    @property
    def changed(self) -> bool:
        """Whether RFC 0244 would have passed it and the gate did not."""
        return self.record.legacy_passed and not self.passed


class Evaluation(msgspec.Struct):
    """What a run's change leads to.

    Args:
        entry: The run.
        changes: Records to publish.
        alerts: Alerts to publish with them.
        outgoing: The same, ready to be written.
        closes: Whether the suite record is among what was due.
        waits_for_host: Whether only the host's verdict is outstanding.
    """

    entry: Entry
    changes: list[Change] = msgspec.field(default_factory=list)
    alerts: list[AlertRecord] = msgspec.field(default_factory=list)
    outgoing: list[Outgoing] = msgspec.field(default_factory=list)
    closes: bool = False
    waits_for_host: bool = False


class Recorder:
    """Makes the records of runs.

    Args:
        names: Topic names in effect.
        policy: The operator's choices.
        severity_of: Alert kind -> severity.
        source: ``ce_source`` of the records.
    """

    def __init__(
        self,
        names: TopicNames,
        policy: Policy,
        severity_of: Callable[[AlertKind], Severity],
        source: str,
    ) -> None:
        self._names = names
        self._policy = policy
        self._severity_of = severity_of
        self._source = source

    def evaluate(
        self, entry: Entry, partition: int, *, grace_over: bool, baseline: float | None
    ) -> Evaluation:
        """Grades what is due of a run and finds what changed.

        Args:
            entry: The run.
            partition: Its partition.
            grace_over: Whether the host had its time for its own verdict.
            baseline: ``aggregateScore`` of the run it names as baseline.

        Returns:
            What to publish; nothing where no record changed.
        """
        state = entry.state
        now_due = due(state, state.suite, closed=entry.closed, grace_over=grace_over)
        evaluation = Evaluation(entry, waits_for_host=now_due.waits_for_host)
        if now_due.suite:
            evaluation.closes = True
            dirty = state.scored.take_dirty()
            graded = grade_run(state, state.suite, self._policy, baseline)
            if state.suite is not None:
                for figures in graded.figures:
                    task_id = figures.task.task_id
                    # The same trials make the same record as before.
                    if task_id in dirty or task_id not in entry.published:
                        record = task_record(state, state.suite, figures)
                        self._compare(evaluation, task_id, record, partition)
            self._compare(evaluation, SUITE_KEY, graded.suite_record, partition)
        elif state.suite is not None:
            state.scored.clean(now_due.task_ids)
            for task_id in now_due.task_ids:
                figures = figures_of_task(
                    state, state.suite, self._policy, state.suite.by_id[task_id]
                )
                record = task_record(state, state.suite, figures)
                self._compare(evaluation, task_id, record, partition)
        return evaluation

    def alert(
        self, alert: AlertRecord, partition: int, entry: Entry | None
    ) -> Outgoing:
        """An alert, ready to be written."""
        value = encode(alert)
        time = None if entry is None else entry.state.latest_at
        return Outgoing(
            self._names.gate_alert,
            partition,
            alert.run_id.encode(),
            value,
            event_headers(
                source=self._source,
                kind="eval.gate-alert",
                run_id=alert.run_id,
                key=alert.run_id,
                value=value,
                time=time,
                revision=alert.revision,
            ),
        )

    def new_alert(
        self, kind: AlertKind, record: SuiteRecord, revision: int
    ) -> AlertRecord:
        """The alert of one kind about a suite record."""
        return AlertRecord(
            record_version=RECORD_VERSION,
            run_id=record.run_id,
            suite_id=record.summary.suite_id,
            kind=kind,
            severity=self._severity_of(kind),
            revision=revision,
            reasons=record.reasons,
            task_ids=affected_tasks(record),
        )

    def _compare(
        self,
        evaluation: Evaluation,
        key: str,
        record: TaskRecord | SuiteRecord,
        partition: int,
    ) -> None:
        entry = evaluation.entry
        value = encode(record)
        digest = hashlib.sha256(value).digest()[:8]
        before = entry.published.get(key)
        if before is not None and before.digest == digest:
            return
        revision = 1 if before is None else before.revision + 1
        evaluation.changes.append(Change(key, record, revision, digest, before))
        run_id = record.run_id
        topic, kind, text = (
            (self._names.suite_summary, "eval.suite-summary", run_id)
            if key == SUITE_KEY
            else (self._names.task_summary, "eval.task-summary", f"{run_id}#{key}")
        )
        headers = event_headers(
            source=self._source,
            kind=kind,
            run_id=run_id,
            key=text,
            value=value,
            time=entry.state.latest_at,
            revision=revision,
            digest=digest,
        )
        evaluation.outgoing.append(
            Outgoing(topic, partition, text.encode(), value, headers)
        )
        if isinstance(record, SuiteRecord):
            self._raise_alerts(evaluation, record, before, revision, partition)

    def _raise_alerts(
        self,
        evaluation: Evaluation,
        record: SuiteRecord,
        before: Published | None,
        revision: int,
        partition: int,
    ) -> None:
        entry = evaluation.entry
        suite = entry.state.suite
        kinds = alert_kinds(
            record,
            passed_before=None if before is None else before.passed,
            lacks_calls=suite is not None and lacks_calls(entry.state, suite),
        )
        for kind in kinds:
            alert = self.new_alert(kind, record, revision)
            evaluation.alerts.append(alert)
            evaluation.outgoing.append(self.alert(alert, partition, entry))


def accept(evaluation: Evaluation) -> None:
    """Notes in the run that its records are published.

    What says so may be stored once the brokers have acknowledged them.
    """
    entry = evaluation.entry
    for change in evaluation.changes:
        entry.published[change.key] = Published(
            change.revision, change.digest, change.passed, change.changed
        )
    if evaluation.closes:
        entry.closed = True
        entry.whole_at_s = None
        entry.graded = entry.state.suite is not None
