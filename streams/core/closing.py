"""When a run's records are due.

Source: DESIGN.md §5, "When a run is graded".
"""

import msgspec

from streams.core.compiled import CompiledSuite
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
        state: The run's evidence; its ``dirty`` tasks are those that changed.
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
    marks = (state.completed, state.ended)
    ended = any(m is not None and m.sequence not in state.unsealed for m in marks)
    if suite is None:
        return Due((), suite=ended and not state.unsealed)
    if is_whole(state, suite):
        completed = state.completed
        heard = completed is not None and completed.sequence not in state.unsealed
        if heard or grace_over:
            return _everything(suite)
        return Due(_due_tasks(state, suite), suite=False, waits_for_host=True)
    if ended and not state.unsealed:
        return _everything(suite)
    return Due(_due_tasks(state, suite), suite=False)


def is_settled(state: RunState, suite: CompiledSuite | None) -> bool:
    """Whether a log file is expected to hold nothing more of this run.

    The host's verdict or the run's end was read, with every declared trial.
    """
    if state.completed is None and state.ended is None:
        return False
    return suite is not None and is_whole(state, suite)


def _everything(suite: CompiledSuite | None) -> Due:
    tasks = () if suite is None else tuple(task.task_id for task in suite.tasks)
    return Due(tasks, suite=True)


def _due_tasks(state: RunState, suite: CompiledSuite) -> tuple[str, ...]:
    return tuple(
        task_id
        for task_id in sorted(state.dirty)
        if task_id in suite.by_id and _task_is_whole(state, suite, task_id)
    )


def _task_is_whole(state: RunState, suite: CompiledSuite, task_id: str) -> bool:
    scores = state.scores_of(task_id)
    return len(scores) >= suite.count and not any(s in state.unsealed for s in scores)
