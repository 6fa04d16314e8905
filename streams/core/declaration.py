"""Compiles a declared ``expected.trajectory``, or says what has no meaning in it."""

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Raw

from schemas.errors import DecodeError
from schemas.suite import ArgsMatch, MatchMode, Step, Trajectory
from streams.core.arguments import ArgsDigester, ArgumentsError
from streams.core.expectation import ArgsNeed, Expectation, StepRule, ToolRule
from streams.core.pairing import bits, cover

_WILDCARD = "*"
_T = TypeVar("_T")
_WITH_EXTRAS = (MatchMode.IN_ORDER, MatchMode.ANY_ORDER)


def compile_expectation(
    trajectory: Trajectory,
    digester: ArgsDigester,
    aliases: Mapping[str, str],
    where: str = "$",
) -> Expectation:
    """Checks what the schema cannot express, and compiles.

    Args:
        trajectory: As decoded.
        digester: The one that digests the calls' arguments.
        aliases: Observed name -> canonical name; applied once, to the names of
            calls. Suites are written in canonical names.
        where: JSON path of the trajectory, for errors.

    Raises:
        DecodeError: With the JSON path of what has no meaning or can never be
            met, and would fail, or never fail, every trial unseen:

            - a step with ``args`` and ``argsHash``; with ``argsMatch: subset``
              and no ``args``, or ``args`` that are no object; with ``args``
              that have no canonical form (a key twice, too deep);
            - a step with no tool, an empty name, or one alternative twice;
            - ``*`` in a step's tool or a ``maxCallsPerTool`` key, and anywhere
              but at the end of a ``forbidden`` entry (``*`` alone forbids
              every tool); an empty entry;
            - a step's tool or a ``maxCallsPerTool`` key that the alias map
              renames: no call would have that name;
            - a step, optional or not, with an alternative that is forbidden;
            - ``maxExtraCalls`` in a mode that knows no extra calls;
            - ``maxCalls`` below the number of required steps, and a
              ``maxCallsPerTool`` that leaves a required step no call.

    Not an error: an entry of ``forbidden`` that repeats or is covered by
    another, a limit on a tool that no step names or that is forbidden, and
    ``optional`` in ``subset`` (there every step may be left over).
    """
    denied, prefixes = _compile_forbidden(trajectory.forbidden, aliases, where)
    steps = tuple(
        _compile_step(step, trajectory.match, digester, f"{where}.steps[{index}]")
        for index, step in enumerate(trajectory.steps)
    )
    spellings: dict[str, list[str]] = {}
    for name, tool in aliases.items():
        if name != tool:
            spellings.setdefault(tool, []).append(name)
    required = sum(1 << index for index, step in enumerate(steps) if step.required)
    limits = tuple(sorted(trajectory.max_calls_per_tool.items()))
    rules = _spell(_compile_rules(steps), spellings)
    compiled = Expectation(
        mode=trajectory.match,
        labels=tuple(
            rule.name + "?" * step.optional
            for rule, step in zip(steps, trajectory.steps, strict=True)
        ),
        steps=steps,
        required=required,
        optional=((1 << len(steps)) - 1) ^ required,
        masks={name: rule.free for name, rule in rules.items() if not rule.needs_args},
        rules={name: rule for name, rule in rules.items() if rule.needs_args},
        steps_of=_spell(_steps_by_tool(steps), spellings),
        max_calls=trajectory.max_calls,
        max_extra_calls=trajectory.max_extra_calls,
        limits=limits,
        limited=_spell({tool: tool for tool, _ in limits}, spellings),
        denied=denied,
        denied_prefixes=prefixes,
    )
    _check_steps(compiled, aliases, where)
    _check_limits(compiled, aliases, where)
    return compiled


def _spell(
    by_tool: Mapping[str, _T], spellings: Mapping[str, Sequence[str]]
) -> dict[str, _T]:
    """The table with every declared alias beside its canonical name."""
    return {
        name: value
        for tool, value in by_tool.items()
        for name in (tool, *spellings.get(tool, ()))
    }


def _compile_forbidden(
    entries: Sequence[str], aliases: Mapping[str, str], where: str
) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    denied: dict[str, str] = {}
    prefixes: list[tuple[str, str]] = []
    for index, entry in enumerate(entries):
        stem = entry.removesuffix(_WILDCARD)
        if not entry or _WILDCARD in stem:
            raise DecodeError(
                f"{where}.forbidden[{index}]",
                "expected a tool name, with * only at its end",
            )
        if stem == entry:
            denied[entry] = entry
        else:
            prefixes.append((stem, entry))
    literals = frozenset(denied)
    for name, tool in aliases.items():
        if name not in literals:
            starts = (entry for stem, entry in prefixes if _starts(stem, name, tool))
            hit = tool if tool in literals else next(starts, None)
            if hit is not None:
                denied[name] = hit
    return denied, tuple(prefixes)


def _starts(stem: str, name: str, tool: str) -> bool:
    return name.startswith(stem) or tool.startswith(stem)


