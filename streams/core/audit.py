"""Where a host's own figures disagree with ours; the gate never follows them.

Source: RFC 0244 §A (a trial off its path must not pass); RFC 0246 §B;
DESIGN.md §5, "Host audit".
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import UNSET, UnsetType

from schemas.reasons import Reason, RunReason
from schemas.records import Disagreement, HostAudit
from schemas.summary import EvalSummary, TaskEntry
from streams.core.run import RunState
from streams.core.tasks import TaskFigures

# A host may sum in doubles; what differs by rounding alone is no disagreement.
# Measurement only: no gate reads this.
TOLERANCE = 1e-9


class DisagreementKind(StrEnum):
    """What a host and pathgate can disagree about."""

    TRIAL_PASSED_OFF_PATH = "trial-passed-off-path"
    SUITE_PASSED_UNGATED = "suite-passed-ungated"
    VERDICT_DIFFERS = "verdict-differs"
    AGGREGATE_DIFFERS = "aggregate-differs"
    COUNTS_DIFFER = "counts-differ"
    SCORE_DIFFERS = "score-differs"
    GATED_SCORE_MISSING = "gated-score-missing"
    GATED_SCORE_DIFFERS = "gated-score-differs"


def scores_changed_verdict(reasons: Iterable[Reason], *, legacy_passed: bool) -> bool:
    """Whether RFC 0244 passes a run that its gating scores close (RFC 0246 §B).

    A host that applies the gate cannot pass such a run. It can pass one that is
    closed for a forbidden call outside every trial, or for events that are not
    at hand here: there the gating scores clear the bar.

    Args:
        reasons: Why the gate of the run is closed.
        legacy_passed: What RFC 0244 would have said.
    """
    code = RunReason.BELOW_PASS_SCORE
    return legacy_passed and any(reason.code == code for reason in reasons)


def host_audit(
    state: RunState,
    summary: EvalSummary,
    figures: Sequence[TaskFigures],
    *,
    by_scores: bool,
) -> HostAudit:
    """Holds the recorded ``eval.completed`` and trial verdicts against ours.

    Args:
        state: The run's evidence.
        summary: Our scorecard.
        figures: Our figures, one a task.
        by_scores: Whether ``scores_changed_verdict`` of the run.

    Returns:
        The host's figures where they were read, and every disagreement.
    """
    found = []
    for task in figures:
        if task.verdicts == len(task.trials):
            # No trial that was off its path has a pass from us.
            continue
        trials = [
            k
            for k, trial in enumerate(task.trials, 1)
            if trial.matched is False and trial.score.passed
        ]
        if trials:
            found.append(
                Disagreement(
                    kind=DisagreementKind.TRIAL_PASSED_OFF_PATH.value,
                    task_id=task.task.task_id,
                    trials=tuple(trials),
                )
            )
    host = state.completed
    if host is None:
        return HostAudit(disagreements=tuple(found))
    found.extend(_verdict(host.passed, summary.passed, by_scores=by_scores))
    found.extend(
        _figures(
            (host.aggregate_score, host.task_count, host.passed_count),
            (summary.aggregate_score, summary.task_count, summary.passed_count),
        )
    )
    return HostAudit(
        aggregate_score=host.aggregate_score,
        passed=host.passed,
        task_count=host.task_count,
        passed_count=host.passed_count,
        disagreements=tuple(found),
    )


def compare_summaries(
    ours: EvalSummary, host: EvalSummary, *, by_scores: bool
) -> list[Disagreement]:
    """Holds a host's scorecard against ours, field by field.

    Args:
        ours: Our scorecard of the same run.
        host: The host's.
        by_scores: Whether ``scores_changed_verdict`` of the run.

    Returns:
        Every disagreement: verdicts, figures, and the fields RFC 0246 §D
        requires; empty if the host agrees.
    """
    found = _verdict(host.passed, ours.passed, by_scores=by_scores)
    found.extend(
        _figures(
            (host.aggregate_score, host.task_count, host.passed_count),
            (ours.aggregate_score, ours.task_count, ours.passed_count),
        )
    )
    found.extend(_gated(ours.gated_aggregate_score, host.gated_aggregate_score, UNSET))
    theirs: dict[str, TaskEntry] = {}
    for task in host.tasks:
        if theirs.setdefault(task.task_id, task) is not task:
            # The second could be the one that a reader believes.
            found.append(_about(DisagreementKind.COUNTS_DIFFER, task.task_id))
    for task in ours.tasks:
        entry = theirs.pop(task.task_id, None)
        if entry is None:
            found.append(_about(DisagreementKind.COUNTS_DIFFER, task.task_id))
            continue
        if abs(entry.score - task.score) > TOLERANCE:
            found.append(
                _about(
                    DisagreementKind.SCORE_DIFFERS,
                    task.task_id,
                    entry.score,
                    task.score,
                )
            )
        if entry.passed is not task.passed:
            found.append(
                _about(
                    DisagreementKind.VERDICT_DIFFERS,
                    task.task_id,
                    entry.passed,
                    task.passed,
                )
            )
        found.extend(_gated(task.gated_score, entry.gated_score, task.task_id))
    found.extend(
        _about(DisagreementKind.COUNTS_DIFFER, task_id) for task_id in sorted(theirs)
    )
    return found


def _about(
    kind: DisagreementKind,
    task_id: str | UnsetType,
    host: float | UnsetType = UNSET,
    ours: float | UnsetType = UNSET,
) -> Disagreement:
    return Disagreement(kind=kind.value, task_id=task_id, host=host, ours=ours)


def _gated(
    ours: float | UnsetType, host: float | UnsetType, task_id: str | UnsetType
) -> list[Disagreement]:
    if isinstance(ours, UnsetType):
        return []
    if isinstance(host, UnsetType):
        return [_about(DisagreementKind.GATED_SCORE_MISSING, task_id, UNSET, ours)]
    if abs(ours - host) <= TOLERANCE:
        return []
    return [_about(DisagreementKind.GATED_SCORE_DIFFERS, task_id, host, ours)]


def _verdict(
    host_passed: bool,  # noqa: FBT001  # two verdicts side by side
    our_passed: bool,  # noqa: FBT001  # two verdicts side by side
    *,
    by_scores: bool,
) -> list[Disagreement]:
    if host_passed is our_passed:
        return []
    kind = (
        DisagreementKind.SUITE_PASSED_UNGATED
        if host_passed and by_scores
        else DisagreementKind.VERDICT_DIFFERS
    )
    return [Disagreement(kind=kind.value, host=host_passed, ours=our_passed)]


def _figures(
    host: tuple[float, int, int], ours: tuple[float, int, int]
) -> list[Disagreement]:
    """Holds the aggregate, the tasks and the tasks passed, in this order."""
    found = []
    if abs(host[0] - ours[0]) > TOLERANCE:
        found.append(
            _about(DisagreementKind.AGGREGATE_DIFFERS, UNSET, host[0], ours[0])
        )
    found.extend(
        _about(DisagreementKind.COUNTS_DIFFER, UNSET, host[place], ours[place])
        for place in (1, 2)
        if host[place] != ours[place]
    )
    return found
