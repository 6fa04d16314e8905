"""Whether a trial's calls took the expected path, and if not, why not.

The verdict is found first and costs no more than it needs; reasons are looked
for only where it is a failure (``streams.core.explanation``).

Source: RFC 0246 §A reads a trajectory that did not match; the grammar and its
modes are this project's reading (DESIGN.md §3).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from schemas.reasons import Reason
from schemas.suite import MatchMode
from streams.core.declaration import compile_expectation
from streams.core.expectation import ArgsNeed, Expectation, ObservedCall
from streams.core.explanation import explain
from streams.core.pairing import align, bits, pair

__all__ = ["ArgsNeed", "Expectation", "Match", "compile_expectation", "match"]


class Match(NamedTuple):
    """A trial's trajectory held against its expectation.

    Args:
        matched: Whether the calls took the expected path.
        reasons: Why not, at least one then; empty if matched.
    """

    matched: bool
    reasons: tuple[Reason, ...]


_MATCHED = Match(matched=True, reasons=())

# Tool names come from the wire: of what was matched, this many trials of at most
# so many calls are remembered.
_REMEMBERED_TRIALS = 1024
_REMEMBERED_CALLS = 16


class _NamedCall(NamedTuple):
    """A call whose arguments no step compares."""

    tool: str
    digest: None = None
    parts: None = None


def match(expectation: Expectation, calls: Sequence[ObservedCall]) -> Match:
    """Decides whether the calls of a trial meet its expectation.

    Args:
        expectation: Of the trial's task.
        calls: All calls of the trial in ``sequence`` order; any number.

    Returns:
        The verdict. It depends on the calls' tools and digests alone, and in
        the modes without order not on their order; the same calls give the
        same reasons in the same order, at most 20, those for forbidden tools
        first.
    """
    if expectation.rules or len(calls) > _REMEMBERED_CALLS:
        return _match(expectation, calls)
    return _match_tools(expectation, tuple([call.tool for call in calls]))


@lru_cache(maxsize=_REMEMBERED_TRIALS)
def _match_tools(expectation: Expectation, tools: tuple[str, ...]) -> Match:
    """The same where names decide alone: agents take few paths through a task."""
    return _match(expectation, [_NamedCall(tool) for tool in tools])


def _match(expectation: Expectation, calls: Sequence[ObservedCall]) -> Match:
    masks = _find_masks(expectation, calls)
    if (
        _DECIDE[expectation.mode](expectation, masks)
        and (expectation.max_calls is None or len(calls) <= expectation.max_calls)
        and not (expectation.limits and _breaks_limit(expectation, calls))
        and not _hits_forbidden(expectation, calls)
    ):
        return _MATCHED
    return Match(matched=False, reasons=explain(expectation, calls, masks))


def _find_masks(expectation: Expectation, calls: Sequence[ObservedCall]) -> list[int]:
    """The steps each call could serve, as a mask; in call order."""
    masks, rules = expectation.masks, expectation.rules
    if not rules:
        return [masks.get(call.tool, 0) for call in calls]
    return [
        masks.get(call.tool, 0) if rule is None else rule.mask(call)
        for call in calls
        for rule in (rules.get(call.tool),)
    ]


def _hits_forbidden(expectation: Expectation, calls: Sequence[ObservedCall]) -> bool:
    if not expectation.denied and not expectation.denied_prefixes:
        return False
    return any(
        expectation.is_forbidden(tool) is not None
        for tool in {call.tool for call in calls}
    )


def _breaks_limit(expectation: Expectation, calls: Sequence[ObservedCall]) -> bool:
    counts = dict.fromkeys(expectation.limited.values(), 0)
    for call in calls:
        tool = expectation.limited.get(call.tool)
        if tool is not None:
            counts[tool] += 1
    return any(counts[tool] > limit for tool, limit in expectation.limits)


def _take_greedily(masks: Sequence[int], steps: int) -> tuple[int, int]:
    """First fit, lowest step first: steps left unserved, and calls that served.

    Enough to accept, never to reject: who fails it is paired optimally.
    """
    served = 0
    for mask in masks:
        fit = mask & steps
        if fit:
            steps ^= fit & -fit
            served += 1
            if not steps:
                break
    return steps, served


def _decide_exact(expectation: Expectation, masks: Sequence[int]) -> bool:
    """Calls and steps one for one in order; optional steps may be left out.

    Bit ``j`` of ``reached`` says that the calls so far can be the first ``j``
    steps without some optional ones.
    """
    count = len(expectation.steps)
    if len(masks) > count:
        return False
    optional = expectation.optional
    reached = _skip(1, optional)
    for mask in masks:
        reached = _skip((reached & mask) << 1, optional)
        if not reached:
            return False
    return bool(reached >> count & 1)


def _skip(reached: int, optional: int) -> int:
    more = (reached & optional) << 1 & ~reached
    while more:
        reached |= more
        more = (more & optional) << 1 & ~reached
    return reached


def _decide_in_order(expectation: Expectation, masks: Sequence[int]) -> bool:
    """The required steps are a subsequence of the calls, extras within the limit.

    The earliest call is always the best choice for a required step. Optional
    steps matter only where calls that serve none are counted.
    """
    required = expectation.required
    step = required & -required
    for mask in masks:
        if mask & step:
            required ^= step
            if not required:
                break
            step = required & -required
    if required:
        return False
    allowed = expectation.max_extra_calls
    if allowed is None or len(masks) - expectation.required.bit_count() <= allowed:
        return True
    count = len(expectation.steps)
    if not expectation.optional or len(masks) - count > allowed:
        return False
    pairs = align(masks, count, expectation.optional)
    return pairs is not None and len(masks) - len(pairs) <= allowed


def _decide_any_order(expectation: Expectation, masks: Sequence[int]) -> bool:
    """Every required step has a call of its own, extras within the limit."""
    required = expectation.required
    allowed = expectation.max_extra_calls
    count = required.bit_count()
    if len(masks) < count:
        return False
    is_enough = allowed is None or len(masks) - count <= allowed
    if is_enough and not _take_greedily(masks, required)[0]:
        return True
    order = [*bits(required)]
    if not is_enough:
        order += bits(expectation.optional)
    pairs = pair(masks, order)
    return all(step in pairs for step in bits(required)) and (
        allowed is None or len(masks) - len(pairs) <= allowed
    )


def _decide_unordered(expectation: Expectation, masks: Sequence[int]) -> bool:
    """Every call serves a step of its own, and every required step is served.

    Where some pairing serves all calls and some other all required steps, one
    does both (Mendelsohn and Dulmage), and adding the required steps first
    finds it. In ``subset`` no step is required.
    """
    if len(masks) > len(expectation.steps):
        return False
    required = expectation.required
    optional = expectation.optional
    left, served = _take_greedily(masks, required | optional)
    if served == len(masks) and not left & required:
        return True
    pairs = pair(masks, [*bits(required), *bits(optional)])
    return len(pairs) == len(masks) and all(step in pairs for step in bits(required))


_DECIDE: dict[MatchMode, Callable[[Expectation, Sequence[int]], bool]] = {
    MatchMode.EXACT: _decide_exact,
    MatchMode.IN_ORDER: _decide_in_order,
    MatchMode.ANY_ORDER: _decide_any_order,
    MatchMode.UNORDERED: _decide_unordered,
    MatchMode.SUBSET: _decide_unordered,
}
