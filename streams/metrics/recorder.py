"""The recorder: small typed methods over the catalogue, called once a chunk.

No method raises on an unknown label value and none adds a series for it: the
value is counted as ``other``. So neither a new code nor an id passed by mistake
can stop the worker or grow the scrape.
"""

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Generic, Self, TypeVar

from msgspec import UNSET
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from schemas.errors import DecodeCode
from schemas.records import AlertKind, Outcome, Severity, SuiteRecord
from streams.metrics.catalogue import (
    BUCKETS_S,
    CATALOGUE,
    OTHER,
    Kind,
    Label,
    Level,
    Metric,
    Repair,
    Target,
    TooLate,
    Verdict,
)

Series = TypeVar("Series", Counter, Gauge)


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownLabels:
    """The label values that the configuration gives.

    Args:
        topics: Names of the topics read.
        tables: Names of the tables kept.
        suites: Suite id -> its ``passScore``, None where it declares none. The
            first ``max_suites`` get series of their own.
        max_suites: How many suites get series of their own; the rest, and any
            suite not known, share ``other``.
    """

    topics: Sequence[str] = ()
    tables: Sequence[str] = ()
    suites: Mapping[str, float | None] = field(default_factory=dict)
    max_suites: int = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """Which build runs: package version and source revision."""

    version: str
    revision: str = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFigures:
    """What the metrics take from one suite record.

    Args:
        suite: Suite id.
        outcome: How the run ended.
        passed: The gate's verdict.
        legacy_passed: What RFC 0244 would have said.
        score: Measured aggregate, 0 to 1.
        gated_score: Gated aggregate, 0 to 1; the measured one where no task
            has an expectation.
    """

    suite: str
    outcome: Outcome
    passed: bool
    legacy_passed: bool
    score: float
    gated_score: float

    @property
    def changed(self) -> bool:
        """Whether RFC 0244 passes the run and RFC 0246 does not."""
        return self.legacy_passed and not self.passed

    @classmethod
    def from_record(cls, record: SuiteRecord) -> Self:
        """The figures of a published suite record."""
        summary = record.summary
        gated = summary.gated_aggregate_score
        return cls(
            suite=summary.suite_id,
            outcome=record.outcome,
            passed=summary.passed,
            legacy_passed=record.legacy_passed,
            score=summary.aggregate_score,
            gated_score=summary.aggregate_score if gated is UNSET else gated,
        )


class _Configured:
    """The closed label sets; the suites grow up to their cap, the rest stay."""

    def __init__(self, known: KnownLabels, build: Build) -> None:
        self._max_suites = known.max_suites
        self.suites: set[str] = set()
        self._sets: dict[str, set[str]] = {
            "topic": {*known.topics, OTHER},
            "table": {*known.tables, OTHER},
            "version": {build.version},
            "revision": {build.revision},
            "python_version": {platform.python_version()},
        }
        self._suite_values = {OTHER}

    def admit(self, suite: str) -> bool:
        """Whether the suite has series of its own; takes a free place if any."""
        if suite not in self.suites and len(self.suites) < self._max_suites:
            self.suites.add(suite)
            self._suite_values.add(suite)
        return suite in self.suites

    def values(self, label: Label) -> set[str]:
        """The values a label may have; the suites' set is live."""
        if not label.configured:
            return set(label.values)
        if label.name == "suite":
            return self._suite_values
        return self._sets[label.name]