def _compile_step(
    step: Step, mode: MatchMode, digester: ArgsDigester, where: str
) -> StepRule:
    tools = (step.tool,) if isinstance(step.tool, str) else tuple(step.tool)
    for index, tool in enumerate(tools):
        place = f"{where}.tool" + f"[{index}]" * (not isinstance(step.tool, str))
        _check_name(tool, place)
        if tool in tools[:index]:
            raise DecodeError(place, "expected alternatives that differ")
    if not tools:
        raise DecodeError(f"{where}.tool", "expected at least one tool")
    need, digest, members = _compile_args(step, digester, where)
    return StepRule(
        tools=tools,
        required=not step.optional and mode is not MatchMode.SUBSET,
        need=need,
        digest=digest,
        members=members,
    )


def _check_name(tool: str, where: str) -> None:
    if not tool or _WILDCARD in tool:
        raise DecodeError(where, "expected a literal tool name, without *")


def _compile_args(
    step: Step, digester: ArgsDigester, where: str
) -> tuple[ArgsNeed, bytes | None, tuple[tuple[str, bytes], ...]]:
    args = bytes(step.args) if isinstance(step.args, Raw) else b""
    subset = step.args_match is ArgsMatch.SUBSET
    if args and step.args_hash is not None:
        raise DecodeError(f"{where}.argsHash", "expected args or argsHash, not both")
    if subset and not args:
        raise DecodeError(f"{where}.argsMatch", "expected args to hold calls against")
    if step.args_hash is not None:
        return ArgsNeed.WHOLE, digester.whole_from_hash(step.args_hash), ()
    if not args:
        return ArgsNeed.NONE, None, ()
    try:
        digest, parts = digester.both(args)
    except ArgumentsError as error:
        raise DecodeError(f"{where}.args", error.expected) from error
    members = tuple(sorted((parts or {}).items()))
    if not subset:
        return ArgsNeed.WHOLE, digest, members
    if parts is None:
        raise DecodeError(f"{where}.args", "expected an object, as argsMatch is subset")
    return ArgsNeed.PARTS, None, members


def _steps_by_tool(steps: Sequence[StepRule]) -> dict[str, int]:
    by_tool: dict[str, int] = {}
    for index, step in enumerate(steps):
        for tool in step.tools:
            by_tool[tool] = by_tool.get(tool, 0) | 1 << index
    return by_tool


def _compile_rules(steps: Sequence[StepRule]) -> dict[str, ToolRule]:
    rules = {}
    for tool, mask in _steps_by_tool(steps).items():
        free = 0
        whole: dict[bytes, int] = {}
        members: dict[tuple[str, ...], dict[tuple[bytes | None, ...], int]] = {}
        for index in bits(mask):
            step = steps[index]
            if step.need is ArgsNeed.PARTS:
                steps_of = members.setdefault(tuple(k for k, _ in step.members), {})
                digests = tuple(digest for _, digest in step.members)
                steps_of[digests] = steps_of.get(digests, 0) | 1 << index
            elif step.digest is not None:
                whole[step.digest] = whole.get(step.digest, 0) | 1 << index
            else:
                free |= 1 << index
        rules[tool] = ToolRule(free, whole, tuple(members.items()))
    return rules


def _check_steps(compiled: Expectation, aliases: Mapping[str, str], where: str) -> None:
    for index, step in enumerate(compiled.steps):
        place = f"{where}.steps[{index}].tool"
        for tool in step.tools:
            _check_canonical(tool, aliases, place)
            if compiled.is_forbidden(tool) is not None:
                raise DecodeError(place, "expected a tool that is not forbidden")


def _check_canonical(tool: str, aliases: Mapping[str, str], where: str) -> None:
    if aliases.get(tool, tool) != tool:
        raise DecodeError(where, "expected a name that the aliases do not rename")


def _check_limits(
    compiled: Expectation, aliases: Mapping[str, str], where: str
) -> None:
    if compiled.max_extra_calls is not None and compiled.mode not in _WITH_EXTRAS:
        raise DecodeError(
            f"{where}.maxExtraCalls", "expected it with in-order or any-order alone"
        )
    required = [i for i, step in enumerate(compiled.steps) if step.required]
    if compiled.max_calls is not None and compiled.max_calls < len(required):
        raise DecodeError(
            f"{where}.maxCalls", "expected at least one call for each required step"
        )
    for tool, _ in compiled.limits:
        place = f"{where}.maxCallsPerTool[{json.dumps(tool)}]"
        _check_name(tool, place)
        _check_canonical(tool, aliases, place)
    if compiled.limits and not _can_serve(compiled, required):
        raise DecodeError(
            f"{where}.maxCallsPerTool", "expected a call for each required step"
        )


def _can_serve(compiled: Expectation, required: Sequence[int]) -> bool:
    """Whether the limits leave each required step a call of its own."""
    limits = dict(compiled.limits)
    room: dict[int, int] = {}
    for tool, mask in _steps_by_tool(compiled.steps).items():
        room[mask] = room.get(mask, 0) + limits.get(tool, len(required))
    return sum(map(len, cover(room, required).values())) == len(required)
