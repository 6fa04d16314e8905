"""The choices an operator may make about grading, and their defaults."""

from enum import StrEnum

import msgspec


class Attribution(StrEnum):
    """Which score a call belongs to."""

    SEQUENCE = "sequence"
    NODE = "node"


class Aggregation(StrEnum):
    """How task scores make the suite score."""

    MEAN = "mean"
    MEDIAN = "median"
    MIN = "min"


class MissingBudget(StrEnum):
    """What a declared cost or latency bar without the figures does."""

    CLOSED = "closed"
    OPEN = "open"


class CallEvidence(StrEnum):
    """What a run with expectations but without a single call event does."""

    ALERT = "alert"
    CLOSED = "closed"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How runs are graded, apart from what their suite says.

    Args:
        attribution: Which trial a call belongs to.
        aggregation: Task scores -> suite score.
        default_pass_score: Bar for suites that declare none, 0 to 1.
        missing_budget: Declared bars without figures.
        require_call_evidence: Expectations without any call event.
        max_calls_per_trial: More calls of one trial than this close the gate; of
            a run, ten times as many are held.

    Source: DESIGN.md §3-§5.
    """

    attribution: Attribution = Attribution.SEQUENCE
    aggregation: Aggregation = Aggregation.MEAN
    default_pass_score: float | None = None
    missing_budget: MissingBudget = MissingBudget.CLOSED
    require_call_evidence: CallEvidence = CallEvidence.ALERT
    max_calls_per_trial: int = 100_000
