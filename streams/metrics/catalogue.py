"""The metric catalogue: what pathgate counts, what it means, what to do about it.

One tuple is the source of the recorder, of the README table, and of the tests
that hold the alert rules and dashboards against it.
"""

from dataclasses import dataclass
from enum import StrEnum

from schemas.errors import DecodeCode
from schemas.reasons import TrialReason
from schemas.records import AlertKind, DisagreementKind, Outcome, Severity

OTHER = "other"
"""Bucket for a label value outside its closed set, so that series stay bounded."""

BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of every duration histogram, seconds; 5 is the objective."""


class Kind(StrEnum):
    """Prometheus type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Verdict(StrEnum):
    """Whether the gate let a run through."""

    PASSED = "passed"
    CLOSED = "closed"


class Level(StrEnum):
    """What a verdict is about."""

    SUITE = "suite"
    TASK = "task"


class TooLate(StrEnum):
    """What came for a run whose state is already gone."""

    FORBIDDEN_CALL = "forbidden-call"
    OTHER = "other-event"


class Target(StrEnum):
    """Where a record that could not be produced was to go."""

    CHANGELOG = "changelog"
    OUTPUT = "output"
    DEAD_LETTER = "dead-letter"
    CONTROL = "control"


class Repair(StrEnum):
    """What became of the runs of a changelog that two workers wrote to."""

    ASKED = "asked"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """One label and its closed set of values.

    Args:
        name: Label name.
        values: The values; empty where the configuration gives them, in which
            case ``other`` is one of them.
        initialised: Whether each value's series exists from the start.
    """

    name: str
    values: tuple[str, ...] = ()
    initialised: bool = True

    @property
    def configured(self) -> bool:
        """Whether the values come from the configuration."""
        return not self.values


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric.

    Args:
        name: Name as scraped (counters with ``_total``, histograms without
            ``_bucket``).
        kind: Prometheus type.
        unit: What the number counts or measures, plural.
        labels: Its labels, in order.
        meaning: What it says, one sentence.
        action: What an operator does about it.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[Label, ...] = ()
    meaning: str
    action: str

    @property
    def help(self) -> str:
        """HELP text: meaning, then what to do."""
        return f"{self.meaning} {self.action}"


TOPIC = Label(name="topic")
TABLE = Label(name="table")
CODE = Label(name="code", values=tuple(DecodeCode))
REASON = Label(name="reason", values=tuple(DecodeCode))
SUITE = Label(name="suite")
MEASURED_SUITE = Label(name="suite", initialised=False)

