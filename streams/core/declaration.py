"""Compiles a declared ``expected.trajectory``, or says what has no meaning in it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Raw

from schemas.errors import DecodeError
from schemas.suite import ArgsMatch, MatchMode, Step, Trajectory
from schemas.trees import child
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
    compiled, faults = _compile(trajectory, digester, aliases, where)
    if faults:
        raise faults[0]
    return compiled


def find_faults(
    trajectory: Trajectory,
    digester: ArgsDigester,
    aliases: Mapping[str, str],
    where: str = "$",
) -> list[DecodeError]:
    """Everything that ``compile_expectation`` would refuse, whose arguments it takes.

    Returns:
        The faults, none where it compiles. What only follows from another fault
        is left out: a name that is no tool's is not held against the limits.
    """
    return _compile(trajectory, digester, aliases, where)[1]


def tool_names(trajectory: Trajectory, where: str) -> Iterator[tuple[str, str]]:
    """JSON path and name of each tool, ``forbidden`` entries among them.

    Args:
        trajectory: As decoded.
        where: Its JSON path.
    """
    for index, step in enumerate(trajectory.steps):
        yield from _alternatives(step, f"{where}.steps[{index}]")
    for index, entry in enumerate(trajectory.forbidden):
        yield f"{where}.forbidden[{index}]", entry
    for tool in trajectory.max_calls_per_tool:
        yield child(f"{where}.maxCallsPerTool", tool), tool


def _compile(
    trajectory: Trajectory,
    digester: ArgsDigester,
    aliases: Mapping[str, str],
    where: str,
) -> tuple[Expectation, list[DecodeError]]:
    """The expectation, and why it must not be used if there are faults."""
    faults: list[DecodeError] = []
    denied, prefixes = _compile_forbidden(trajectory.forbidden, aliases, where, faults)
    steps = tuple(
        _compile_step(
            step, trajectory.match, digester, f"{where}.steps[{index}]", faults
        )
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
    _check_steps(trajectory.steps, compiled, aliases, where, faults)
    _check_limits(compiled, aliases, where, faults)
    return compiled, faults


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
    entries: Sequence[str],
    aliases: Mapping[str, str],
    where: str,
    faults: list[DecodeError],
) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    denied: dict[str, str] = {}
    prefixes: list[tuple[str, str]] = []
    for index, entry in enumerate(entries):
        stem = entry.removesuffix(_WILDCARD)
        if not entry or _WILDCARD in stem:
            place = f"{where}.forbidden[{index}]"
            faults.append(
                DecodeError(place, "expected a tool name, with * only at its end")
            )
        elif stem == entry:
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
    step: Step,
    mode: MatchMode,
    digester: ArgsDigester,
    where: str,
    faults: list[DecodeError],
) -> StepRule:
    tools: tuple[str, ...] = ()
    for place, tool in _alternatives(step, where):
        if not _is_name(tool):
            faults.append(DecodeError(place, _LITERAL))
        elif tool in tools:
            faults.append(DecodeError(place, "expected alternatives that differ"))
        tools += (tool,)
    if not tools:
        faults.append(DecodeError(f"{where}.tool", "expected at least one tool"))
    need, digest, members = _compile_args(step, digester, where, faults)
    return StepRule(
        tools=tools,
        required=not step.optional and mode is not MatchMode.SUBSET,
        need=need,
        digest=digest,
        members=members,
    )


def _alternatives(step: Step, where: str) -> list[tuple[str, str]]:
    """JSON path and name of each tool of a step."""
    if isinstance(step.tool, str):
        return [(f"{where}.tool", step.tool)]
    return [(f"{where}.tool[{index}]", tool) for index, tool in enumerate(step.tool)]


_LITERAL = "expected a literal tool name, without *"


def _is_name(tool: str) -> bool:
    return bool(tool) and _WILDCARD not in tool


def _compile_args(
    step: Step, digester: ArgsDigester, where: str, faults: list[DecodeError]
) -> tuple[ArgsNeed, bytes | None, tuple[tuple[str, bytes], ...]]:
    args = bytes(step.args) if isinstance(step.args, Raw) else b""
    subset = step.args_match is ArgsMatch.SUBSET
    digest, parts = _digest_args(args, digester, where, faults)
    if subset and not args:
        faults.append(
            DecodeError(f"{where}.argsMatch", "expected args to hold calls against")
        )
    elif subset and digest is not None and parts is None:
        expected = "expected an object, as argsMatch is subset"
        faults.append(DecodeError(f"{where}.args", expected))
    if args and step.args_hash is not None:
        expected = "expected args or argsHash, not both"
        faults.append(DecodeError(f"{where}.argsHash", expected))
    if step.args_hash is not None:
        return ArgsNeed.WHOLE, digester.whole_from_hash(step.args_hash), ()
    if not args:
        return ArgsNeed.NONE, None, ()
    members = tuple(sorted((parts or {}).items()))
    if subset:
        return ArgsNeed.PARTS, None, members
    return ArgsNeed.WHOLE, digest, members


def _digest_args(
    args: bytes, digester: ArgsDigester, where: str, faults: list[DecodeError]
) -> tuple[bytes | None, Mapping[str, bytes] | None]:
    if not args:
        return None, None
    try:
        return digester.both(args)
    except ArgumentsError as error:
        faults.append(DecodeError(f"{where}.args", error.expected))
        return None, None


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


def _check_steps(
    steps: Sequence[Step],
    compiled: Expectation,
    aliases: Mapping[str, str],
    where: str,
    faults: list[DecodeError],
) -> None:
    for index, step in enumerate(steps):
        for place, tool in _alternatives(step, f"{where}.steps[{index}]"):
            if not _is_name(tool):
                continue
            if not _is_canonical(tool, aliases):
                faults.append(DecodeError(place, _CANONICAL))
            elif compiled.is_forbidden(tool) is not None:
                expected = "expected a tool that is not forbidden"
                faults.append(DecodeError(place, expected))


_CANONICAL = "expected a name that the aliases do not rename"


def _is_canonical(tool: str, aliases: Mapping[str, str]) -> bool:
    return aliases.get(tool, tool) == tool


def _check_limits(
    compiled: Expectation,
    aliases: Mapping[str, str],
    where: str,
    faults: list[DecodeError],
) -> None:
    required = [i for i, step in enumerate(compiled.steps) if step.required]
    if compiled.max_calls is not None and compiled.max_calls < len(required):
        expected = "expected at least one call for each required step"
        faults.append(DecodeError(f"{where}.maxCalls", expected))
    if compiled.max_extra_calls is not None and compiled.mode not in _WITH_EXTRAS:
        expected = "expected it with in-order or any-order alone"
        faults.append(DecodeError(f"{where}.maxExtraCalls", expected))
    place = f"{where}.maxCallsPerTool"
    named = [tool for step in compiled.steps for tool in step.tools or ("",)]
    names_hold = all(map(_is_name, named))
    for tool, _ in compiled.limits:
        if not _is_name(tool):
            faults.append(DecodeError(child(place, tool), _LITERAL))
        elif not _is_canonical(tool, aliases):
            faults.append(DecodeError(child(place, tool), _CANONICAL))
    if compiled.limits and names_hold and not _can_serve(compiled, required):
        faults.append(DecodeError(place, "expected a call for each required step"))


def _can_serve(compiled: Expectation, required: Sequence[int]) -> bool:
    """Whether the limits leave each required step a call of its own."""
    limits = dict(compiled.limits)
    room: dict[int, int] = {}
    for tool, mask in _steps_by_tool(compiled.steps).items():
        room[mask] = room.get(mask, 0) + limits.get(tool, len(required))
    return sum(map(len, cover(room, required).values())) == len(required)
