"""What pathgate publishes: task summaries, suite summaries, alerts."""

from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.errors import DecodeCode
from schemas.reasons import Reason, one_of
from schemas.summary import Count, EvalSummary, Ratio, TaskEntry

RECORD_VERSION: Final = 1

Number = Annotated[int, Meta(ge=1)]
Figure = float | int | bool | str


class _Record(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    forbid_unknown_fields=True,
    gc=False,
):
    """Base of a published record: closed, declared key order."""


class Outcome(StrEnum):
    """How a run ended, apart from whether it passed."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"


class Evidence(_Record, frozen=True, kw_only=True):
    """How many distinct calls and scores a record rests on."""

    calls: Count
    scores: Count


class TrialEntry(_Record, frozen=True, kw_only=True):
    """One trial of a task summary.

    Args:
        trial: 1-based number, by ``sequence`` of its ``eval.scored``.
        sequence: ``sequence`` of that event.
        score: The measured score, as reported.
        gating_score: What it contributes to the pass decision.
        passed: Our verdict.
        host_passed: The host's verdict, as reported.
        matched: Whether the trajectory met the expectation; unset without one.
        calls: Number of calls of the trial.
        expected: Tools of the steps in order (alternatives joined by ``|``,
            optional ones end in ``?``); only where ``matched`` is false.
        observed: Tools called in order, at most 50; only where ``matched`` is
            false.
        reasons: Why the trial did not pass; empty if it passed.
    """

    trial: Number
    sequence: Count
    score: Ratio
    gating_score: Ratio
    passed: bool
    host_passed: bool
    matched: bool | UnsetType = UNSET
    calls: Count
    expected: tuple[str, ...] | UnsetType = UNSET
    observed: tuple[str, ...] | UnsetType = UNSET
    reasons: tuple[Reason, ...] = ()


class TaskRecord(_Record, frozen=True, kw_only=True):
    """Value of ``eval.task-summary``, key ``runId#taskId``."""

    record_version: Literal[1]
    run_id: str
    suite_id: str
    suite_version: str
    evidence: Evidence
    task: TaskEntry
    trials: tuple[TrialEntry, ...]
    reasons: tuple[Reason, ...]
    legacy_passed: bool


class DisagreementKind(StrEnum):
    """What a host's figures and ours can disagree about."""

    TRIAL_PASSED_OFF_PATH = "trial-passed-off-path"
    SUITE_PASSED_UNGATED = "suite-passed-ungated"
    VERDICT_DIFFERS = "verdict-differs"
    AGGREGATE_DIFFERS = "aggregate-differs"
    COUNTS_DIFFER = "counts-differ"
    SCORE_DIFFERS = "score-differs"
    GATED_SCORE_MISSING = "gated-score-missing"
    GATED_SCORE_DIFFERS = "gated-score-differs"
    FIELD_DIFFERS = "field-differs"


class Disagreement(_Record, frozen=True, kw_only=True):
    """One point where the host's own figures differ from ours.

    Args:
        kind: A ``DisagreementKind``.
        host: The host's figure, where the kind has one; a text only on
            ``field-differs``.
        ours: Our figure.
        field: Field of the scorecard by its path from there or from the task, on
            ``field-differs``.
        task_id: Task, where it is about one.
        trials: 1-based trial numbers, on ``trial-passed-off-path``.
    """

    kind: Annotated[str, Meta(pattern=one_of(DisagreementKind))]
    host: Figure | UnsetType = UNSET
    ours: Figure | UnsetType = UNSET
    field: str | UnsetType = UNSET
    task_id: str | UnsetType = UNSET
    trials: tuple[Number, ...] | UnsetType = UNSET


class HostAudit(_Record, frozen=True, kw_only=True):
    """The host's ``eval.completed`` and where it disagrees with ours.

    The four figures are unset where no ``eval.completed`` was read.
    """

    aggregate_score: Ratio | UnsetType = UNSET
    passed: bool | UnsetType = UNSET
    task_count: Count | UnsetType = UNSET
    passed_count: Count | UnsetType = UNSET
    disagreements: tuple[Disagreement, ...] = ()


class SuiteRecord(_Record, frozen=True, kw_only=True):
    """Value of ``eval.suite-summary``, key ``runId``."""

    record_version: Literal[1]
    run_id: str
    outcome: Outcome
    evidence: Evidence
    summary: EvalSummary
    reasons: tuple[Reason, ...]
    legacy_passed: bool
    host: HostAudit | UnsetType = UNSET


class AlertKind(StrEnum):
    """What an alert is about."""

    GATE_CLOSED = "gate-closed"
    GATE_CHANGED_VERDICT = "gate-changed-verdict"
    HOST_NOT_MIGRATED = "host-not-migrated"
    HOST_DISAGREES = "host-disagrees"
    RUN_INCOMPLETE = "run-incomplete"
    RUN_ABANDONED = "run-abandoned"
    UNKNOWN_SUITE = "unknown-suite"
    NO_CALL_EVIDENCE = "no-call-evidence"
    PASS_REOPENED = "pass-reopened"  # noqa: S105  # a code, no password
    MISROUTED_EVENTS = "misrouted-events"
    CALLS_DROPPED = "calls-dropped"
    LATE_FORBIDDEN_CALL = "late-forbidden-call"


class Severity(StrEnum):
    """How urgent an alert is."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class AlertRecord(_Record, frozen=True, kw_only=True):
    """Value of ``eval.gate-alert``, key ``runId``; one per run, kind, revision."""

    record_version: Literal[1]
    run_id: str
    suite_id: str
    kind: AlertKind
    severity: Severity
    revision: Number
    reasons: tuple[Reason, ...]
    task_ids: tuple[str, ...]


Digits = Annotated[str, Meta(pattern=r"^[0-9]+\Z")]
Text = Annotated[str, Meta(min_length=1)]


class DeadLetterHeaders(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={
        "topic": "__connect.errors.topic",
        "partition": "__connect.errors.partition",
        "offset": "__connect.errors.offset",
        "connector_name": "__connect.errors.connector.name",
        "stage": "__connect.errors.stage",
        "exception_class_name": "__connect.errors.exception.class.name",
        "exception_message": "__connect.errors.exception.message",
        "reason": "pathgate.reason",
        "size": "pathgate.size",
        "sha256": "pathgate.sha256",
    },
):
    """Headers of a dead letter, each UTF-8 text, in Kafka Connect's spelling.

    Args:
        topic: Where the record was read from; likewise partition and offset.
        connector_name: The worker group that could not read it.
        stage: Where it failed, Connect's word.
        exception_class_name: Class of the error.
        exception_message: Path and expectation of the fault; no content.
        reason: Kind of the fault.
        size: Bytes of the original value.
        sha256: Of the original value, hex.
    """

    topic: Text
    partition: Digits
    offset: Digits
    connector_name: Text
    stage: Literal["VALUE_CONVERTER"]
    exception_class_name: Text
    exception_message: Text
    reason: DecodeCode
    size: Digits
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
