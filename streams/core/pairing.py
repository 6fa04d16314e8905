"""Which call serves which step: optimal pairings, never first fit.

A call is the mask of the steps it could serve (step ``i`` is ``1 << i``), so
calls with one mask are alike and are counted, not tried one by one.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence


def bits(mask: int) -> Iterator[int]:
    """Indexes of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def group(masks: Iterable[int]) -> dict[int, list[int]]:
    """Mask -> indexes of its calls, ascending; calls that serve no step left out."""
    groups: dict[int, list[int]] = {}
    for index, mask in enumerate(masks):
        if mask:
            groups.setdefault(mask, []).append(index)
    return groups


class _Cover:
    """A maximum matching under construction: steps on one side, masks on the other."""

    def __init__(self, room: Mapping[int, int], order: Sequence[int]) -> None:
        self.room = room
        self.held_by: dict[int, list[int]] = {mask: [] for mask in room}
        self.mask_of: dict[int, int] = {}
        self._candidates = self._find_candidates(order)
        self._exhausted: set[int] = set()

    def _find_candidates(self, order: Sequence[int]) -> dict[int, list[int]]:
        """The masks tried for each step: as many as make a call for every step.

        More are never needed: a step with that many calls to choose from finds
        a free one whatever the others took. So the cost of a pairing does not
        grow with the number of calls.
        """
        candidates: dict[int, list[int]] = {step: [] for step in order}
        calls = dict.fromkeys(order, 0)
        short = sum(1 << step for step in calls)
        for mask, room in self.room.items():
            for step in bits(mask & short):
                candidates[step].append(mask)
                calls[step] += room
                if calls[step] >= len(order):
                    short ^= 1 << step
        return candidates

    def add(self, step: int) -> None:
        """Serves one more step if that is possible; served steps stay served."""
        reached: dict[int, int] = {}
        queue = [step]
        for current in queue:
            for mask in self._candidates[current]:
                if mask in reached or mask in self._exhausted:
                    continue
                reached[mask] = current
                if len(self.held_by[mask]) < self.room[mask]:
                    self._shift(mask, reached)
                    return
                queue.extend(self.held_by[mask])
        # Nothing reached here has room, nor will it: later searches stop there.
        self._exhausted.update(reached)

    def _shift(self, mask: int, reached: Mapping[int, int]) -> None:
        """Moves each step on the way to the next mask, from the free one back."""
        target: int | None = mask
        while target is not None:
            step = reached[target]
            source = self.mask_of.get(step)
            if source is not None:
                self.held_by[source].remove(step)
            self.held_by[target].append(step)
            self.mask_of[step] = target
            target = source


def cover(room: Mapping[int, int], order: Sequence[int]) -> dict[int, list[int]]:
    """Serves as many steps as possible, the earlier in ``order`` the surer.

    Args:
        room: Mask -> how many calls have it, each at least 1.
        order: Distinct steps. A step is left out only where no pairing serves
            it together with the served steps before it, so that a prefix of
            ``order`` that can be served as a whole is.

    Returns:
        Mask -> the steps its calls serve, ascending. The total is the largest
        possible for the steps of ``order``.

    Source: augmenting paths; which steps can be served together is a
        (transversal) matroid, so adding greedily is optimal.
    """
    pairing = _Cover(room, order)
    for step in order:
        pairing.add(step)
    return {mask: sorted(steps) for mask, steps in pairing.held_by.items()}


def pair(masks: Sequence[int], order: Sequence[int]) -> dict[int, int]:
    """Pairs steps with calls one to one, as ``cover`` does.

    Args:
        masks: The steps each call could serve, in call order.
        order: Distinct steps, the ones that matter most first.

    Returns:
        Step -> index of the call that serves it. Among calls with one mask the
        earliest serve, and in the order of the steps.
    """
    groups = group(masks)
    served = cover({mask: len(calls) for mask, calls in groups.items()}, order)
    return {
        step: call
        for mask, steps in served.items()
        for step, call in zip(steps, groups[mask], strict=False)
    }


def align(masks: Sequence[int], steps: int, optional: int) -> dict[int, int] | None:
    """Pairs steps with calls in order, serving as many optional steps as possible.

    For each number of optional steps served so far, the fewest calls that have
    to be read is all that later steps can depend on; so the work is steps
    times optional steps, whatever the number of calls.

    Args:
        masks: The steps each call could serve, in call order.
        steps: Number of steps.
        optional: Mask of the steps that may be left out.

    Returns:
        Step -> index of the call that serves it, every required step among
        them; None where the required steps cannot be served in order.
    """
    places = _places(masks, steps)
    rows = [[0]]
    for step in range(steps):
        row = _advance(rows[-1], places[step], may_skip=bool(optional >> step & 1))
        if not row:
            return None
        rows.append(row)
    pairs: dict[int, int] = {}
    served = len(rows[-1]) - 1
    for step in reversed(range(steps)):
        may_skip = optional >> step & 1
        read = rows[step + 1][served]
        if may_skip and served < len(rows[step]) and rows[step][served] == read:
            continue
        pairs[step] = read - 1
        served -= may_skip
    return pairs


def _places(masks: Sequence[int], steps: int) -> list[list[list[int]]]:
    """Per step, the ascending call indexes that could serve it, one list a mask."""
    places: list[list[list[int]]] = [[] for _ in range(steps)]
    for mask, calls in group(masks).items():
        for step in bits(mask):
            places[step].append(calls)
    return places


def _advance(row: list[int], places: list[list[int]], *, may_skip: bool) -> list[int]:
    """Fewest calls read after one more step, by optional steps served.

    The counts of a row ascend strictly, and where one more optional step
    cannot be served the row ends.
    """
    served = [_next(places, read) for read in row]
    reached = [read + 1 for read in served if read is not None]
    if not may_skip:
        return reached
    kept = [min(pair) for pair in zip(row[1:], reached, strict=False)]
    return [row[0], *kept, *reached[len(kept) :], *row[1 + len(kept) :]]


def _next(places: list[list[int]], read: int) -> int | None:
    """The first call, not before ``read``, of any of the lists."""
    best: int | None = None
    for calls in places:
        at = bisect_left(calls, read)
        if at < len(calls) and (best is None or calls[at] < best):
            best = calls[at]
    return best
