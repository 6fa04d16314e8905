"""Which alerts a published suite record raises.

Source: DESIGN.md §5-§6; RFC 0246 for what a changed verdict is.
"""

from schemas.reasons import RunReason
from schemas.records import AlertKind, Outcome, SuiteRecord

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
    summary = record.summary
    kinds = set()
    if not summary.passed:
        kinds.add(AlertKind.GATE_CLOSED)
        if record.legacy_passed:
            kinds.add(AlertKind.GATE_CHANGED_VERDICT)
        if passed_before:
            kinds.add(AlertKind.PASS_REOPENED)
    disagreements = record.host.disagreements if record.host else ()
    found = {disagreement.kind for disagreement in disagreements}
    if "suite-passed-ungated" in found:
        kinds.add(AlertKind.HOST_NOT_MIGRATED)
    if found - {"suite-passed-ungated"}:
        kinds.add(AlertKind.HOST_DISAGREES)
    if record.outcome is Outcome.ABANDONED:
        kinds.add(AlertKind.RUN_ABANDONED)
    elif record.outcome is not Outcome.COMPLETE:
        kinds.add(AlertKind.RUN_INCOMPLETE)
    for reason in record.reasons:
        kind = _BY_REASON.get(reason.code)
        if kind is not None:
            kinds.add(kind)
    if lacks_calls:
        kinds.add(AlertKind.NO_CALL_EVIDENCE)
    return tuple(kind for kind in AlertKind if kind in kinds)


def affected_tasks(record: SuiteRecord) -> tuple[str, ...]:
    """Ids of the tasks of a suite record that did not pass, in suite order."""
    return tuple(task.task_id for task in record.summary.tasks if not task.passed)
