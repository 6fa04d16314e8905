"""Short spellings of expectations and calls for the tests of matching."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from schemas.suite import ArgsMatch, MatchMode, Step, Trajectory
from streams.core.arguments import ArgsDigester
from streams.core.evidence import Call
from streams.core.trajectory import Expectation, Match, compile_expectation, match

DIGESTER = ArgsDigester()


def raw(value: object) -> msgspec.Raw:
    """A JSON value as undecoded bytes; bytes are taken as they are."""
    data = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return msgspec.Raw(data)


def step(tool: str | Sequence[str], **options: Any) -> Step:
    """A step: ``args`` and ``at_least`` are JSON values, ``args_hash``, ``optional``."""
    fields: dict[str, Any] = dict(options)
    for key, how in (("args", ArgsMatch.EXACT), ("at_least", ArgsMatch.SUBSET)):
        if key in options:
            value = fields.pop(key)
            fields |= {"args": raw(value), "args_match": how}
    return Step(tool=tool if isinstance(tool, str) else tuple(tool), **fields)


def declare(mode: str, *steps: str | Step, **options: Any) -> Trajectory:
    """A trajectory; a plain name is a step of that tool."""
    return Trajectory(
        match=MatchMode(mode),
        steps=tuple(step(s) if isinstance(s, str) else s for s in steps),
        **options,
    )


def expect(
    mode: str,
    *steps: str | Step,
    aliases: Mapping[str, str] | None = None,
    **options: Any,
) -> Expectation:
    """A compiled trajectory."""
    return compile_expectation(
        declare(mode, *steps, **options), DIGESTER, aliases or {}
    )


def call(tool: str, inputs: object = None, *, sequence: int = 0) -> Call:
    """A call; ``inputs`` is a JSON value, bytes are JSON, None is no evidence."""
    if inputs is None:
        return Call(sequence, f"event-{sequence}", tool)
    digest, parts = DIGESTER.both(bytes(raw(inputs)))
    return Call(sequence, f"event-{sequence}", tool, digest, parts)


def observe(*calls: str | Call) -> list[Call]:
    """Calls in order; a plain name is a call without evidence of arguments."""
    return [
        call(c, sequence=i) if isinstance(c, str) else c for i, c in enumerate(calls)
    ]


def judge(expectation: Expectation, *calls: str | Call) -> Match:
    """The verdict on these calls."""
    return match(expectation, observe(*calls))


def reasons(expectation: Expectation, *calls: str | Call) -> list[dict[str, Any]]:
    """The reasons on these calls, each as the fields that are set."""
    return [msgspec.to_builtins(r) for r in judge(expectation, *calls).reasons]
