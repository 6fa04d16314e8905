"""One trial's verdict: its calls against its task's expectation.

Source: RFC 0246 §A; DESIGN.md §4, "Trial".
"""

from schemas.reasons import Reason, TrialReason
from streams.core.compiled import CompiledSuite
from streams.core.policy import Policy
from streams.core.run import RunState
from streams.core.scored import TrialResult
from streams.core.trajectory import match

MAX_OBSERVED = 50


def grade_trial(
    state: RunState, suite: CompiledSuite, policy: Policy, sequence: int
) -> TrialResult:
    """Grades the trial that the score at ``sequence`` ends.

    Args:
        state: The run; the result is remembered in it until the trial's
            evidence changes.
        suite: The run's suite.
        policy: How calls are attributed.
        sequence: Of a score of the run.

    Returns:
        The graded trial. A task the suite does not have has no expectation.
    """
    known = state.scored.results.get(sequence)
    if known is not None:
        return known
    score = state.score_at(sequence)
    calls = state.calls_of(sequence, policy.attribution)
    task = suite.by_id.get(score.task_id)
    matched: bool | None = None
    reasons: tuple[Reason, ...] = ()
    if task is not None and task.expectation is not None:
        outcome = match(task.expectation, calls)
        matched, reasons = outcome.matched, outcome.reasons
    if score.fixture_miss:
        reasons = (*reasons, Reason(code=TrialReason.FIXTURE_MISS.value))
    if not score.passed:
        reasons = (*reasons, Reason(code=TrialReason.HOST_FAILED.value))
    off_path = matched is False
    gated = off_path or score.fixture_miss
    result = TrialResult(
        score,
        matched,
        score.passed and not gated,
        len(calls),
        tuple([c.tool for c in calls[:MAX_OBSERVED]]) if off_path else (),
        reasons,
        gated,
    )
    state.scored.results[sequence] = result
    return result
