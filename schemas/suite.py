"""What a run is graded against: the suite, its tasks and expectations."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from schemas.events import SHA256_PATTERN

# `\Z`, since Python's `$` also stands before a final newline.
TASK_ID_PATTERN = r"^[a-z0-9][a-z0-9-]*\Z"
SUITE_ID_PATTERN = r"^[a-z0-9.-]+\.evals\.[a-z0-9-]+\Z"
VERSION_PATTERN = r"^[0-9]+\.[0-9]+\.[0-9]+\Z"

EXTENSION_PREFIXES = ("openwop-", "x-", "vendor.")
"""What the keys of hosts and vendors start with; they are left alone."""

ToolName = Annotated[str, Meta(min_length=1, max_length=512)]
# Up to where every reader of JSON has integers exactly.
Limit = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class _Closed(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """Base of what gates: closed, so that a misspelt gate is an error."""


class _Extensible(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """Base of what may carry extension keys.

    The struct itself lets every key pass; ``schemas.documents`` refuses those
    that are neither declared nor start with an ``EXTENSION_PREFIXES``.
    """


class MatchMode(StrEnum):
    """How observed calls are held against expected steps (DESIGN.md §3)."""

    EXACT = "exact"
    IN_ORDER = "in-order"
    ANY_ORDER = "any-order"
    UNORDERED = "unordered"
    SUBSET = "subset"


class ArgsMatch(StrEnum):
    """How a step's ``args`` are held against a call's arguments."""

    EXACT = "exact"
    SUBSET = "subset"


class Step(_Closed, frozen=True, kw_only=True):
    """One expected call.

    Args:
        tool: A literal tool name, or the alternatives.
        args: Undecoded expected arguments; unset for any arguments.
        args_match: Whole, or at least these top-level keys.
        args_hash: SHA-256 hex of the whole canonical arguments.
        optional: Whether the step may be left out.
    """

    tool: ToolName | Annotated[tuple[ToolName, ...], Meta(min_length=1)]
    args: Raw | UnsetType = UNSET
    args_match: ArgsMatch = ArgsMatch.EXACT
    args_hash: Annotated[str, Meta(pattern=SHA256_PATTERN)] | None = None
    optional: bool = False


class Trajectory(_Closed, frozen=True, kw_only=True):
    """``expected.trajectory``: the expectation of one task (DESIGN.md §3)."""

    match: MatchMode = MatchMode.IN_ORDER
    steps: tuple[Step, ...] = ()
    forbidden: tuple[ToolName, ...] = ()
    max_calls: Limit | None = None
    max_extra_calls: Limit | None = None
    max_calls_per_tool: dict[ToolName, Limit] = {}


class Expected(_Extensible, frozen=True, kw_only=True):
    """``expected`` of a task; ``match`` and ``rubric`` are the host's to use."""

    kind: str | None = None
    match: Raw | UnsetType = UNSET
    rubric: Raw | UnsetType = UNSET
    trajectory: Trajectory | None = None


class Task(_Extensible, frozen=True, kw_only=True):
    """One task; ``input`` and ``fixtures`` are the host's to use, undecoded."""

    task_id: Annotated[str, Meta(pattern=TASK_ID_PATTERN, max_length=512)]
    input: Raw | UnsetType = UNSET
    expected: Expected | None = None
    fixtures: Raw | UnsetType = UNSET


class PassRule(StrEnum):
    """How trial verdicts make a task verdict (RFC 0244 §B)."""

    ALL = "all"
    ANY = "any"
    MEAN = "mean"


class Trials(_Closed, frozen=True, kw_only=True):
    """The suite-wide ``trials`` block."""

    count: Annotated[int, Meta(ge=1, le=1_000)] = 1
    pass_rule: PassRule = PassRule.ALL


class Thresholds(_Closed, frozen=True, kw_only=True):
    """The suite's bars; each where declared."""

    pass_score: Annotated[float, Meta(ge=0, le=1)] | None = None
    max_cost_usd: Annotated[float, Meta(ge=0)] | None = None
    max_p95_latency_ms: Limit | None = msgspec.field(
        default=None, name="maxP95LatencyMs"
    )


class SuiteMode(StrEnum):
    """What kinds of task a suite holds."""

    GOLDEN = "golden"
    RUBRIC = "rubric"
    ADVERSARIAL = "adversarial"
    REGRESSION = "regression"
    LIVE_SHADOW = "live-shadow"


class Suite(_Extensible, frozen=True, kw_only=True):
    """An ``AgentEvalSuite``."""

    suite_id: Annotated[str, Meta(pattern=SUITE_ID_PATTERN, max_length=512)]
    version: Annotated[str, Meta(pattern=VERSION_PATTERN, max_length=128)]
    modes: tuple[SuiteMode, ...]
    tasks: Annotated[tuple[Task, ...], Meta(min_length=1)]
    target_agent_id: str | None = None
    allowed_models: tuple[str, ...] = ()
    thresholds: Thresholds = Thresholds()
    trials: Trials | None = None
