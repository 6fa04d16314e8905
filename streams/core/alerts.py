"""Which alerts a published suite record raises.

Source: DESIGN.md §5-§6; RFC 0246 for what a changed verdict is.
"""

from schemas.reasons import RunReason
from schemas.records import AlertKind, DisagreementKind, Outcome, SuiteRecord

_ORDER = {kind: place for place, kind in enumerate(AlertKind)}
_BY_REASON = {
    RunReason.UNKNOWN_SUITE.value: AlertKind.UNKNOWN_SUITE,
    RunReason.MISROUTED_EVENTS.value: AlertKind.MISROUTED_EVENTS,
    RunReason.CALLS_DROPPED.value: AlertKind.CALLS_DROPPED,
}


def alert_kinds(
    record: SuiteRecord, *, passed_before: bool | None, lacks_calls: bool
) -> tuple[AlertKind, ...]:
    """The kinds of alert for one revision of a suite record.

    Args:
        record: The record about to be published.
        passed_before: Verdict of the revision before; None for the first.
        lacks_calls: Whether a pass rests on the absence of calls alone.

    Returns:
        Kinds in declared order, each once; empty for a clean pass.
    """
    kinds = {
        _BY_REASON[reason.code]
        for reason in record.reasons
        if reason.code in _BY_REASON
    }
    if not record.summary.passed:
        kinds.add(AlertKind.GATE_CLOSED)
        if record.legacy_passed:
            kinds.add(AlertKind.GATE_CHANGED_VERDICT)
        if passed_before:
            kinds.add(AlertKind.PASS_REOPENED)
    if record.outcome is Outcome.ABANDONED:
        kinds.add(AlertKind.RUN_ABANDONED)
    elif record.outcome is not Outcome.COMPLETE:
        kinds.add(AlertKind.RUN_INCOMPLETE)
    if lacks_calls:
        kinds.add(AlertKind.NO_CALL_EVIDENCE)
    kinds |= _host_kinds(record)
    return tuple(sorted(kinds, key=_ORDER.__getitem__)) if kinds else ()


def _host_kinds(record: SuiteRecord) -> set[AlertKind]:
    disagreements = record.host.disagreements if record.host else ()
    return {
        AlertKind.HOST_NOT_MIGRATED
        if disagreement.kind == DisagreementKind.SUITE_PASSED_UNGATED
        else AlertKind.HOST_DISAGREES
        for disagreement in disagreements
    }


def affected_tasks(record: SuiteRecord) -> tuple[str, ...]:
    """Ids of the tasks of a suite record that did not pass, in suite order."""
    return tuple(task.task_id for task in record.summary.tasks if not task.passed)
