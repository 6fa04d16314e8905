"""What an event is: the envelope, and the payloads pathgate reads.

The envelope is open: unknown event types and unknown fields pass. Payloads
are decoded only for the types below; ``inputs`` stays undecoded bytes.
"""

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Raw

MAX_EVENT_BYTES = 1024 * 1024
MAX_RUN_ID_LENGTH = 512
MAX_COST_USD = 10**12
"""Far above any cost, far below what a double holds: sums stay finite."""

ABSENT = Raw()
"""The value of an undecoded field that an event does not have: no bytes."""

# `\Z`, since Python's `$` also stands before a final newline.
SHA256_PATTERN = r"^[0-9a-fA-F]{64}\Z"

Int64 = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, Meta(min_length=1, max_length=512)]


class EventType(StrEnum):
    """The event types pathgate reads, in the v2 spelling."""

    TOOL_CALLED = "agent.tool-called"
    EVAL_STARTED = "eval.started"
    EVAL_SCORED = "eval.scored"
    EVAL_COMPLETED = "eval.completed"
    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"


class Envelope(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The outer event.

    Args:
        event_id: Unique id; identical on redelivery.
        run_id: The run, and the partition key; 1 to 512 characters.
        type: Event type in any spelling; see ``EventType``.
        sequence: Position in the run, 0 or more; the ordering field.
        timestamp: When the host wrote it; aware.
        payload: Undecoded JSON.
        node_id: Workflow node, where the host runs trials side by side.
        schema_version: Carried undecoded, not read; empty if absent.
        causation_id: Likewise.
        engine_version: Likewise.
    """

    event_id: Name
    run_id: Annotated[str, Meta(min_length=1, max_length=MAX_RUN_ID_LENGTH)]
    type: Annotated[str, Meta(min_length=1)]
    sequence: Int64
    timestamp: Annotated[datetime, Meta(tz=True)]
    payload: Raw
    node_id: Name | None = None
    schema_version: Raw = ABSENT
    causation_id: Raw = ABSENT
    engine_version: Raw = ABSENT


class _Payload(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of payloads: open, extension keys pass."""


class ToolCalled(_Payload, frozen=True, kw_only=True):
    """``agent.tool-called``: one call.

    Args:
        tool_name: Literal name, non-empty.
        args_hash: SHA-256 hex of the canonical arguments, if the host gave it.
        inputs: Undecoded arguments (content); empty if absent.
        agent_id: Carried undecoded, not read; empty if absent.
        call_id: Likewise.
        principal: Likewise.
        transport: Likewise.
        causation_host_id: Likewise.
    """

    tool_name: Name
    args_hash: Annotated[str, Meta(pattern=SHA256_PATTERN)] | None = None
    inputs: Raw = ABSENT
    agent_id: Raw = ABSENT
    call_id: Raw = ABSENT
    principal: Raw = ABSENT
    transport: Raw = ABSENT
    causation_host_id: Raw = ABSENT


class EvalStarted(_Payload, frozen=True, kw_only=True):
    """``eval.started``: which suite a run evaluates."""

    suite_id: Name
    suite_version: Annotated[str, Meta(min_length=1, max_length=128)]
    task_count: Int64
    baseline_run_id: (
        Annotated[str, Meta(min_length=1, max_length=MAX_RUN_ID_LENGTH)] | None
    ) = None


class EvalScored(_Payload, frozen=True, kw_only=True):
    """``eval.scored``: one trial's score.

    Args:
        task_id: The task.
        score: Exactly as written, 0 to 1.
        passed: The host's verdict.
        cost_usd: Exactly as written, 0 or more; None if unreported.
        latency_ms: Milliseconds; None if unreported.
        schema_valid: Whether the output met its schema; None if unreported.
        fixture_miss: Whether the trial failed closed on a fixture miss.
    """

    task_id: Name
    score: Decimal
    passed: bool
    cost_usd: Decimal | None = None
    latency_ms: Int64 | None = None
    schema_valid: bool | None = None
    fixture_miss: bool = False


class EvalCompleted(_Payload, frozen=True, kw_only=True):
    """``eval.completed``: the host's own verdict."""

    aggregate_score: Annotated[float, Meta(ge=0, le=1)]
    passed: bool
    task_count: Int64
    passed_count: Int64


class RunEnded(_Payload, frozen=True, kw_only=True):
    """``run.completed``, ``run.failed`` or ``run.cancelled``.

    Args:
        ending: Which of the three; from the event's type, not its payload.
    """

    ending: EventType


Payload = ToolCalled | EvalStarted | EvalScored | EvalCompleted | RunEnded

__all__ = [
    "ABSENT",
    "MAX_COST_USD",
    "MAX_EVENT_BYTES",
    "Envelope",
    "EvalCompleted",
    "EvalScored",
    "EvalStarted",
    "EventType",
    "Payload",
    "RunEnded",
    "ToolCalled",
]
