"""What ``expected.trajectory`` means, compiled once for all trials of its task.

Steps are bits: step ``i`` is ``1 << i``, and what a call could serve is the
mask of those steps. Which masks a tool can have is worked out here, so that
matching looks at a call's name once and at its digests only where a step
compares arguments.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol

import msgspec

from schemas.suite import MatchMode
from streams.core.pairing import bits


class ArgsNeed(IntEnum):
    """What evidence of its arguments a call must keep; more implies less."""

    NONE = 0
    WHOLE = 1
    PARTS = 2


class ObservedCall(Protocol):
    """What matching reads of a call; ``streams.core.evidence.Call`` is one.

    Attributes:
        tool: Observed name.
        digest: Of the whole arguments, None without evidence.
        parts: Top-level argument key -> digest of its value, None without
            evidence or where the arguments are no object.
    """

    @property
    def tool(self) -> str: ...  # noqa: D102  # see the class

    @property
    def digest(self) -> bytes | None: ...  # noqa: D102  # see the class

    @property
    def parts(self) -> Mapping[str, bytes] | None: ...  # noqa: D102  # see the class


class StepRule(msgspec.Struct, frozen=True, kw_only=True):
    """One compiled step.

    Args:
        tools: The alternatives, canonical names.
        required: Whether the mode and the step demand a call for it.
        need: What it compares: nothing, the whole, or members.
        digest: Of the whole arguments, where ``need`` is ``WHOLE``.
        members: Expected top-level members, key and digest, sorted by key;
            empty where only a hash is known or the arguments are no object.
    """

    tools: tuple[str, ...]
    required: bool
    need: ArgsNeed
    digest: bytes | None
    members: tuple[tuple[str, bytes], ...]

    @property
    def name(self) -> str:
        """The alternatives joined by ``|``."""
        return "|".join(self.tools)

    def lacks_evidence(self, call: ObservedCall) -> bool:
        """Whether the call cannot tell if its arguments are the expected ones.

        Members of arguments that are no object count as untold.
        """
        if self.need is ArgsNeed.PARTS:
            return call.parts is None
        return self.need is ArgsNeed.WHOLE and call.digest is None

    def find_difference(self, call: ObservedCall) -> str | None:
        """The first expected top-level key, sorted, that the call lacks or differs in.

        Returns:
            None where the digests do not tell, or where the call differs only
            by a key that the step does not name: keys of calls are content.
        """
        if call.parts is None:
            return None
        for key, digest in self.members:
            if call.parts.get(key) != digest:
                return key
        return None


class ToolRule(msgspec.Struct, frozen=True):
    """Which steps a call of one tool could serve, by its arguments.

    Args:
        free: Steps that take any arguments.
        whole: Digest of whole arguments -> steps.
        members: Per set of keys that steps ask for: the keys, and their values'
            digests -> steps. So steps that differ in values alone cost a call
            one look-up.
    """

    free: int
    whole: dict[bytes, int]
    members: tuple[tuple[tuple[str, ...], dict[tuple[bytes | None, ...], int]], ...]

    @property
    def needs_args(self) -> bool:
        """Whether the arguments make a difference."""
        return bool(self.whole or self.members)

    def mask(self, call: ObservedCall) -> int:
        """The steps that this call could serve."""
        mask = self.free
        if call.digest is not None:
            mask |= self.whole.get(call.digest, 0)
        parts = call.parts
        if parts is not None:
            for keys, steps in self.members:
                mask |= steps.get(tuple(map(parts.get, keys)), 0)
        return mask


class Expectation(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A compiled expectation; immutable, shared by all trials of its task.

    Tables are keyed by observed names: a canonical name and every declared
    alias of it stand side by side.

    Args:
        mode: How calls are held against the steps.
        labels: One a step: ``a``, ``a|b``, optional ones ``a?``, ``a|b?``.
        steps: The compiled steps.
        required: Mask of the steps that must be served.
        optional: Mask of the others; of all steps in ``subset``.
        masks: Observed tool -> steps, for tools whose arguments do not matter.
        rules: Observed tool -> rule, for tools whose arguments do.
        steps_of: Observed tool -> all steps that name it, whatever arguments.
        max_calls: As declared.
        max_extra_calls: As declared.
        limits: Canonical tool and its ``maxCallsPerTool``, sorted.
        limited: Observed tool -> canonical tool that has a limit.
        denied: Observed tool -> ``forbidden`` entry, for literal entries and
            for aliases.
        denied_prefixes: Prefix and entry, in declared order.
    """

    mode: MatchMode
    labels: tuple[str, ...]
    steps: tuple[StepRule, ...]
    required: int
    optional: int
    masks: dict[str, int]
    rules: dict[str, ToolRule]
    steps_of: dict[str, int]
    max_calls: int | None
    max_extra_calls: int | None
    limits: tuple[tuple[str, int], ...]
    limited: dict[str, str]
    denied: dict[str, str]
    denied_prefixes: tuple[tuple[str, str], ...]

    def args_need(self, tool: str) -> ArgsNeed:
        """What a call of this observed tool must keep of its arguments."""
        rule = self.rules.get(tool)
        if rule is None:
            return ArgsNeed.NONE
        return ArgsNeed.PARTS if rule.members else ArgsNeed.WHOLE

    def part_keys(self, tool: str) -> frozenset[str]:
        """The top-level keys whose digests a call of this observed tool must keep."""
        if self.args_need(tool) is not ArgsNeed.PARTS:
            return frozenset()
        return frozenset(
            key
            for step in bits(self.steps_of[tool])
            for key, _ in self.steps[step].members
        )

    def is_forbidden(self, tool: str) -> str | None:
        """The ``forbidden`` entry that this observed tool hits, or None.

        Both the observed name and the name it is an alias of are looked at: a
        literal entry goes before a prefix, the observed name before its
        canonical name, and prefixes go in declared order.
        """
        entry = self.denied.get(tool)
        if entry is None:
            for prefix, declared in self.denied_prefixes:
                if tool.startswith(prefix):
                    return declared
        return entry