CATALOGUE: tuple[Metric, ...] = (
    # What comes in.
    Metric(
        name="pathgate_events_received_total",
        kind=Kind.COUNTER,
        unit="events",
        labels=(TOPIC,),
        meaning="Records read from a source topic, of every kind.",
        action="Flat while hosts run: check the hosts' producers and the ACLs.",
    ),
    Metric(
        name="pathgate_events_rejected_total",
        kind=Kind.COUNTER,
        unit="events",
        labels=(CODE,),
        meaning="Records that could not be decoded, by kind of fault.",
        action="Find the producer by the dead letter's origin headers; rerun the evals.",
    ),
    Metric(
        name="pathgate_events_duplicate_total",
        kind=Kind.COUNTER,
        unit="events",
        meaning="Events whose run and sequence were already held; they change nothing.",
        action="Normal after a host's retry; a steady share is a host sending twice.",
    ),
    Metric(
        name="pathgate_events_redelivered_total",
        kind=Kind.COUNTER,
        unit="events",
        meaning="Records read again by a worker that had read them before a rebalance.",
        action="None; they change nothing. Steady: see pathgate_rebalances_total.",
    ),
    Metric(
        name="pathgate_events_late_total",
        kind=Kind.COUNTER,
        unit="events",
        meaning="Events for a run that was already graded; graded again if they count.",
        action="Steady: a host publishes calls after the score that follows them.",
    ),
    Metric(
        name="pathgate_events_too_late_total",
        kind=Kind.COUNTER,
        unit="events",
        labels=(Label(name="kind", values=tuple(TooLate)),),
        meaning="Events for a run whose state was already removed; not graded.",
        action="A forbidden call: review the run by hand, its record may be a wrong pass.",
    ),
    Metric(
        name="pathgate_dead_letters_total",
        kind=Kind.COUNTER,
        unit="events",
        labels=(REASON,),
        meaning="Records written to the dead-letter topic.",
        action="Read the topic's error headers; fix the producer; replay.",
    ),
    Metric(
        name="pathgate_ids_outside_grammar_total",
        kind=Kind.COUNTER,
        unit="events",
        meaning="Events whose ids are outside the v2 grammar; accepted all the same.",
        action="Tell the host's owner; nothing is lost.",
    ),
    Metric(
        name="pathgate_ordinary_calls_dropped_total",
        kind=Kind.COUNTER,
        unit="events",
        meaning="Calls of runs that are no evals, dropped unread.",
        action="None; it is the size of the ordinary traffic.",
    ),
    Metric(
        name="pathgate_misrouted_runs_total",
        kind=Kind.COUNTER,
        unit="runs",
        meaning="Runs with an event on a partition their key does not hash to.",
        action="Give every producer the configured partitioner; rerun the evals.",
    ),
    Metric(
        name="pathgate_late_starts_total",
        kind=Kind.COUNTER,
        unit="runs",
        meaning="Runs that started after dropped calls or an event that cannot be read.",
        action="Have the host await the start's acknowledgement before its calls.",
    ),
    # What is decided.
    Metric(
        name="pathgate_runs_open",
        kind=Kind.GAUGE,
        unit="runs",
        meaning="Eval runs started and not yet graded.",
        action="Growing without end: hosts do not finish, or sealing is stuck.",
    ),
    Metric(
        name="pathgate_trials_open",
        kind=Kind.GAUGE,
        unit="trials",
        meaning="Trials that were scored and are not yet sealed.",
        action="Growing while runs do not: a call topic lags behind the scores.",
    ),
    Metric(
        name="pathgate_oldest_unsealed_score_timestamp_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        meaning="When the score that waits longest to be sealed was read; 0 if none.",
        action="Minutes old: look for a call topic that is not being processed.",
    ),
    Metric(
        name="pathgate_trials_sealed_total",
        kind=Kind.COUNTER,
        unit="trials",
        meaning="Trials whose calls are known to be complete.",
        action="Flat while scores come in: sealing is stuck.",
    ),
    Metric(
        name="pathgate_trials_gated_total",
        kind=Kind.COUNTER,
        unit="trials",
        labels=(Label(name="reason", values=tuple(TrialReason)),),
        meaning="Trials that did not pass, once for each reason given.",
        action="Read the task summaries: expected path against observed path.",
    ),
    Metric(
        name="pathgate_sealing_wait_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        meaning="From reading a score to its trial being sealed.",
        action="Above the objective: a call topic lags behind the score topic.",
    ),
    Metric(
        name="pathgate_decision_latency_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        meaning="From the publication of a run's last score to its suite summary.",
        action="Above the objective: see the consumer lag, then the sealing wait.",
    ),
    Metric(
        name="pathgate_runs_finished_total",
        kind=Kind.COUNTER,
        unit="runs",
        labels=(
            Label(name="outcome", values=tuple(Outcome)),
            Label(name="verdict", values=tuple(Verdict)),
        ),
        meaning="Runs graded, by how they ended and whether the gate let them through.",
        action="Abandoned or incomplete ones: the host died; rerun the eval.",
    ),
    Metric(
        name="pathgate_gate_decisions_total",
        kind=Kind.COUNTER,
        unit="runs",
        labels=(SUITE, Label(name="verdict", values=tuple(Verdict))),
        meaning="Runs graded, by suite and verdict.",
        action="A suite that closes far more often: a regression in the agent.",
    ),
    Metric(
        name="pathgate_gate_changed_verdicts_total",
        kind=Kind.COUNTER,
        unit="verdicts",
        labels=(SUITE, Label(name="level", values=tuple(Level))),
        meaning="Verdicts RFC 0244 passes and the gate does not; missing evidence is none.",
        action="An agent took a wrong or forbidden path to a good score: read the run.",
    ),
    Metric(
        name="pathgate_revisions_total",
        kind=Kind.COUNTER,
        unit="records",
        labels=(Label(name="level", values=tuple(Level)),),
        meaning="Records published again because a later event changed their value.",
        action="Steady: a host publishes calls after the score that follows them.",
    ),
    Metric(
        name="pathgate_host_disagreements_total",
        kind=Kind.COUNTER,
        unit="disagreements",
        labels=(Label(name="kind", values=tuple(DisagreementKind)),),
        meaning="Points where a host's own verdict or figures differ from ours.",
        action="suite-passed-ungated: the host has not migrated to RFC 0246.",
    ),
    Metric(
        name="pathgate_alerts_published_total",
        kind=Kind.COUNTER,
        unit="alerts",
        labels=(
            Label(name="kind", values=tuple(AlertKind)),
            Label(name="severity", values=tuple(Severity)),
        ),
        meaning="Records written to the alert topic.",
        action="Read the alert topic for the runs they name.",
    ),
    # What each suite last got.
    Metric(
        name="pathgate_bar_ratio",
        kind=Kind.GAUGE,
        unit="ratio",
        labels=(MEASURED_SUITE,),
        meaning="The pass score a suite's gated score is held against, 0 to 1.",
        action="None; the line to draw beside the scores.",
    ),
    Metric(
        name="pathgate_last_score_ratio",
        kind=Kind.GAUGE,
        unit="ratio",
        labels=(MEASURED_SUITE,),
        meaning="Measured aggregate score of a suite's latest graded run, 0 to 1.",
        action="Well above the gated score: good answers on wrong paths.",
    ),
    Metric(
        name="pathgate_last_gated_score_ratio",
        kind=Kind.GAUGE,
        unit="ratio",
        labels=(MEASURED_SUITE,),
        meaning="Gated aggregate score of a suite's latest graded run, 0 to 1.",
        action="Below the bar: the gate is closed; read the run's reasons.",
    ),
    Metric(
        name="pathgate_last_verdict_passed",
        kind=Kind.GAUGE,
        unit="boolean",
        labels=(MEASURED_SUITE,),
        meaning="Whether a suite's latest graded run passed the gate (1) or not (0).",
        action="0: read the reasons of the run's suite summary.",
    ),
    Metric(
        name="pathgate_last_decision_timestamp_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        labels=(MEASURED_SUITE,),
        meaning="When a suite's latest graded run on this worker was decided, Unix time.",
        action="None; it tells which worker's scores are the latest of a suite.",
    ),
    # How the worker does.
    Metric(
        name="pathgate_ready",
        kind=Kind.GAUGE,
        unit="boolean",
        meaning="Whether the worker is ready (1): running, recovered, not rebalancing.",
        action="0 for minutes: ask /readyz for the reasons.",
    ),
    Metric(
        name="pathgate_consumer_lag_records",
        kind=Kind.GAUGE,
        unit="records",
        labels=(TOPIC,),
        meaning="Records of the assigned partitions not yet processed.",
        action="Judge by the lag in seconds; growing: add workers up to the partitions.",
    ),
    Metric(
        name="pathgate_consumer_lag_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        labels=(TOPIC,),
        meaning="Age of the oldest record not yet processed; 0 when none is waiting.",
        action="High and growing: add workers up to the partitions, or find the stall.",
    ),
    Metric(
        name="pathgate_last_progress_timestamp_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        meaning="When the worker last finished a chunk or started, Unix time.",
        action="Old while there is lag: the worker hangs; restart it.",
    ),
    Metric(
        name="pathgate_recovery_remaining_records",
        kind=Kind.GAUGE,
        unit="records",
        labels=(TABLE,),
        meaning="Changelog records still to read before a table is usable.",
        action="Not falling: look at the broker; keep the state volume over restarts.",
    ),
    Metric(
        name="pathgate_rebalances_total",
        kind=Kind.COUNTER,
        unit="rebalances",
        meaning="Times the worker's partitions were assigned anew.",
        action="Steady: workers restart or miss heartbeats; use static membership.",
    ),
    Metric(
        name="pathgate_state_rows",
        kind=Kind.GAUGE,
        unit="rows",
        labels=(TABLE,),
        meaning="Rows of a table on this worker, as counted by the worker itself.",
        action="Growing without end: runs are not removed; check the retention settings.",
    ),
    Metric(
        name="pathgate_produce_failures_total",
        kind=Kind.COUNTER,
        unit="records",
        labels=(Label(name="target", values=tuple(Target)),),
        meaning="Records the broker did not acknowledge; their offsets stay uncommitted.",
        action="Check the broker, the ACLs and max.message.bytes of the topic.",
    ),
    Metric(
        name="pathgate_changelog_conflicts_total",
        kind=Kind.COUNTER,
        unit="writes",
        labels=(Label(name="repair", values=tuple(Repair)),),
        meaning="Writes of state among which another worker wrote to the changelog.",
        action="asked: its runs are rebuilt. failed: run pathgate verify --repair.",
    ),
    Metric(
        name="pathgate_build_info",
        kind=Kind.GAUGE,
        unit="info",
        labels=(
            Label(name="version", initialised=False),
            Label(name="revision", initialised=False),
            Label(name="python_version", initialised=False),
        ),
        meaning="Always 1; which build runs.",
        action="None; join it to see what a change of version did.",
    ),
)

BY_NAME = {metric.name: metric for metric in CATALOGUE}


def sample_names(metric: Metric) -> tuple[str, ...]:
    """Names under which a metric's series are scraped.

    Returns:
        The name itself; for a histogram its ``_bucket``, ``_sum``, ``_count``.
    """
    if metric.kind is Kind.HISTOGRAM:
        return tuple(f"{metric.name}_{part}" for part in ("bucket", "sum", "count"))
    return (metric.name,)


def markdown_table() -> str:
    """The catalogue as a Markdown table, for the README.

    Returns:
        One row a metric in catalogue order, ending in a newline.
    """
    head = "| metric | kind | labels | meaning | what to do |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(
        f"| `{metric.name}` | {metric.kind} | {_labels_cell(metric)} "
        f"| {metric.meaning} | {metric.action} |\n"
        for metric in CATALOGUE
    )


def _labels_cell(metric: Metric) -> str:
    return ", ".join(f"`{label.name}`" for label in metric.labels)
