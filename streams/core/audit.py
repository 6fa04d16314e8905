"""Where a host's own figures disagree with ours; the gate never follows them.

Source: RFC 0244 §A (a trial off its path must not pass); RFC 0246 §B;
DESIGN.md §5, "Host audit".
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from schemas.reasons import Reason, RunReason
from schemas.records import (
    Disagreement,
    DisagreementKind,
    Figure,
    HostAudit,
    SuiteRecord,
)
from schemas.summary import UNKNOWN_SUITE_ID, EvalSummary, TaskEntry
from streams.core.run import RunState
from streams.core.tasks import TaskFigures

# A host may sum in doubles; what differs by rounding alone is no disagreement.
# Measurement only: no gate reads this.
TOLERANCE = 1e-9


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
    ours: SuiteRecord, host: EvalSummary, *, expected: Collection[str]
) -> list[Disagreement]:
    """Holds a host's scorecard against ours, field by field.

    What the protocol lets a host leave out is no disagreement; what it says and
    the events do not is one. Of a run whose suite is not known, only what a
    record of it has is held: suite, verdicts, counts and scores. Model class,
    node ids and safety findings are the host's alone, a regression only where
    the baseline is at hand.

    Args:
        ours: Our record of the same run.
        host: The host's scorecard.
        expected: Ids of the tasks that declare a trajectory.

    Returns:
        Every disagreement: suite, verdicts, figures, and the fields RFC 0246 §D
        requires and leaves out; empty if the host agrees.
    """
    summary = ours.summary
    codes = [reason.code for reason in ours.reasons]
    is_known = RunReason.UNKNOWN_SUITE not in codes
    by_scores = scores_changed_verdict(ours.reasons, legacy_passed=ours.legacy_passed)
    found = _suite(summary, host)
    found += _verdict(host.passed, summary.passed, by_scores=by_scores)
    found += _figures(
        (host.aggregate_score, host.task_count, host.passed_count),
        (summary.aggregate_score, summary.task_count, summary.passed_count),
    )
    if is_known:
        gated = (summary.gated_aggregate_score, host.gated_aggregate_score)
        found += [*_gated(*gated, UNSET, required=True), *_run_fields(summary, host)]
    theirs: dict[str, TaskEntry] = {}
    for task in host.tasks:
        if theirs.setdefault(task.task_id, task) is not task:
            # The second could be the one that a reader believes.
            found.append(_about(DisagreementKind.COUNTS_DIFFER, task.task_id))
    for task in summary.tasks:
        task_id = task.task_id
        entry = theirs.pop(task_id, None)
        if entry is None:
            found.append(_about(DisagreementKind.COUNTS_DIFFER, task_id))
            continue
        found += _task(task, entry)
        if is_known:
            gated = (task.gated_score, entry.gated_score)
            found += _gated(*gated, task_id, required=task_id in expected)
            found += _task_fields(task, entry)
    found += [
        _about(DisagreementKind.COUNTS_DIFFER, task_id) for task_id in sorted(theirs)
    ]
    return found


def _suite(ours: EvalSummary, host: EvalSummary) -> list[Disagreement]:
    names = ("suiteId", "suiteVersion")
    if ours.suite_id != UNKNOWN_SUITE_ID:
        return _fields(names, ours, host, UNSET)
    # No event names it.
    kind = DisagreementKind.FIELD_DIFFERS
    return [_about(kind, UNSET, host.suite_id, UNSET, names[0])]


def _task(ours: TaskEntry, host: TaskEntry) -> list[Disagreement]:
    found = []
    if abs(host.score - ours.score) > TOLERANCE:
        kind = DisagreementKind.SCORE_DIFFERS
        found.append(_about(kind, ours.task_id, host.score, ours.score))
    if host.passed is not ours.passed:
        kind = DisagreementKind.VERDICT_DIFFERS
        found.append(_about(kind, ours.task_id, host.passed, ours.passed))
    return found


def _run_fields(ours: EvalSummary, host: EvalSummary) -> list[Disagreement]:
    found = _fields(("totalCostUsd", "trialStats"), ours, host, UNSET)
    if ours.regression and host.regression:
        # Where the difference is told is the host's to say.
        names = ("baselineRunId", "scoreDelta")
        found += _fields(names, ours.regression, host.regression, UNSET, "regression.")
    return found


def _task_fields(ours: TaskEntry, host: TaskEntry) -> list[Disagreement]:
    names = ("costUsd", "latencyMs", "schemaValid", "trials")
    return _fields(names, ours, host, ours.task_id)


def _fields(
    names: Iterable[str],
    ours: msgspec.Struct,
    host: msgspec.Struct,
    task_id: str | UnsetType,
    inside: str = "",
) -> list[Disagreement]:
    """Holds named fields of two structs of one kind, where the host has them."""
    theirs, own = msgspec.to_builtins(host), msgspec.to_builtins(ours)
    kind = DisagreementKind.FIELD_DIFFERS
    return [
        _about(kind, task_id, figure, our, path)
        for name in names
        if name in theirs
        for path, figure, our in _differing(
            inside + name, theirs[name], own.get(name, UNSET)
        )
    ]


def _differing(path: str, host: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    """Paths of what differs between two JSON values, with the host's figure and ours.

    An object that only the host has comes without figures.
    """
    if isinstance(host, dict) and isinstance(ours, dict):
        for key, value in host.items():
            yield from _differing(f"{path}.{key}", value, ours.get(key, UNSET))
    elif isinstance(host, tuple) and isinstance(ours, tuple):
        for index, pair in enumerate(zip_longest(host, ours, fillvalue=UNSET)):
            yield from _differing(f"{path}[{index}]", *pair)
    elif isinstance(host, dict):
        yield path, UNSET, UNSET
    elif isinstance(host, float) and isinstance(ours, float):
        if abs(host - ours) > TOLERANCE:
            yield path, host, ours
    elif host != ours:
        yield path, host, ours


def _about(
    kind: DisagreementKind,
    task_id: str | UnsetType,
    host: Figure | UnsetType = UNSET,
    ours: Figure | UnsetType = UNSET,
    field: str | UnsetType = UNSET,
) -> Disagreement:
    return Disagreement(
        kind=kind.value, task_id=task_id, host=host, ours=ours, field=field
    )


def _gated(
    ours: float | UnsetType,
    host: float | UnsetType,
    task_id: str | UnsetType,
    *,
    required: bool,
) -> list[Disagreement]:
    """Holds one gating score; the host may leave out what is not ``required``."""
    if isinstance(host, UnsetType):
        if not required or ours is UNSET:
            return []
        return [_about(DisagreementKind.GATED_SCORE_MISSING, task_id, UNSET, ours)]
    if isinstance(ours, float) and abs(ours - host) <= TOLERANCE:
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
