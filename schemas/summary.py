"""The scorecard: ``EvalSummary`` with the fields of RFC 0244 and RFC 0246."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

Ratio = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Usd = Annotated[float, Meta(ge=0)]
Milliseconds = Count

UNKNOWN_SUITE_ID = "unknown.evals.unknown"
"""What a scorecard names where no ``eval.started`` names a suite."""
UNKNOWN_SUITE_VERSION = "0.0.0"
"""Likewise."""


class _Closed(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    forbid_unknown_fields=True,
    gc=False,
):
    """Base of what a scorecard holds: no unknown fields, declared key order."""


class FindingSeverity(StrEnum):
    """How grave a safety finding is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class SafetyFinding(_Closed, frozen=True, kw_only=True):
    """A safety finding a host reported for a task."""

    kind: str
    severity: FindingSeverity


class TaskTrials(_Closed, frozen=True, kw_only=True):
    """Trial figures of one task (RFC 0244 §B).

    Args:
        count: Trials declared.
        scored: Trials that were scored.
        passed: Trials whose verdict is pass.
        mean_score: Mean of the scores of the scored trials, 0 to 1; 0 if none.
        pass_at_k: Probability that at least one of k = ``count`` trials passes.
        pass_hat_k: Probability that all of k = ``count`` trials pass.
    """

    count: Count
    scored: Count
    passed: Count
    mean_score: Ratio
    pass_at_k: Ratio = msgspec.field(name="passAtK")
    pass_hat_k: Ratio = msgspec.field(name="passHatK")


class TaskEntry(_Closed, frozen=True, kw_only=True):
    """One task of the scorecard.

    ``gated_score`` is present on every task with an expectation, and on
    another only where it differs from ``score`` (RFC 0246 §D).
    """

    task_id: str
    score: Ratio
    passed: bool
    gated_score: Ratio | UnsetType = UNSET
    cost_usd: Usd | UnsetType = UNSET
    latency_ms: Milliseconds | UnsetType = UNSET
    schema_valid: bool | UnsetType = UNSET
    safety_findings: tuple[SafetyFinding, ...] | UnsetType = UNSET
    trials: TaskTrials | UnsetType = UNSET


class Regression(_Closed, frozen=True, kw_only=True):
    """Difference to a baseline run.

    ``score_delta`` is this run's ``aggregateScore`` minus the baseline's.
    """

    baseline_run_id: str
    score_delta: Annotated[float, Meta(ge=-1, le=1)]
    diff_ref: str | UnsetType = UNSET


class TrialStats(_Closed, frozen=True, kw_only=True):
    """Trial statistics of the suite; entry k-1 is the mean over tasks at k."""

    count: Count
    pass_at_k: tuple[Ratio, ...] = msgspec.field(name="passAtK")
    pass_hat_k: tuple[Ratio, ...] = msgspec.field(name="passHatK")


class EvalSummary(_Closed, frozen=True, kw_only=True):
    """The scorecard of one run.

    Source: RFC 0081; RFC 0244 §B; RFC 0246 §B-§D.
    """

    suite_id: str
    suite_version: str
    aggregate_score: Ratio
    passed: bool
    task_count: Count
    passed_count: Count
    tasks: tuple[TaskEntry, ...]
    gated_aggregate_score: Ratio | UnsetType = UNSET
    evaluated_model_class: str | UnsetType = UNSET
    total_cost_usd: Usd | UnsetType = UNSET
    pinned_node_ids: tuple[str, ...] | UnsetType = UNSET
    regression: Regression | UnsetType = UNSET
    trial_stats: TrialStats | UnsetType = UNSET
