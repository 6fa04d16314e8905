"""What is kept of an event: the facts grading needs, and nothing else."""

from collections.abc import Collection, Mapping
from decimal import Decimal
from fractions import Fraction
from sys import intern

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
            Keys that a suite names stand as they are; all others, which are
            content, as ``hidden_key`` spells them.
        node_id: Workflow node, or None.
        disputed: The least evidence that shows two events of this sequence and
            id to differ in their arguments; ``NONE`` where they agree.
    """

    tool: str
    digest: bytes | None = None
    parts: dict[str, bytes] | None = None
    node_id: str | None = None
    disputed: ArgsNeed = ArgsNeed.NONE


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
    """``eval.started``: the suite and, if named, the baseline run.

    Args:
        sequence: Position in the run.
        event_id: Its event id.
        suite_id: Suite the run evaluates.
        suite_version: Its version.
        task_count: As reported.
        baseline_run_id: Run it is to be compared with, or None.
        disputed: Whether another event of the same sequence is no start of the
            same suite.
    """

    suite_id: str
    suite_version: str
    task_count: int
    baseline_run_id: str | None = None
    disputed: bool = False

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

    @property
    def figures(self) -> tuple[float, bool, int, int]:
        """What it says of the run."""
        return self.aggregate_score, self.passed, self.task_count, self.passed_count


class Ended(_Fact, frozen=True, gc=False, array_like=True, tag=5):
    """The end of the run: completed, failed or cancelled."""

    ending: EventType


Fact = Call | Score | Started | Completed | Ended


def hidden_key(key: str, digester: ArgsDigester) -> str:
    """A key of arguments, told apart from others but not readable.

    Args:
        key: Top-level key of a call's arguments, or one that a step expects.
        digester: The one that digests the values.
    """
    return "~" + digester.whole(msgspec.json.encode(key)).hex()


def call_from(
    envelope: Envelope,
    payload: ToolCalled,
    need: ArgsNeed,
    digester: ArgsDigester,
    keys: Collection[str] | None = None,
) -> Call:
    """The fact of a call; its arguments are digested here and dropped.

    Args:
        envelope: The event.
        payload: Its payload.
        need: What a step may compare of the arguments.
        digester: Makes the digests.
        keys: The keys that steps name; None where no suite is known, which
            keeps all keys, hidden.

    Returns:
        The call. Arguments that have no canonical form (a key twice, too deep)
        leave it without evidence of them: it still counts as a call, and meets
        no step that compares arguments.

    Source: DESIGN.md §3, "the event's argsHash is used if present, else the
    hash of inputs".
    """
    digest: bytes | None = None
    parts: dict[str, bytes] | None = None
    if need is not ArgsNeed.NONE:
        digest, parts = _digests(payload, need, digester, keys)
    return Call(
        envelope.sequence,
        envelope.event_id,
        intern(payload.tool_name),
        digest,
        parts,
        envelope.node_id,
    )


def _digests(
    payload: ToolCalled,
    need: ArgsNeed,
    digester: ArgsDigester,
    keys: Collection[str] | None,
) -> tuple[bytes | None, dict[str, bytes] | None]:
    digest: bytes | None = None
    parts: dict[str, bytes] | None = None
    inputs = bytes(payload.inputs)
    try:
        if inputs and need is ArgsNeed.PARTS:
            digest, parts = digester.both(inputs, keys)
        elif inputs and payload.args_hash is None:
            digest = digester.whole(inputs)
    except ArgumentsError:
        digest = parts = None
    if parts and keys is None:
        parts = {hidden_key(key, digester): part for key, part in parts.items()}
    if payload.args_hash is not None:
        digest = digester.whole_from_hash(payload.args_hash)
    return digest, parts


def trim(call: Call, need: ArgsNeed, named: Mapping[str, str]) -> Call:
    """The call with what its suite needs of its arguments, and no more.

    A call that came before its suite was known kept everything; trimmed, it is
    the same as one that came after.

    Args:
        call: A call of any tool.
        need: What the suite's steps may compare of that tool's arguments.
        named: Hidden key -> key, of the keys those steps name.
    """
    digest = None if need is ArgsNeed.NONE else call.digest
    parts = call.parts if need is ArgsNeed.PARTS else None
    if parts is not None:
        parts = {
            key: part
            for hidden, key in named.items()
            if (part := parts.get(hidden, parts.get(key))) is not None
        }
    if digest == call.digest and parts == call.parts:
        return call
    return msgspec.structs.replace(call, digest=digest, parts=parts)


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
            intern(payload.task_id),
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
            intern(payload.suite_id),
            intern(payload.suite_version),
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


def precedence(fact: Fact) -> tuple[str, bytes]:
    """Which of two events with one ``sequence`` stands: the smaller.

    The event id decides. What the fact holds decides between different events
    that also share the id, arguments last, so that arrival order never does.
    """
    if isinstance(fact, Call):
        return fact.event_id, _encoder.encode((1, fact.tool, fact.node_id))
    if isinstance(fact, Score):
        # 0.5 and 0.50 are one number, and so one event.
        numbers = (
            str(Fraction(fact.score)),
            str(fact.cost_usd and Fraction(fact.cost_usd)),
        )
        rest = msgspec.structs.replace(fact, score=Decimal(0), cost_usd=None)
        return fact.event_id, _encoder.encode((2, numbers, rest))
    return fact.event_id, _encoder.encode((3, _undisputed(fact), None))


def same_event(one: Fact, other: Fact) -> bool:
    """Whether two facts of one ``sequence`` are the same event, arguments apart."""
    if isinstance(one, Call) and isinstance(other, Call):
        return (
            one.event_id == other.event_id
            and one.tool == other.tool
            and one.node_id == other.node_id
        )
    return _undisputed(one) == _undisputed(other)


def _undisputed(fact: Fact) -> Fact:
    if isinstance(fact, Started) and fact.disputed:
        return msgspec.structs.replace(fact, disputed=False)
    return fact


def settle_arguments(one: Call, other: Call) -> Call:
    """One call of two deliveries of it.

    Args:
        one: A call.
        other: The same event, kept to the same need.

    Returns:
        The call with the evidence of one of the two, the same in either order,
        marked as disputed where they differ.
    """
    if one.digest != other.digest:
        disputed = ArgsNeed.WHOLE
    elif one.parts != other.parts:
        disputed = ArgsNeed.PARTS
    else:
        return one
    known = [call.disputed for call in (one, other) if call.disputed]
    stands = min(one, other, key=_evidence_order)
    return msgspec.structs.replace(stands, disputed=min([disputed, *known]))


def _evidence_order(call: Call) -> tuple[bool, bytes, bool, list[tuple[str, bytes]]]:
    # The whole before the parts: trimming both calls keeps the order.
    return (
        call.digest is None,
        call.digest or b"",
        call.parts is None,
        sorted((call.parts or {}).items()),
    )


_encoder = msgspec.msgpack.Encoder()
