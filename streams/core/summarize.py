"""From the state of a run to the records that are published.

A record holds nothing but what follows from the set of the run's events: the
same events give the same bytes, however they came.

Source: RFC 0246 §C-§D; DESIGN.md §4 and §6.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import msgspec
from msgspec import UNSET, UnsetType

from schemas.reasons import Reason, RunReason
from schemas.records import (
    RECORD_VERSION,
    Evidence,
    HostAudit,
    SuiteRecord,
    TaskRecord,
    TrialEntry,
)
from schemas.summary import (
    UNKNOWN_SUITE_ID,
    UNKNOWN_SUITE_VERSION,
    EvalSummary,
    Regression,
    TaskEntry,
    TrialStats,
)
from streams.core.audit import host_audit, scores_changed_verdict
from streams.core.compiled import CompiledSuite, CompiledTask
from streams.core.policy import Policy
from streams.core.run import RunState
from streams.core.scored import TrialResult
from streams.core.scoring import Mean, aggregate, mean, pass_curves
from streams.core.tasks import TaskFigures, figures_of
from streams.core.trials import grade_trial
from streams.core.verdict import SuiteVerdict, decide, outcome_of

MAX_EXTRA_TRIALS = 100
"""A record has to stay small enough to send, whatever a host repeats."""
MAX_TOLD_TRIALS = 50
"""Likewise, of what is told expected against observed."""


class Graded(msgspec.Struct, frozen=True, gc=False):
    """A run graded as a whole.

    Args:
        suite_record: What is published of the run.
        figures: Figures a task, in suite order; empty for an unknown suite.
        strays: Trials of tasks the suite does not have.
    """

    suite_record: SuiteRecord
    figures: tuple[TaskFigures, ...]
    strays: tuple[TrialResult, ...]


def grade_run(
    state: RunState,
    suite: CompiledSuite | None,
    policy: Policy,
    baseline: float | None = None,
) -> Graded:
    """Grades all that is known of a run.

    Args:
        state: The run's evidence; the run was started or scored.
        suite: Its suite; None if it is not known, which closes the gate.
        policy: The operator's choices.
        baseline: ``aggregateScore`` of the run named as baseline, if known.

    Returns:
        The suite record and the figures it rests on.
    """
    if suite is None:
        return Graded(_unknown_suite_record(state, policy), (), ())
    by_task: dict[str, list[TrialResult]] = {}
    for sequence in state.scores:
        result = grade_trial(state, suite, policy, sequence)
        by_task.setdefault(result.score.task_id, []).append(result)
    figures = tuple(
        [
            figures_of(task, by_task.pop(task.task_id, ()), suite, policy)
            for task in suite.tasks
        ]
    )
    strays = tuple(trial for trials in by_task.values() for trial in trials)
    verdict = decide(state, suite, policy, figures, strays)
    summary = EvalSummary(
        suite_id=suite.suite_id,
        suite_version=suite.version,
        aggregate_score=float(verdict.aggregate),
        passed=verdict.passed,
        task_count=len(figures),
        passed_count=sum([task.passed for task in figures]),
        tasks=tuple([task.entry for task in figures]),
        gated_aggregate_score=float(verdict.gated) if suite.expectations else UNSET,
        total_cost_usd=UNSET
        if verdict.total_cost is None
        else float(verdict.total_cost),
        regression=_regression(state, verdict.aggregate, baseline),
        trial_stats=_trial_stats(figures, suite),
    )
    record = SuiteRecord(
        record_version=RECORD_VERSION,
        run_id=state.run_id,
        outcome=verdict.outcome,
        evidence=Evidence(calls=state.call_count, scores=len(state.scores)),
        summary=summary,
        reasons=verdict.reasons,
        legacy_passed=verdict.legacy_passed,
        host=_host(state, summary, figures, verdict),
    )
    return Graded(record, figures, strays)


def task_record(
    state: RunState, suite: CompiledSuite, figures: TaskFigures
) -> TaskRecord:
    """The record of one task.

    Args:
        state: The run's evidence.
        suite: Its suite.
        figures: The task's figures.

    Returns:
        The record. It lists the declared trials and at most
        ``MAX_EXTRA_TRIALS`` more; its figures rest on all. Of trials beyond the
        first ``MAX_TOLD_TRIALS`` that did not pass, only one reason is told.
    """
    told = 0
    entries = []
    listed = figures.trials[: figures.declared + MAX_EXTRA_TRIALS]
    for number, trial in enumerate(listed, 1):
        told += not trial.passed
        brief = told > MAX_TOLD_TRIALS
        entries.append(_trial_entry(number, trial, figures.task, brief=brief))
    return TaskRecord(
        record_version=RECORD_VERSION,
        run_id=state.run_id,
        suite_id=suite.suite_id,
        suite_version=suite.version,
        evidence=Evidence(
            calls=sum([trial.calls for trial in figures.trials]),
            scores=len(figures.trials),
        ),
        task=figures.entry,
        trials=tuple(entries),
        reasons=figures.reasons,
        legacy_passed=figures.legacy_passed,
    )


def figures_of_task(
    state: RunState, suite: CompiledSuite, policy: Policy, task: CompiledTask
) -> TaskFigures:
    """Figures of one task of a run, from all its scores known so far."""
    trials = [
        grade_trial(state, suite, policy, sequence)
        for sequence in state.scores_of(task.task_id)
    ]
    return figures_of(task, trials, suite, policy)


def _trial_stats(
    figures: Sequence[TaskFigures], suite: CompiledSuite
) -> TrialStats | UnsetType:
    if not suite.has_trials:
        return UNSET
    counts = [(max(task.declared, len(task.trials)), task.verdicts) for task in figures]
    at, hat = pass_curves(counts, suite.count)
    return TrialStats(count=suite.count, pass_at_k=at, pass_hat_k=hat)


def _trial_entry(
    number: int, trial: TrialResult, task: CompiledTask, *, brief: bool
) -> TrialEntry:
    off_path = trial.matched is False and not brief
    expectation = task.expectation
    score = float(trial.score.score)
    return TrialEntry(
        trial=number,
        sequence=trial.score.sequence,
        score=score,
        gating_score=0.0 if trial.gated else score,
        passed=trial.passed,
        host_passed=trial.score.passed,
        matched=UNSET if trial.matched is None else trial.matched,
        calls=trial.calls,
        expected=expectation.labels if off_path and expectation is not None else UNSET,
        observed=trial.observed if off_path else UNSET,
        reasons=trial.reasons[:1] if brief else trial.reasons,
    )


def _host(
    state: RunState,
    summary: EvalSummary,
    figures: Sequence[TaskFigures],
    verdict: SuiteVerdict,
) -> HostAudit | UnsetType:
    by_scores = scores_changed_verdict(
        verdict.reasons, legacy_passed=verdict.legacy_passed
    )
    audit = host_audit(state, summary, figures, by_scores=by_scores)
    if state.completed is None and not audit.disagreements:
        return UNSET
    return audit


def _regression(
    state: RunState, measured: Mean, baseline: float | None
) -> Regression | UnsetType:
    named = state.started.baseline_run_id if state.started is not None else None
    if named is None or baseline is None:
        return UNSET
    return Regression(
        baseline_run_id=named,
        score_delta=float(measured.exact - Fraction(str(baseline))),
    )


def _unknown_suite_record(state: RunState, policy: Policy) -> SuiteRecord:
    """What can be said of a run whose suite is not known: its measurements."""
    by_task: dict[str, list[Decimal]] = {}
    for sequence in state.scores:
        score = state.score_at(sequence)
        by_task.setdefault(score.task_id, []).append(score.score)
    means = {task_id: mean(scores) for task_id, scores in sorted(by_task.items())}
    reasons = [Reason(code=RunReason.UNKNOWN_SUITE.value)]
    if not state.scores:
        reasons.append(Reason(code=RunReason.NOTHING_EVALUATED.value))
    started = state.started
    return SuiteRecord(
        record_version=RECORD_VERSION,
        run_id=state.run_id,
        # Without its suite nobody can say that a run is whole.
        outcome=outcome_of(state, missing=True),
        evidence=Evidence(calls=state.call_count, scores=len(state.scores)),
        summary=EvalSummary(
            suite_id=UNKNOWN_SUITE_ID if started is None else started.suite_id,
            suite_version=(
                UNKNOWN_SUITE_VERSION if started is None else started.suite_version
            ),
            aggregate_score=float(aggregate(list(means.values()), policy.aggregation)),
            passed=False,
            task_count=len(means),
            passed_count=0,
            tasks=tuple(
                TaskEntry(task_id=task_id, score=float(score), passed=False)
                for task_id, score in means.items()
            ),
        ),
        reasons=tuple(reasons),
        legacy_passed=False,
    )
