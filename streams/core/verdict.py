"""The suite verdict: bars, budgets and inventory, with the reasons.

Source: RFC 0246 §B; DESIGN.md §4, "Suite" and "Inventory before verdict".
"""

from collections.abc import Sequence
from decimal import Decimal

import msgspec

from schemas.events import EventType
from schemas.reasons import Reason, RunReason
from schemas.records import Outcome
from streams.core.compiled import CompiledSuite
from streams.core.evidence import Call
from streams.core.policy import CallEvidence, MissingBudget, Policy
from streams.core.run import RunState
from streams.core.scored import TrialResult
from streams.core.scoring import Mean, add, aggregate, percentile
from streams.core.tasks import TaskFigures, pass_score_of


class SuiteVerdict(msgspec.Struct, frozen=True, gc=False):
    """The verdict of one run.

    Args:
        aggregate: Exact aggregate of the task scores.
        gated: Exact aggregate of the task gating scores.
        total_cost: Exact sum of the reported costs in USD; None if none is.
        outcome: How the run ended.
        passed: Our verdict (RFC 0246).
        legacy_passed: The verdict on ungated scores (RFC 0244).
        reasons: Why the gate is closed; empty if it is open.
    """

    aggregate: Mean
    gated: Mean
    total_cost: Decimal | None
    outcome: Outcome
    passed: bool
    legacy_passed: bool
    reasons: tuple[Reason, ...]


def decide(
    state: RunState,
    suite: CompiledSuite,
    policy: Policy,
    figures: Sequence[TaskFigures],
    strays: Sequence[TrialResult],
) -> SuiteVerdict:
    """Decides one run.

    Args:
        state: The run's evidence.
        suite: Its suite.
        policy: The operator's choices.
        figures: One entry a task, in suite order.
        strays: Graded trials of tasks the suite does not have.

    Returns:
        The verdict; every closed gate has at least one reason.
    """
    everything = [trial for task in figures for trial in task.trials]
    everything += strays
    uneven = [task for task in figures if len(task.trials) != task.declared]
    missing = missing_trials(uneven)
    measured = aggregate([task.score for task in figures], policy.aggregation)
    gated = measured
    changed = [task for task in figures if task.gated is not task.score]
    if changed:
        gated = aggregate([task.gated for task in figures], policy.aggregation)
    shared = [
        *inventory_reasons(state, suite, uneven),
        *_stray_reasons(strays),
        *_budget_reasons(suite, policy, everything),
    ]
    paths = path_reasons(state, suite, policy)
    # What is not there to be judged is not there under RFC 0244 either.
    evidence = evidence_reasons(state, suite, policy, everything)
    gate = _bar_reasons(state, suite, policy, everything, gated)
    if missing:
        # Missing trials are said once, with their number.
        gate = [reason for reason in gate if reason.code != RunReason.INCOMPLETE]
    legacy_gate = _legacy_bar_holds(state, suite, policy, measured)
    return SuiteVerdict(
        aggregate=measured,
        gated=gated,
        total_cost=_total_cost(everything),
        outcome=outcome_of(state, missing=missing > 0),
        passed=not (gate or shared or paths or evidence),
        legacy_passed=legacy_gate and not (shared or evidence),
        reasons=(*gate, *shared, *paths, *evidence),
    )


def missing_trials(figures: Sequence[TaskFigures]) -> int:
    """Declared trials that were not scored."""
    return sum([max(0, task.declared - len(task.trials)) for task in figures])


def outcome_of(state: RunState, *, missing: bool) -> Outcome:
    """How the run ended; an ending matters only where trials are missing."""
    if not missing:
        return _COMPLETE
    ending = state.ended.ending if state.ended is not None else None
    if ending is EventType.RUN_FAILED:
        return Outcome.FAILED
    if ending is EventType.RUN_CANCELLED:
        return Outcome.CANCELLED
    if ending is None and state.completed is None and state.idle:
        return Outcome.ABANDONED
    return Outcome.INCOMPLETE


_COMPLETE = Outcome.COMPLETE
_OUTCOME_REASONS = {
    Outcome.FAILED: RunReason.RUN_FAILED,
    Outcome.CANCELLED: RunReason.RUN_CANCELLED,
    Outcome.ABANDONED: RunReason.ABANDONED,
}


def inventory_reasons(
    state: RunState, suite: CompiledSuite, uneven: Sequence[TaskFigures]
) -> list[Reason]:
    """What is missing, too much, or contradictory; under either rule.

    Args:
        state: The run's evidence.
        suite: Its suite.
        uneven: The tasks with fewer or more trials than declared, in suite
            order.
    """
    reasons = []
    missing = missing_trials(uneven)
    if missing:
        reasons.append(
            Reason(
                code=RunReason.INCOMPLETE.value,
                count=suite.declared_trials - missing,
                limit=suite.declared_trials,
            )
        )
        named = _OUTCOME_REASONS.get(outcome_of(state, missing=True))
        if named is not None:
            reasons.append(Reason(code=named.value))
    reasons += [
        Reason(
            code=RunReason.EXTRA_TRIAL.value,
            task_id=task.task.task_id,
            count=len(task.trials),
            limit=task.declared,
        )
        for task in uneven
        if len(task.trials) > task.declared
    ]
    if state.is_contradictory:
        reasons.append(Reason(code=RunReason.SEQUENCE_CONFLICT.value))
    declared_none = state.started is not None and state.started.task_count == 0
    if declared_none or not state.scores:
        reasons.append(Reason(code=RunReason.NOTHING_EVALUATED.value))
    return reasons


