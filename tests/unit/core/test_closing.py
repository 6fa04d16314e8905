"""When records are due: sealed, whole, ended, closed."""

import pytest

from streams.core.closing import NOTHING_DUE, Due, due, is_whole
from streams.core.run import RunState
from tests.factories import Log, apply, fold, make_context, make_suite, task

SUITE = make_suite(task("b"), task("a"), count=2, passScore=0.5)
CONTEXT = make_context(SUITE)


def held(log: Log) -> RunState:
    state, _ = fold(log.lines, CONTEXT, hold=True)
    return state


def seal_all(state: RunState) -> RunState:
    for sequence in tuple(state.unsealed):
        state.seal(sequence)
    return state


def whole() -> Log:
    return Log().start().score("a").score("a").score("b").score("b")


def now(state: RunState, *, closed: bool = False, grace_over: bool = False) -> Due:
    return due(state, state.suite, closed=closed, grace_over=grace_over)


def test_an_ordinary_run_is_never_due() -> None:
    """Calls and an ending are no eval, whatever is said of it."""
    state = seal_all(held(Log().call("x").end()))
    state.idle = True
    assert NOTHING_DUE == now(state, closed=True, grace_over=True)


def test_a_task_is_due_when_its_last_trial_is_sealed() -> None:
    """Not before, and not the task beside it."""
    state = held(Log().start().score("a").score("a").score("b"))
    assert NOTHING_DUE == now(state)
    state.seal(1)
    assert NOTHING_DUE == now(state)
    state.seal(2)
    state.seal(3)
    assert Due(("a",), suite=False) == now(state)


def test_only_tasks_that_changed_are_due() -> None:
    """A task whose record was taken is not due again until it changes."""
    state = seal_all(held(Log().start().score("a").score("a")))
    state.scored.take_dirty()
    assert NOTHING_DUE == now(state)


def test_a_task_whose_record_is_made_is_due_again_when_it_changes() -> None:
    """The other tasks stay due; a score more is a change."""
    state = seal_all(held(whole()))
    state.scored.clean(["b"])
    assert ("a",) == now(state).task_ids
    apply(state, Log(first=5).score("b").lines[0], CONTEXT)
    assert ("b", "a") == now(seal_all(state)).task_ids


def test_due_tasks_are_in_suite_order_and_of_the_suite() -> None:
    """``b`` stands before ``a`` in the suite; ``zz`` does not stand in it."""
    log = whole().score("zz").score("zz")
    assert ("b", "a") == now(seal_all(held(log))).task_ids


def test_a_whole_run_waits_for_the_hosts_verdict() -> None:
    """All trials sealed, no ``eval.completed``: the suite waits out the grace."""
    state = seal_all(held(whole()))
    assert Due(("b", "a"), suite=False, waits_for_host=True) == now(state)
    assert Due(("b", "a"), suite=True) == now(state, grace_over=True)


def test_an_ending_does_not_stand_for_the_hosts_verdict() -> None:
    """``run.completed`` of a whole run: still waits for ``eval.completed``."""
    state = seal_all(held(whole().end()))
    assert now(state).waits_for_host


def test_the_hosts_verdict_makes_a_whole_run_due() -> None:
    """As soon as it is sealed: calls may come up to it."""
    state = held(whole().completed())
    for sequence in (1, 2, 3, 4):
        state.seal(sequence)
    assert not now(state).suite
    state.seal(5)
    assert Due(("b", "a"), suite=True) == now(state)


@pytest.mark.parametrize(
    "ending", ["eval.completed", "run.completed", "run.failed", "run.cancelled"]
)
def test_an_ending_makes_a_run_with_missing_trials_due(ending: str) -> None:
    """Any ending, once it and every score is sealed; with all tasks."""
    log = Log().start().score("a")
    log = log.completed() if ending == "eval.completed" else log.end(ending)
    state = held(log)
    assert NOTHING_DUE == now(state)
    state.seal(2)
    assert NOTHING_DUE == now(state)
    state.seal(1)
    assert Due(("b", "a"), suite=True) == now(state)


def test_without_an_ending_missing_trials_are_waited_for() -> None:
    """The grace is for the host's verdict, not for trials."""
    state = seal_all(held(Log().start().score("a")))
    assert NOTHING_DUE == now(state, grace_over=True)


def test_an_unsealed_score_holds_an_incomplete_run_back() -> None:
    """Its calls may be missing."""
    state = held(Log().start().score("a").end())
    state.seal(2)
    assert {1} == state.unsealed
    assert NOTHING_DUE == now(state, grace_over=True)


@pytest.mark.parametrize("how", ["closed", "idle"])
def test_a_closed_or_idle_run_is_due_as_a_whole_once_sealed(how: str) -> None:
    """A revision, or the end of waiting, never rests on an unsealed score."""
    state = held(Log().start().score("a"))
    state.idle = how == "idle"
    assert NOTHING_DUE == now(state, closed=how == "closed")
    state.seal(1)
    assert Due(("b", "a"), suite=True) == now(state, closed=how == "closed")


def test_a_run_without_its_suite_is_due_when_it_ends() -> None:
    """Nobody can say that it is whole; its tasks are nobody's."""
    state, _ = fold(whole().lines, make_context(), hold=True)
    seal_all(state)
    assert NOTHING_DUE == now(state, grace_over=True)
    apply(state, Log(first=5).completed().lines[0], make_context())
    assert NOTHING_DUE == now(state)
    state.seal(5)
    assert Due((), suite=True) == now(state)
    state.unsealed |= {4}
    assert NOTHING_DUE == now(state)


def test_a_run_without_its_suite_that_is_idle_is_due() -> None:
    """As abandoned."""
    state, _ = fold(whole().lines, make_context(), hold=True)
    state.idle = True
    assert Due((), suite=True) == now(seal_all(state))


def test_a_run_is_whole_when_every_declared_trial_is_sealed() -> None:
    """Extra trials of one task do not stand for missing ones of another."""
    state = seal_all(held(whole()))
    assert is_whole(state, SUITE)
    state.unsealed |= {1}
    assert not is_whole(state, SUITE)
    log = Log().start().score("a").score("a").score("a").score("b")
    assert not is_whole(seal_all(held(log)), SUITE)
    assert is_whole(seal_all(held(whole().score("a"))), SUITE)
