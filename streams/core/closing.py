"""When a run's records are due.

Source: DESIGN.md §5, "When a run is graded".
"""

import msgspec

from streams.core.compiled import CompiledSuite
from streams.core.evidence import Completed, Ended
from streams.core.run import RunState


class Due(msgspec.Struct, frozen=True):
    """Which records of a run are due.

    Args:
        task_ids: Tasks of the suite whose record is due, in suite order.
        suite: Whether the suite record is due.
        waits_for_host: Whether only the host's own verdict is outstanding, so
            that the suite record is due once ``host_verdict_grace`` is over.
    """

    task_ids: tuple[str, ...]
    suite: bool
    waits_for_host: bool = False


NOTHING_DUE = Due((), suite=False)


def is_whole(state: RunState, suite: CompiledSuite) -> bool:
    """Whether every declared trial of every task was scored and is sealed."""
    if len(state.scores) < suite.declared_trials:
        return False
    return all(_task_is_whole(state, suite, task.task_id) for task in suite.tasks)


def due(
    state: RunState,
    suite: CompiledSuite | None,
    *,
    closed: bool,
    grace_over: bool,
) -> Due:
    """Decides which records of a run are due.

    Args:
        state: The run's evidence; ``scored.dirty`` are its tasks that changed.
        suite: Its suite, if known.
        closed: Whether the suite record was due before: a later event may
            only revise.
        grace_over: Whether the host had its time for ``eval.completed``.

    Returns:
        What is due now. A run that neither started nor scored never is.
    """
    if not state.publishes:
        return NOTHING_DUE
    # A revision never rests on a score whose calls may be missing.
    if closed or state.idle:
        return NOTHING_DUE if state.unsealed else _everything(suite)
    ended = _is_sealed(state, state.completed) or _is_sealed(state, state.ended)
    if suite is None:
        return _everything(None) if ended and not state.unsealed else NOTHING_DUE
    whole = is_whole(state, suite)
    if whole and (grace_over or _is_sealed(state, state.completed)):
        return _everything(suite)
    if not whole and ended and not state.unsealed:
        return _everything(suite)
    return Due(_due_tasks(state, suite), suite=False, waits_for_host=whole)


def _is_sealed(state: RunState, mark: Completed | Ended | None) -> bool:
    return mark is not None and mark.sequence not in state.unsealed


def _everything(suite: CompiledSuite | None) -> Due:
    tasks = () if suite is None else tuple(task.task_id for task in suite.tasks)
    return Due(tasks, suite=True)


def _due_tasks(state: RunState, suite: CompiledSuite) -> tuple[str, ...]:
    tasks = (
        suite.by_id[task_id] for task_id in state.scored.dirty if task_id in suite.by_id
    )
    return tuple(
        task.task_id
        for task in sorted(tasks, key=lambda task: task.index)
        if _task_is_whole(state, suite, task.task_id)
    )


def _task_is_whole(state: RunState, suite: CompiledSuite, task_id: str) -> bool:
    scores = state.scores_of(task_id)
    return len(scores) >= suite.count and state.unsealed.isdisjoint(scores)
