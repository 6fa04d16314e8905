"""The closed list of reasons: why a trial, a task or a run did not pass."""

import re
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta


class TrialReason(StrEnum):
    """Why one trial did not pass (DESIGN.md §4)."""

    FORBIDDEN_TOOL = "forbidden-tool"
    MISSING_STEP = "missing-step"
    UNEXPECTED_CALL = "unexpected-call"
    WRONG_ORDER = "wrong-order"
    TOO_MANY_CALLS = "too-many-calls"
    ARGS_MISMATCH = "args-mismatch"
    ARGS_UNOBSERVABLE = "args-unobservable"
    FIXTURE_MISS = "fixture-miss"
    HOST_FAILED = "host-failed"


class TaskReason(StrEnum):
    """Why one task did not pass."""

    TRIAL_FAILED = "trial-failed"
    BELOW_PASS_SCORE = "below-pass-score"  # noqa: S105  # a code, no password
    MISSING_TRIAL = "missing-trial"
    EXTRA_TRIAL = "extra-trial"


class RunReason(StrEnum):
    """Why the gate of a run is closed."""

    BELOW_PASS_SCORE = "below-pass-score"  # noqa: S105  # a code, no password
    COST_EXCEEDED = "cost-exceeded"
    LATENCY_EXCEEDED = "latency-exceeded"
    COST_UNREPORTED = "cost-unreported"
    LATENCY_UNREPORTED = "latency-unreported"
    INCOMPLETE = "incomplete"
    RUN_FAILED = "run-failed"
    RUN_CANCELLED = "run-cancelled"
    ABANDONED = "abandoned"
    UNKNOWN_SUITE = "unknown-suite"
    UNKNOWN_TASK = "unknown-task"
    EXTRA_TRIAL = "extra-trial"
    SEQUENCE_CONFLICT = "sequence-conflict"
    UNATTRIBUTED_FORBIDDEN_CALL = "unattributed-forbidden-call"
    NO_CALL_EVIDENCE = "no-call-evidence"
    NOTHING_EVALUATED = "nothing-evaluated"
    TRAJECTORY_OVERFLOW = "trajectory-overflow"
    CALLS_DROPPED = "calls-dropped"
    MISROUTED_EVENTS = "misrouted-events"


def one_of(*lists: type[StrEnum]) -> str:
    """A pattern that the values of some closed lists match, and nothing else."""
    values = sorted({str(value) for each in lists for value in each})
    return rf"^(?:{'|'.join(map(re.escape, values))})\Z"


class Reason(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """One reason, with what a person needs to see expected against observed.

    Holds codes, indexes, counts, numbers and names of tools and tasks; never
    content.

    Args:
        code: A value of ``TrialReason``, ``TaskReason`` or ``RunReason``.
        task_id: Task the reason is about, on run reasons.
        trials: 1-based numbers of the trials the reason is about, ascending.
        step: 0-based index into ``expected.trajectory.steps``.
        call: 0-based index into the trial's calls in ``sequence`` order.
        expected: Tool the step names (alternatives joined by ``|``), or the
            ``forbidden`` entry that was hit.
        observed: Tool that was called instead, or that must not have been.
        key: Top-level argument key that differs or is missing.
        count: How many were observed (calls, trials).
        limit: The bar that was broken: calls, score, USD or milliseconds.
        value: The figure held against ``limit``.
    """

    code: Annotated[str, Meta(pattern=one_of(TrialReason, TaskReason, RunReason))]
    task_id: str | None = None
    trials: tuple[Annotated[int, Meta(ge=1)], ...] = ()
    step: Annotated[int, Meta(ge=0)] | None = None
    call: Annotated[int, Meta(ge=0)] | None = None
    expected: str | None = None
    observed: str | None = None
    key: str | None = None
    count: Annotated[int, Meta(ge=0)] | None = None
    limit: float | int | None = None
    value: float | int | None = None
