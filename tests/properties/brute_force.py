"""A second matcher, slow and obvious, to hold the real one against.

Written from the words of DESIGN.md §3 over plain Python values: it tries every
choice of optional steps and every way to pair steps with calls, compares
arguments as JSON values and not as digests, and shares no code with the core.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, permutations
from typing import Any


@dataclass(frozen=True)
class Any_:  # noqa: N801  # reads as a value
    """No constraint on the arguments."""


ANY = Any_()


@dataclass(frozen=True)
class Wanted:
    """A step: ``how`` is ``whole`` or ``members``; ``args`` may be ``ANY``."""

    tools: tuple[str, ...]
    args: Any = ANY
    how: str = "whole"
    optional: bool = False


@dataclass(frozen=True)
class Seen:
    """A call: ``evidence`` is ``inputs``, ``hash`` (of the whole) or ``none``."""

    tool: str
    args: Any = None
    evidence: str = "inputs"


@dataclass(frozen=True)
class Asked:
    """An expectation in plain values."""

    mode: str
    steps: tuple[Wanted, ...] = ()
    forbidden: tuple[str, ...] = ()
    max_calls: int | None = None
    max_extra_calls: int | None = None
    max_calls_per_tool: Mapping[str, int] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)


def is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return float(one) == float(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            is_same(one[key], other[key]) for key in one
        )
    return type(one) is type(other) and bool(one == other)


def can_serve(asked: Asked, wanted: Wanted, seen: Seen) -> bool:
    """Whether the call is what the step asks for."""
    if asked.aliases.get(seen.tool, seen.tool) not in wanted.tools:
        return False
    if wanted.args is ANY:
        return True
    if wanted.how == "whole":
        return seen.evidence != "none" and is_same(wanted.args, seen.args)
    return (
        seen.evidence == "inputs"
        and isinstance(seen.args, dict)
        and all(
            key in seen.args and is_same(value, seen.args[key])
            for key, value in wanted.args.items()
        )
    )


def is_denied(asked: Asked, seen: Seen) -> bool:
    """Whether ``forbidden`` has the call's name, or the name it stands for."""
    names = {seen.tool, asked.aliases.get(seen.tool, seen.tool)}
    return any(
        name.startswith(entry[:-1]) if entry.endswith("*") else name == entry
        for name in names
        for entry in asked.forbidden
    )


def is_within_limits(asked: Asked, calls: Sequence[Seen]) -> bool:
    """Whether ``maxCalls`` and ``maxCallsPerTool`` hold."""
    if asked.max_calls is not None and len(calls) > asked.max_calls:
        return False
    names = [asked.aliases.get(seen.tool, seen.tool) for seen in calls]
    return all(
        names.count(tool) <= limit for tool, limit in asked.max_calls_per_tool.items()
    )


def keep(asked: Asked) -> Iterator[tuple[Wanted, ...]]:
    """Every choice of steps that leaves out only what may be left out."""
    free = asked.mode == "subset"
    indexes = range(len(asked.steps))
    for kept in chain.from_iterable(
        combinations(indexes, count) for count in range(len(asked.steps) + 1)
    ):
        left = [asked.steps[index] for index in indexes if index not in kept]
        if free or all(step.optional for step in left):
            yield tuple(asked.steps[index] for index in kept)


def fits(asked: Asked, kept: Sequence[Wanted], calls: Sequence[Seen]) -> bool:
    """Whether these steps, all of them, can be paired with calls as the mode says."""
    choices: Iterator[tuple[int, ...]]
    indexes = range(len(calls))
    if asked.mode in {"exact", "unordered", "subset"}:
        if len(kept) != len(calls):
            return False
    elif (
        asked.max_extra_calls is not None
        and len(calls) - len(kept) > asked.max_extra_calls
    ):
        return False
    if asked.mode in {"exact", "in-order"}:
        choices = combinations(indexes, len(kept))
    else:
        choices = permutations(indexes, len(kept))
    return any(
        all(can_serve(asked, kept[i], calls[call]) for i, call in enumerate(chosen))
        for chosen in choices
    )


def is_match(asked: Asked, calls: Sequence[Seen]) -> bool:
    """The verdict, by trying everything."""
    return (
        not any(is_denied(asked, seen) for seen in calls)
        and is_within_limits(asked, calls)
        and any(fits(asked, kept, calls) for kept in keep(asked))
    )
