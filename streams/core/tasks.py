"""One task's figures and verdict, from its graded trials.

Source: RFC 0246 §A-§B; RFC 0244 §B; DESIGN.md §4, "Task".
"""

from collections.abc import Sequence
from fractions import Fraction

import msgspec

from schemas.reasons import Reason, TaskReason
from schemas.suite import PassRule
from streams.core.compiled import CompiledSuite, CompiledTask
from streams.core.policy import Policy
from streams.core.run import TrialResult
from streams.core.scoring import ZERO, mean


class TaskFigures(msgspec.Struct, frozen=True):
    """What the suite needs of one task.

    Args:
        task: The task.
        trials: Its graded trials, in ``sequence`` order; may be empty.
        declared: Trials declared.
        score: Exact mean of the measured scores; 0 if none.
        gated: Exact mean of the gating scores, missing trials as 0.
        verdicts: Trials whose verdict is pass.
        passed: Our verdict (RFC 0246).
        legacy_passed: The verdict on ungated scores (RFC 0244).
        reasons: Why it did not pass; empty if it passed.
    """

    task: CompiledTask
    trials: tuple[TrialResult, ...]
    declared: int
    score: Fraction
    gated: Fraction
    verdicts: int
    passed: bool
    legacy_passed: bool
    reasons: tuple[Reason, ...]


def pass_score_of(suite: CompiledSuite, policy: Policy) -> float | None:
    """The bar of the suite: its own, else the operator's default, else None."""
    declared = suite.thresholds.pass_score
    return policy.default_pass_score if declared is None else declared


def figures_of(
    task: CompiledTask,
    trials: Sequence[TrialResult],
    suite: CompiledSuite,
    policy: Policy,
) -> TaskFigures:
    """Figures and verdict of one task.

    Args:
        task: A task of ``suite``.
        trials: Its graded trials in ``sequence`` order.
        suite: Gives the declared count, the rule and the bar.
        policy: Gives the default bar.

    Returns:
        The figures. A missing trial counts 0 in the gate and is left out of
        the measured mean; with more trials than declared the task does not
        pass, and its gating mean runs over all received.
    """
    measured = [Fraction(trial.score.score) for trial in trials]
    gating = [
        ZERO if trial.gated else score
        for trial, score in zip(trials, measured, strict=True)
    ]
    divisor = max(suite.count, len(trials))
    gated = mean(gating, divisor)
    verdicts = sum(trial.passed for trial in trials)
    bar = pass_score_of(suite, policy)
    passed = _passes(suite, bar, len(trials), verdicts, gated)
    return TaskFigures(
        task=task,
        trials=tuple(trials),
        declared=suite.count,
        score=mean(measured),
        gated=gated,
        verdicts=verdicts,
        passed=passed,
        legacy_passed=_passes(
            suite, bar, len(trials), verdicts, mean(measured, divisor)
        ),
        reasons=_reasons(suite, bar, trials, gated, passed=passed),
    )


def _passes(
    suite: CompiledSuite,
    bar: float | None,
    received: int,
    verdicts: int,
    mean_score: Fraction,
) -> bool:
    if received > suite.count or not received:
        return False
    if suite.pass_rule is PassRule.ANY:
        return verdicts >= 1
    if suite.pass_rule is PassRule.MEAN and bar is not None:
        return float(mean_score) >= bar
    return verdicts == suite.count


def _reasons(
    suite: CompiledSuite,
    bar: float | None,
    trials: Sequence[TrialResult],
    gated: Fraction,
    *,
    passed: bool,
) -> tuple[Reason, ...]:
    if passed:
        return ()
    reasons = []
    failed = tuple(k for k, trial in enumerate(trials, 1) if not trial.passed)
    if failed:
        reasons.append(Reason(code=TaskReason.TRIAL_FAILED.value, trials=failed))
    if suite.pass_rule is PassRule.MEAN and bar is not None and float(gated) < bar:
        reasons.append(
            Reason(
                code=TaskReason.BELOW_PASS_SCORE.value, value=float(gated), limit=bar
            )
        )
    if len(trials) < suite.count:
        reasons.append(
            Reason(
                code=TaskReason.MISSING_TRIAL.value,
                count=len(trials),
                limit=suite.count,
            )
        )
    if len(trials) > suite.count:
        reasons.append(
            Reason(
                code=TaskReason.EXTRA_TRIAL.value, count=len(trials), limit=suite.count
            )
        )
    return tuple(reasons)
