"""Which alerts a suite record raises."""

import pytest

from schemas.records import AlertKind
from streams.core.alerts import affected_tasks, alert_kinds
from streams.core.context import Context
from streams.core.run import RunState
from streams.core.summarize import grade_run
from tests.factories import Log, fold, make_context, make_suite, task

SUITE = make_suite(
    task("a", {"match": "exact", "steps": [{"tool": "x"}]}), task("b"), passScore=0.6
)
CONTEXT = make_context(SUITE)


def kinds_of(
    log: Log | RunState,
    context: Context = CONTEXT,
    *,
    passed_before: bool | None = None,
    lacks_calls: bool = False,
) -> list[AlertKind]:
    state = log if isinstance(log, RunState) else fold(log.lines, context)[0]
    record = grade_run(state, state.suite, context.policy).suite_record
    return list(
        alert_kinds(record, passed_before=passed_before, lacks_calls=lacks_calls)
    )


def passing() -> Log:
    return Log().start().call("x").score("a").score("b")


def off_path() -> Log:
    return Log().start().call("y").score("a", passed=False).score("b", 0.9)


def test_a_clean_pass_raises_nothing() -> None:
    """Also as a revision of a pass or a fail."""
    for before in (None, True, False):
        assert [] == kinds_of(passing(), passed_before=before)


def test_a_closed_gate_is_told() -> None:
    """Closed by the score alone: the old rule says the same."""
    log = Log().start().call("x").score("a", 0).score("b", 0)
    assert [AlertKind.GATE_CLOSED] == kinds_of(log)


def test_a_verdict_that_the_gate_changed_is_told() -> None:
    """0.95 would have passed, 0.45 does not."""
    assert [AlertKind.GATE_CLOSED, AlertKind.GATE_CHANGED_VERDICT] == kinds_of(
        off_path()
    )


def test_a_pass_that_turns_into_a_fail_is_told() -> None:
    """Only where the revision before was a pass."""
    assert AlertKind.PASS_REOPENED in kinds_of(off_path(), passed_before=True)
    assert AlertKind.PASS_REOPENED not in kinds_of(off_path(), passed_before=False)


def test_a_host_that_has_not_migrated_is_told() -> None:
    """It passed what only RFC 0244 passes; its counts agree."""
    log = off_path().completed(0.95, passed=True, tasks=2, passed_tasks=1)
    kinds = kinds_of(log)
    assert AlertKind.HOST_NOT_MIGRATED in kinds
    assert AlertKind.HOST_DISAGREES not in kinds


def test_a_host_that_disagrees_is_told() -> None:
    """A trial off its path that it passed, or a figure."""
    log = Log().start().call("y").score("a").score("b", 0.9)
    assert AlertKind.HOST_DISAGREES in kinds_of(log)
    log = passing().completed(0.5, passed=True, tasks=2, passed_tasks=2)
    assert [AlertKind.HOST_DISAGREES] == kinds_of(log)


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("run.completed", AlertKind.RUN_INCOMPLETE),
        ("run.failed", AlertKind.RUN_INCOMPLETE),
        ("run.cancelled", AlertKind.RUN_INCOMPLETE),
        (None, AlertKind.RUN_ABANDONED),
    ],
)
def test_missing_trials_are_told(ending: str | None, kind: AlertKind) -> None:
    """As incomplete where the run ended, as abandoned where nothing came."""
    log = Log().start().call("x").score("a")
    if ending is not None:
        log.end(ending)
    state, _ = fold(log.lines, CONTEXT)
    state.idle = True
    assert [AlertKind.GATE_CLOSED, kind] == kinds_of(state)


def test_what_the_transport_did_is_told() -> None:
    """Misrouted events and dropped calls."""
    state, _ = fold(passing().lines, CONTEXT)
    state.misrouted = state.calls_dropped = True
    assert {AlertKind.MISROUTED_EVENTS, AlertKind.CALLS_DROPPED} < set(kinds_of(state))


@pytest.mark.parametrize("flag", ["calls_dropped", "unreadable", "misrouted"])
def test_missing_evidence_accuses_neither_the_path_nor_the_host(flag: str) -> None:
    """0.95 on the path: no verdict of the gate, no host without it; it disagrees."""
    log = Log().start().call("x").score("a").score("b", 0.9)
    log.completed(0.95, passed=True, tasks=2, passed_tasks=2)
    state, _ = fold(log.lines, CONTEXT)
    setattr(state, flag, True)
    kinds = kinds_of(state)
    assert {AlertKind.GATE_CLOSED, AlertKind.HOST_DISAGREES} < set(kinds)
    assert AlertKind.GATE_CHANGED_VERDICT not in kinds
    assert AlertKind.HOST_NOT_MIGRATED not in kinds


def test_an_unknown_suite_is_told() -> None:
    """The run may be whole; nobody can say."""
    kinds = kinds_of(passing(), make_context())
    assert AlertKind.UNKNOWN_SUITE in kinds


def test_kinds_come_once_and_in_declared_order() -> None:
    """Whatever order the reasons have."""
    state, _ = fold(off_path().lines, CONTEXT)
    state.misrouted = state.calls_dropped = True
    kinds = kinds_of(state, passed_before=True, lacks_calls=True)
    assert [kind for kind in AlertKind if kind in kinds] == kinds
    assert AlertKind.NO_CALL_EVIDENCE in kinds


def test_affected_tasks_are_those_that_did_not_pass() -> None:
    """In suite order."""
    state, _ = fold(off_path().lines, CONTEXT)
    record = grade_run(state, SUITE, CONTEXT.policy).suite_record
    assert ("a",) == affected_tasks(record)