def _stray_reasons(strays: Sequence[TrialResult]) -> list[Reason]:
    counts: dict[str, int] = {}
    for trial in strays:
        counts[trial.score.task_id] = counts.get(trial.score.task_id, 0) + 1
    return [
        Reason(code=RunReason.UNKNOWN_TASK.value, task_id=task_id, count=count)
        for task_id, count in sorted(counts.items())[:_MAX_NAMES]
    ]


def path_reasons(state: RunState, suite: CompiledSuite, policy: Policy) -> list[Reason]:
    """What the run's path shows apart from any trial; RFC 0244 asks for none of it."""
    strays = state.unattributed_calls(policy.attribution)
    return _forbidden_reasons(suite, strays) if strays else []


def evidence_reasons(
    state: RunState,
    suite: CompiledSuite,
    policy: Policy,
    trials: Sequence[TrialResult],
) -> list[Reason]:
    """Which of the run's events are not at hand; under either rule.

    They say nothing of the path that was taken.

    Args:
        state: The run's evidence.
        suite: Its suite.
        policy: The operator's choices.
        trials: Every graded trial of the run.
    """
    reasons: list[Reason] = []
    most = policy.max_calls_per_trial
    if state.overflow or (
        state.call_count > most and any(trial.calls > most for trial in trials)
    ):
        reasons.append(Reason(code=RunReason.TRAJECTORY_OVERFLOW.value, limit=most))
    if state.calls_dropped or state.unreadable:
        reasons.append(Reason(code=RunReason.CALLS_DROPPED.value))
    if state.misrouted:
        reasons.append(Reason(code=RunReason.MISROUTED_EVENTS.value))
    if lacks_calls(state, suite) and (
        policy.require_call_evidence == CallEvidence.CLOSED
    ):
        reasons.append(Reason(code=RunReason.NO_CALL_EVIDENCE.value))
    return reasons


def _forbidden_reasons(suite: CompiledSuite, strays: Sequence[Call]) -> list[Reason]:
    hits: dict[tuple[str, str], int] = {}
    for call in strays:
        entry = suite.is_forbidden(call.tool)
        if entry is not None:
            hits[entry, call.tool] = hits.get((entry, call.tool), 0) + 1
    return [
        Reason(
            code=RunReason.UNATTRIBUTED_FORBIDDEN_CALL.value,
            expected=entry,
            observed=tool,
            count=count,
        )
        for (entry, tool), count in sorted(hits.items())[:_MAX_NAMES]
    ]


# Of names that come from the wire; a record has to stay small enough to send.
_MAX_NAMES = 20


def lacks_calls(state: RunState, suite: CompiledSuite) -> bool:
    """Whether a pass would rest on the absence of calls alone."""
    return bool(suite.expectations) and state.call_count == 0


def _bar_reasons(
    state: RunState,
    suite: CompiledSuite,
    policy: Policy,
    trials: Sequence[TrialResult],
    gated: Mean,
) -> list[Reason]:
    bar = pass_score_of(suite, policy)
    code = RunReason.BELOW_PASS_SCORE.value
    if bar is not None:
        value = float(gated)
        return [] if value >= bar else [Reason(code=code, value=value, limit=bar)]
    # No bar is known: the host's own verdict, closed if any trial was gated.
    gated_count = sum([trial.gated for trial in trials])
    if gated_count:
        return [Reason(code=code, count=gated_count)]
    if state.completed is None:
        return [Reason(code=RunReason.INCOMPLETE.value)]
    return [] if state.completed.passed else [Reason(code=code)]


def _legacy_bar_holds(
    state: RunState, suite: CompiledSuite, policy: Policy, measured: Mean
) -> bool:
    bar = pass_score_of(suite, policy)
    if bar is not None:
        return float(measured) >= bar
    return state.completed is not None and state.completed.passed


def _total_cost(trials: Sequence[TrialResult]) -> Decimal | None:
    costs = [c for t in trials if (c := t.score.cost_usd) is not None]
    return add(costs) if costs else None


def _budget_reasons(
    suite: CompiledSuite, policy: Policy, trials: Sequence[TrialResult]
) -> list[Reason]:
    max_cost = suite.thresholds.max_cost_usd
    max_latency = suite.thresholds.max_p95_latency_ms
    if max_cost is None and max_latency is None:
        return []
    closed = policy.missing_budget == MissingBudget.CLOSED
    scores = [trial.score for trial in trials]
    reasons = []
    if max_cost is not None:
        costs = [score.cost_usd for score in scores if score.cost_usd is not None]
        if closed and (not scores or len(costs) < len(scores)):
            reasons.append(Reason(code=RunReason.COST_UNREPORTED.value, limit=max_cost))
        cost = float(add(costs))
        if cost > max_cost:
            code = RunReason.COST_EXCEEDED.value
            reasons.append(Reason(code=code, value=cost, limit=max_cost))
    if max_latency is not None:
        times = [score.latency_ms for score in scores if score.latency_ms is not None]
        if closed and (not scores or len(times) < len(scores)):
            code = RunReason.LATENCY_UNREPORTED.value
            reasons.append(Reason(code=code, limit=max_latency))
        p95 = percentile(times, 95) if times else 0
        if p95 > max_latency:
            code = RunReason.LATENCY_EXCEEDED.value
            reasons.append(Reason(code=code, value=p95, limit=max_latency))
    return reasons
