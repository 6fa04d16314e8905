"""What is kept of an event: the facts grading needs, and nothing else."""

from decimal import Decimal

import msgspec

from schemas.events import (
    Envelope,
    EvalCompleted,
    EvalScored,
    EvalStarted,
    EventType,
    RunEnded,
    ToolCalled,
)
from streams.core.arguments import ArgsDigester, ArgumentsError
from streams.core.trajectory import ArgsNeed


class _Fact(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Base of facts: stored as arrays, so fields are only ever appended."""

    sequence: int
    event_id: str


class Call(_Fact, frozen=True, gc=False, array_like=True, tag=1):
    """One ``agent.tool-called``, without its arguments.

    Args:
        sequence: Position in the run.
        event_id: Its event id.
        tool: Literal tool name, as observed.
        digest: Digest of the whole arguments (``ArgsDigester.whole``), or None
            where the event carried no evidence of them or none is needed.
        parts: Top-level argument key -> digest of its value, or None likewise.
        node_id: Workflow node, or None.
    """

    tool: str
    digest: bytes | None = None
    parts: dict[str, bytes] | None = None
    node_id: str | None = None


class Score(_Fact, frozen=True, gc=False, array_like=True, tag=2):
    """One ``eval.scored``.

    Args:
        sequence: Position in the run.
        event_id: Its event id.
        task_id: The task.
        score: Exactly as reported, 0 to 1.
        passed: The host's verdict.
        cost_usd: Exactly as reported, or None.
        latency_ms: Milliseconds, or None.
        schema_valid: As reported, or None.
        fixture_miss: Whether the trial failed closed on a fixture miss.
        node_id: Workflow node, or None.
    """

    task_id: str
    score: Decimal
    passed: bool
    cost_usd: Decimal | None = None
    latency_ms: int | None = None
    schema_valid: bool | None = None
    fixture_miss: bool = False
    node_id: str | None = None


class Started(_Fact, frozen=True, gc=False, array_like=True, tag=3):
    """``eval.started``: the suite and, if named, the baseline run."""

    suite_id: str
    suite_version: str
    task_count: int
    baseline_run_id: str | None = None

    @property
    def suite_key(self) -> str:
        """``suiteId@version``."""
        return f"{self.suite_id}@{self.suite_version}"


class Completed(_Fact, frozen=True, gc=False, array_like=True, tag=4):
    """``eval.completed``: the host's own figures."""

    aggregate_score: float
    passed: bool
    task_count: int
    passed_count: int


class Ended(_Fact, frozen=True, gc=False, array_like=True, tag=5):
    """The end of the run: completed, failed or cancelled."""

    ending: EventType


Fact = Call | Score | Started | Completed | Ended


def call_from(
    envelope: Envelope, payload: ToolCalled, need: ArgsNeed, digester: ArgsDigester
) -> Call:
    """The fact of a call; its arguments are digested here and dropped.

    Args:
        envelope: The event.
        payload: Its payload.
        need: What a step may compare of the arguments.
        digester: Makes the digests.

    Returns:
        The call. Arguments that have no canonical form (a key twice, too deep)
        leave it without evidence of them: it still counts as a call, and meets
        no step that compares arguments.

    Source: DESIGN.md §3, "the event's argsHash is used if present, else the
    hash of inputs".
    """
    if need is ArgsNeed.NONE:
        return Call(
            envelope.sequence,
            envelope.event_id,
            payload.tool_name,
            None,
            None,
            envelope.node_id,
        )
    digest, parts = _digests(payload, need, digester)
    return Call(
        envelope.sequence,
        envelope.event_id,
        payload.tool_name,
        digest,
        parts,
        envelope.node_id,
    )


def _digests(
    payload: ToolCalled, need: ArgsNeed, digester: ArgsDigester
) -> tuple[bytes | None, dict[str, bytes] | None]:
    digest: bytes | None = None
    parts: dict[str, bytes] | None = None
    inputs = bytes(payload.inputs)
    try:
        if inputs and need is ArgsNeed.PARTS:
            digest, parts = digester.both(inputs)
        elif inputs and payload.args_hash is None:
            digest = digester.whole(inputs)
    except ArgumentsError:
        digest = parts = None
    if payload.args_hash is not None:
        digest = digester.whole_from_hash(payload.args_hash)
    return digest, parts


def mark_from(
    envelope: Envelope, payload: EvalScored | EvalStarted | EvalCompleted | RunEnded
) -> Score | Started | Completed | Ended:
    """The fact of an event that is no call.

    Args:
        envelope: The event.
        payload: Its payload.
    """
    sequence, event_id = envelope.sequence, envelope.event_id
    if isinstance(payload, EvalScored):
        return Score(
            sequence,
            event_id,
            payload.task_id,
            payload.score,
            payload.passed,
            payload.cost_usd,
            payload.latency_ms,
            payload.schema_valid,
            payload.fixture_miss,
            envelope.node_id,
        )
    if isinstance(payload, EvalStarted):
        return Started(
            sequence,
            event_id,
            payload.suite_id,
            payload.suite_version,
            payload.task_count,
            payload.baseline_run_id,
        )
    if isinstance(payload, EvalCompleted):
        return Completed(
            sequence,
            event_id,
            payload.aggregate_score,
            payload.passed,
            payload.task_count,
            payload.passed_count,
        )
    return Ended(sequence, event_id, payload.ending)


def same_evidence(one: Fact, other: Fact) -> bool:
    """Whether two facts of one ``sequence`` are the same event.

    Digests are compared only where both facts kept them: how much of the
    arguments is kept depends on whether the suite was known on arrival.
    """
    if not isinstance(one, Call) or not isinstance(other, Call):
        return one == other
    return (
        one.event_id == other.event_id
        and one.tool == other.tool
        and one.node_id == other.node_id
        and (one.digest == other.digest or one.digest is None or other.digest is None)
        and (one.parts == other.parts or one.parts is None or other.parts is None)
    )