def new_registry() -> CollectorRegistry:
    """A registry with the process, platform and garbage-collector metrics."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class _Family(Generic[Series]):
    """One metric's series by label values, with the overflow bucket.

    Holding the series here saves the client's own lookup and lock on each call.
    """

    def __init__(
        self,
        open_series: Callable[..., Series],
        labels: Sequence[Label],
        known: _Configured,
    ) -> None:
        self._open: Callable[..., Series] = open_series
        self._sets = [known.values(label) for label in labels]
        self._series: dict[tuple[str, ...], Series] = {}
        if all(label.initialised for label in labels):
            for values in product(*self._sets):
                self.at(*values)

    def at(self, *values: str) -> Series:
        """The series of these label values; ``other`` stands for unknown ones."""
        found = self._series.get(values)
        if found is not None:
            return found
        closed = tuple(
            value if value in known else OTHER
            for value, known in zip(values, self._sets, strict=True)
        )
        if closed not in self._series:
            self._series[closed] = self._open(*closed)
        return self._series[closed]


class Metrics:
    """The recorder of every metric of the catalogue.

    Every series with a closed label set exists, at 0, from the start; the score
    gauges of a suite exist once there is a score, since 0 is a score.

    Args:
        registry: Where the metrics are registered; see ``new_registry``.
        known: Label values the configuration gives.
        build: Which build runs.
        clock: Unix time, seconds.

    Raises:
        ValueError: The registry already holds a recorder's metrics.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        known: KnownLabels,
        build: Build,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._known = _Configured(known, build)
        self._counters: dict[str, _Family[Counter]] = {}
        self._gauges: dict[str, _Family[Gauge]] = {}
        self._histograms: dict[str, Histogram] = {}
        for metric in CATALOGUE:
            self._register(registry, metric)
        for suite, bar in known.suites.items():
            self.declare_suite(suite, bar)
        self._set(
            "pathgate_build_info",
            build.version,
            build.revision,
            platform.python_version(),
            to=1,
        )

    def _register(self, registry: CollectorRegistry, metric: Metric) -> None:
        names = [label.name for label in metric.labels]
        match metric.kind:
            case Kind.COUNTER:
                counter = Counter(metric.name, metric.help, names, registry=registry)
                self._counters[metric.name] = _Family(
                    counter.labels if names else lambda: counter,
                    metric.labels,
                    self._known,
                )
            case Kind.GAUGE:
                gauge = Gauge(metric.name, metric.help, names, registry=registry)
                self._gauges[metric.name] = _Family(
                    gauge.labels if names else lambda: gauge,
                    metric.labels,
                    self._known,
                )
            case Kind.HISTOGRAM:
                self._histograms[metric.name] = Histogram(
                    metric.name, metric.help, buckets=BUCKETS_S, registry=registry
                )

    def _count(self, name: str, *values: str, n: int = 1) -> None:
        self._counters[name].at(*values).inc(n)

    def _set(self, name: str, *values: str, to: float) -> None:
        self._gauges[name].at(*values).set(to)

    # What comes in: called once a chunk, with the chunk's counts.

    def events_in(self, topic: str, n: int = 1) -> None:
        """Count records read from a source topic."""
        self._count("pathgate_events_received_total", topic, n=n)

    def rejected(self, code: DecodeCode, n: int = 1) -> None:
        """Count records that could not be decoded, by ``DecodeError.code``."""
        self._count("pathgate_events_rejected_total", code, n=n)

    def dead_lettered(self, reason: DecodeCode, n: int = 1) -> None:
        """Count records written to the dead-letter topic."""
        self._count("pathgate_dead_letters_total", reason, n=n)

    def duplicates(self, n: int = 1) -> None:
        """Count events that were already held."""
        self._count("pathgate_events_duplicate_total", n=n)

    def redelivered(self, n: int = 1) -> None:
        """Count records that this worker had read before a rebalance."""
        self._count("pathgate_events_redelivered_total", n=n)

    def late(self, n: int = 1) -> None:
        """Count events for runs that were already graded."""
        self._count("pathgate_events_late_total", n=n)

    def too_late(self, kind: TooLate, n: int = 1) -> None:
        """Count events for runs whose state is already removed."""
        self._count("pathgate_events_too_late_total", kind, n=n)

    def ids_outside_grammar(self, n: int = 1) -> None:
        """Count events whose ids are outside the v2 grammar."""
        self._count("pathgate_ids_outside_grammar_total", n=n)

    def ordinary_calls_dropped(self, n: int = 1) -> None:
        """Count calls of runs that are no evals."""
        self._count("pathgate_ordinary_calls_dropped_total", n=n)

    def misrouted_runs(self, n: int = 1) -> None:
        """Count runs seen on a partition their key does not hash to."""
        self._count("pathgate_misrouted_runs_total", n=n)

    def late_starts(self, n: int = 1) -> None:
        """Count runs whose start came after calls of theirs were dropped."""
        self._count("pathgate_late_starts_total", n=n)

    # What is decided.

    def trials_sealed(self, n: int = 1) -> None:
        """Count trials whose calls are known to be complete."""
        self._count("pathgate_trials_sealed_total", n=n)

    def trials_gated(self, reason: str, n: int = 1) -> None:
        """Count trials that did not pass for this reason; ``TrialReason``."""
        self._count("pathgate_trials_gated_total", reason, n=n)

    def set_open(
        self, runs: int, trials: int, oldest_unsealed_at_s: float | None = None
    ) -> None:
        """State how much is undecided.

        Args:
            runs: Runs started and not graded.
            trials: Trials not yet sealed.
            oldest_unsealed_at_s: Unix time at which the score that waits
                longest was read; None if none waits.
        """
        self._set("pathgate_runs_open", to=runs)
        self._set("pathgate_trials_open", to=trials)
        self._set(
            "pathgate_oldest_unsealed_score_timestamp_seconds",
            to=oldest_unsealed_at_s or 0.0,
        )

    def observe_sealing_wait(self, wait_s: float) -> None:
        """Observe the seconds from reading a score to sealing its trial."""
        self._histograms["pathgate_sealing_wait_seconds"].observe(max(0.0, wait_s))

    def observe_decision_latency(self, latency_s: float) -> None:
        """Observe the seconds from a run's last score to its suite summary.

        Hosts' clocks run apart from ours: below 0 counts as 0.
        """
        self._histograms["pathgate_decision_latency_seconds"].observe(
            max(0.0, latency_s)
        )

    def run_finished(self, run: RunFigures) -> None:
        """Count the first suite record of a run; later ones are ``run_revised``."""
        verdict = Verdict.PASSED if run.passed else Verdict.CLOSED
        self._count("pathgate_runs_finished_total", run.outcome, verdict)
        self._count("pathgate_gate_decisions_total", run.suite, verdict)
        if run.changed:
            self._count("pathgate_gate_changed_verdicts_total", run.suite, Level.SUITE)
        self._show(run)

    def run_revised(self, run: RunFigures, *, changed_before: bool) -> None:
        """Count a later suite record of a run.

        Args:
            run: The new figures.
            changed_before: ``RunFigures.changed`` of the record it replaces, so
                that a verdict the gate changed is counted once.
        """
        self._count("pathgate_revisions_total", Level.SUITE)
        if run.changed and not changed_before:
            self._count("pathgate_gate_changed_verdicts_total", run.suite, Level.SUITE)
        self._show(run)

    def _show(self, run: RunFigures) -> None:
        if run.suite not in self._known.suites:
            return  # a gauge shared by several suites would say nothing
        self._set("pathgate_last_score_ratio", run.suite, to=run.score)
        self._set("pathgate_last_gated_score_ratio", run.suite, to=run.gated_score)
        self._set("pathgate_last_verdict_passed", run.suite, to=run.passed)
        self._set(
            "pathgate_last_decision_timestamp_seconds", run.suite, to=self._clock()
        )

    def task_finished(self, suite: str, *, passed: bool, legacy_passed: bool) -> None:
        """Count the first record of a task."""
        if legacy_passed and not passed:
            self._count("pathgate_gate_changed_verdicts_total", suite, Level.TASK)

    def task_revised(self) -> None:
        """Count a later record of a task."""
        self._count("pathgate_revisions_total", Level.TASK)

    def host_disagreements(self, kind: str, n: int = 1) -> None:
        """Count points where a host's figures differ; ``Disagreement.kind``."""
        self._count("pathgate_host_disagreements_total", kind, n=n)

    def alerts_published(self, kind: AlertKind, severity: Severity, n: int = 1) -> None:
        """Count records written to the alert topic."""
        self._count("pathgate_alerts_published_total", kind, severity, n=n)

    def declare_suite(self, suite: str, bar: float | None) -> None:
        """Give a suite series of its own while there is room, and show its bar.

        Args:
            suite: Suite id, from the configuration or the suite topic.
            bar: Its ``passScore`` or the default, 0 to 1; None if none.
        """
        if not self._known.admit(suite):
            return
        for verdict in Verdict:
            self._counters["pathgate_gate_decisions_total"].at(suite, verdict)
        for level in Level:
            self._counters["pathgate_gate_changed_verdicts_total"].at(suite, level)
        if bar is not None:
            self._set("pathgate_bar_ratio", suite, to=bar)

    # How the worker does.

    def set_ready(self, *, ready: bool) -> None:
        """State whether the worker is ready."""
        self._set("pathgate_ready", to=ready)

    def set_lag(self, topic: str, records: int, age_s: float) -> None:
        """State the lag of a topic's assigned partitions.

        Args:
            topic: The topic.
            records: Records not yet processed, over all assigned partitions.
            age_s: Age of the oldest of them, seconds; 0 if none.
        """
        self._set("pathgate_consumer_lag_records", topic, to=records)
        self._set("pathgate_consumer_lag_seconds", topic, to=max(0.0, age_s))

    def progressed(self, at_s: float) -> None:
        """State that the worker finished a chunk, or started, at this Unix time."""
        self._set("pathgate_last_progress_timestamp_seconds", to=at_s)

    def set_recovery_remaining(self, table: str, records: int) -> None:
        """State the changelog records a table still has to read."""
        self._set("pathgate_recovery_remaining_records", table, to=records)

    def set_table_rows(self, table: str, rows: int) -> None:
        """State how many rows a table has on this worker."""
        self._set("pathgate_state_rows", table, to=rows)

    def rebalanced(self) -> None:
        """Count an assignment of partitions."""
        self._count("pathgate_rebalances_total")

    def produce_failed(self, target: Target, n: int = 1) -> None:
        """Count records the broker did not acknowledge."""
        self._count("pathgate_produce_failures_total", target, n=n)

    def changelog_conflict(self, repair: Repair, n: int = 1) -> None:
        """Count writes of state among which another worker wrote."""
        self._count("pathgate_changelog_conflicts_total", repair, n=n)
