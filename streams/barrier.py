"""When the events that precede a score are known to be read.

A cut is taken of what waits on a partition; then the log ends of every source
topic of that partition are asked for; once all that lies below them has been
applied, whatever waited at the cut has everything that was published before
it. Asked once for all partitions that wait, never per event.

Source: DESIGN.md §5, "sealed".
"""

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from faust.types import TP

Waiting = TypeVar("Waiting")


class _Cut(NamedTuple, Generic[Waiting]):
    ends: Mapping[TP, int]
    waiting: Waiting


class Barrier(Generic[Waiting]):
    """The cuts of one partition, oldest first.

    Args:
        reached: Gives for a source partition the offset below which every
            record was applied; None while that is unknown.
    """

    def __init__(self, reached: Callable[[TP], int | None]) -> None:
        self._reached = reached
        self._cuts: list[_Cut[Waiting]] = []

    @property
    def depth(self) -> int:
        """How many cuts have not been passed."""
        return len(self._cuts)

    @property
    def waiting(self) -> list[Waiting]:
        """What waits at the cuts, oldest first."""
        return [cut.waiting for cut in self._cuts]

    def add(self, ends: Mapping[TP, int], waiting: Waiting) -> None:
        """Takes a cut.

        Args:
            ends: Log ends that were asked for after ``waiting`` was collected.
            waiting: What waits.
        """
        self._cuts.append(_Cut(ends, waiting))

    def passed(self) -> list[Waiting]:
        """What waited at the cuts that have been passed since the last call."""
        cuts = self._cuts
        done = 0
        while done < len(cuts) and self._is_passed(cuts[done].ends):
            done += 1
        passed, self._cuts = cuts[:done], cuts[done:]
        return [cut.waiting for cut in passed]

    def _is_passed(self, ends: Mapping[TP, int]) -> bool:
        for tp, end in ends.items():
            reached = self._reached(tp)
            if reached is None or reached < end:
                return False
        return True
