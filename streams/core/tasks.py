"""One task's figures and verdict, from its graded trials.

Source: RFC 0246 §A-§B; RFC 0244 §B; DESIGN.md §4, "Task".
"""

from collections.abc import Sequence
from fractions import Fraction

import msgspec
from msgspec import UNSET, UnsetType

from schemas.reasons import Reason, TaskReason
from schemas.suite import PassRule
from schemas.summary import TaskEntry, TaskTrials
from streams.core.compiled import CompiledSuite, CompiledTask
from streams.core.policy import Policy
from streams.core.scored import TrialResult
from streams.core.scoring import ZERO, Mean, add, pass_at_k, pass_hat_k

_ANY = PassRule.ANY
_MEAN = PassRule.MEAN


class TaskFigures(msgspec.Struct, gc=False):
    """What the suite needs of one task.

    Args:
        task: The task.
        suite: Its suite.
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
    suite: CompiledSuite
    trials: tuple[TrialResult, ...]
    declared: int
    score: Mean
    gated: Mean
    verdicts: int
    passed: bool
    legacy_passed: bool
    reasons: tuple[Reason, ...]
    _entry: TaskEntry | None = None

    @property
    def entry(self) -> TaskEntry:
        """The task's entry in the scorecard, made once."""
        if self._entry is None:
            self._entry = self._make_entry()
        return self._entry

    def _make_entry(self) -> TaskEntry:
        """The entry.

        ``gatedScore`` stands on every task with an expectation, and elsewhere
        only where it differs from ``score`` (RFC 0246 §D).
        """
        score = float(self.score)
        gated = score if self.gated is self.score else float(self.gated)
        shows_gate = self.task.expectation is not None or gated != score
        cost_usd, latency_ms, schema_valid = _reported(self.trials)
        return TaskEntry(
            task_id=self.task.task_id,
            score=score,
            passed=self.passed,
            gated_score=gated if shows_gate else UNSET,
            cost_usd=cost_usd,
            latency_ms=latency_ms,
            schema_valid=schema_valid,
            trials=self._trial_figures(score) if self.suite.has_trials else UNSET,
        )

    def _trial_figures(self, score: float) -> TaskTrials:
        total = max(self.declared, len(self.trials))
        return TaskTrials(
            count=self.declared,
            scored=len(self.trials),
            passed=self.verdicts,
            mean_score=score,
            pass_at_k=pass_at_k(total, self.verdicts, self.declared),
            pass_hat_k=pass_hat_k(total, self.verdicts, self.declared),
        )


def _reported(
    trials: Sequence[TrialResult],
) -> tuple[float | UnsetType, int | UnsetType, bool | UnsetType]:
    """What hosts reported beside the scores: cost, latency, validity.

    Args:
        trials: Of one task, any number.

    Returns:
        Sum of the costs in USD, mean of the latencies in milliseconds, and
        whether every output is valid; each unset where no trial has it.
    """
    if len(trials) == 1:
        score = trials[0].score
        cost = score.cost_usd
        return (
            UNSET if cost is None else float(cost or ZERO),
            UNSET if score.latency_ms is None else score.latency_ms,
            UNSET if score.schema_valid is None else score.schema_valid,
        )
    scores = [trial.score for trial in trials]
    costs = [s.cost_usd for s in scores if s.cost_usd is not None]
    latencies = [s.latency_ms for s in scores if s.latency_ms is not None]
    valid = [s.schema_valid for s in scores if s.schema_valid is not None]
    return (
        float(add(costs)) if costs else UNSET,
        _mean_ms(latencies) if latencies else UNSET,
        all(valid) if valid else UNSET,
    )


def _mean_ms(latencies_ms: Sequence[int]) -> int:
    """Mean in milliseconds, half to even."""
    # round() of a fraction is half-even.
    return round(Fraction(sum(latencies_ms), len(latencies_ms)))


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
    received = len(trials)
    total = gated_total = add([trial.score.score for trial in trials])
    if True in [trial.gated for trial in trials]:
        gated_total = add([t.score.score for t in trials if not t.gated])
    divisor = max(suite.count, received)
    gated = Mean(gated_total, divisor)
    verdicts = sum([trial.passed for trial in trials])
    bar = pass_score_of(suite, policy)
    passed = legacy_passed = _passes(suite, bar, received, verdicts, gated)
    if gated_total is not total:
        ungated = Mean(total, divisor)
        legacy_passed = _passes(suite, bar, received, verdicts, ungated)
    return TaskFigures(
        task,
        suite,
        tuple(trials),
        suite.count,
        gated
        if gated_total is total and divisor == received
        else Mean(total, received or 1),
        gated,
        verdicts,
        passed,
        legacy_passed,
        () if passed else _reasons(suite, bar, trials, gated),
    )


def _passes(
    suite: CompiledSuite,
    bar: float | None,
    received: int,
    verdicts: int,
    mean_score: Mean,
) -> bool:
    if received > suite.count or not received:
        return False
    rule = suite.pass_rule
    if rule is _ANY:
        return verdicts >= 1
    if rule is _MEAN and bar is not None:
        return float(mean_score) >= bar
    return verdicts == suite.count


def _reasons(
    suite: CompiledSuite,
    bar: float | None,
    trials: Sequence[TrialResult],
    gated: Mean,
) -> tuple[Reason, ...]:
    reasons = []
    failed = tuple(k for k, trial in enumerate(trials, 1) if not trial.passed)
    if failed:
        reasons.append(Reason(code=TaskReason.TRIAL_FAILED.value, trials=failed))
    if suite.pass_rule is _MEAN and bar is not None and float(gated) < bar:
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
