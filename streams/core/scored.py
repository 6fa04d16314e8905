"""The scored trials of one run: where their scores stand, which are graded."""

from bisect import bisect_right, insort
from collections.abc import Iterable

import msgspec

from schemas.reasons import Reason
from streams.core.evidence import Score
from streams.core.policy import Attribution

# Reading a member of an enumeration costs as much as making a fact.
_BY_NODE = Attribution.NODE


class TrialResult(msgspec.Struct, frozen=True, gc=False):
    """One graded trial, as far as it does not depend on the other trials.

    Args:
        score: The fact it was scored by.
        matched: Whether the trajectory met the expectation; None without one.
        passed: Our verdict.
        calls: Number of its calls.
        observed: Its tools in order, at most 50; empty unless ``matched`` is
            false.
        reasons: Why it did not pass.
        gated: Whether it contributes 0 to the pass decision (RFC 0246 §A).
    """

    score: Score
    matched: bool | None
    passed: bool
    calls: int
    observed: tuple[str, ...]
    reasons: tuple[Reason, ...]
    gated: bool


def insert(ascending: list[int], sequence: int) -> None:
    """Puts a sequence in its place; at the end, where most belong, at once."""
    if not ascending or sequence > ascending[-1]:
        ascending.append(sequence)
    else:
        insort(ascending, sequence)


class ScoredTrials:
    """The scored trials of one run.

    Attributes:
        scores: The sequences of the scores, ascending.
        by_task: Task id -> those of its scores, likewise.
        by_node: Workflow node, or None -> those of its scores, likewise.
        results: Cache: sequence of a score -> its graded trial.
        dirty: Tasks whose trials changed since they were last taken.
    """

    __slots__ = ("by_node", "by_task", "dirty", "results", "scores")

    def __init__(self) -> None:
        self.scores: list[int] = []
        self.by_task: dict[str, list[int]] = {}
        self.by_node: dict[str | None, list[int]] = {}
        self.results: dict[int, TrialResult] = {}
        self.dirty: set[str] = set()

    def add(self, score: Score) -> None:
        """Takes a score in that is none of them yet."""
        sequence = score.sequence
        insert(self.scores, sequence)
        insert(self.by_task.setdefault(score.task_id, []), sequence)
        insert(self.by_node.setdefault(score.node_id, []), sequence)
        self.dirty.add(score.task_id)

    def ends(self, attribution: Attribution, node_id: str | None) -> list[int]:
        """The scores at which trials end that a call of this node may be of."""
        if attribution == _BY_NODE:
            return self.by_node.get(node_id, [])
        return self.scores

    def forget_after(
        self, sequence: int, attribution: Attribution, node_id: str | None
    ) -> int | None:
        """Forgets the result of the trial that a call at ``sequence`` is of.

        Returns:
            The sequence of that trial's score; None if it has none yet.
        """
        scores = self.ends(attribution, node_id)
        index = bisect_right(scores, sequence)
        if index == len(scores):
            return None
        self.results.pop(scores[index], None)
        return scores[index]

    def forget_all(self) -> None:
        """Forgets every result: they rest on something that changed."""
        self.results.clear()
        self.dirty.update(self.by_task)

    def take_dirty(self) -> set[str]:
        """Hands over the tasks whose trials changed since this was last asked."""
        dirty, self.dirty = self.dirty, set()
        return dirty

    def clean(self, task_ids: Iterable[str]) -> None:
        """Says that the records of these tasks are made."""
        self.dirty.difference_update(task_ids)
