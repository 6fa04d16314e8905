"""What an event is: the envelope, and the payloads pathgate reads.

The envelope is open: unknown event types and unknown fields pass. Payloads
are decoded only for the types below; ``inputs`` stays undecoded bytes.
"""

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

MAX_EVENT_BYTES = 1024 * 1024
MAX_RUN_ID_LENGTH = 512


class EventType(StrEnum):
    """The event types pathgate reads, in the v2 spelling."""

    TOOL_CALLED = "agent.tool-called"
    EVAL_STARTED = "eval.started"
    EVAL_SCORED = "eval.scored"
    EVAL_COMPLETED = "eval.completed"
    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"


class Envelope(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False
):
    """The outer event.

    Args:
        event_id: Unique id; identical on redelivery.
        run_id: The run, and the partition key; 1 to 512 characters.
        type: Event type in any spelling; see ``EventType``.
        sequence: Position in the run, 0 or more; the ordering field.
        timestamp: When the host wrote it; aware.
        payload: Undecoded JSON.
        node_id: Workflow node, where the host runs trials side by side.
    """

    event_id: Annotated[str, Meta(min_length=1, max_length=512)]
    run_id: Annotated[str, Meta(min_length=1, max_length=MAX_RUN_ID_LENGTH)]
    type: Annotated[str, Meta(min_length=1)]
    sequence: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    timestamp: Annotated[datetime, Meta(tz=True)]
    payload: Raw
    node_id: Annotated[str, Meta(min_length=1, max_length=512)] | None = None


class _Payload(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of payloads: open, extension keys pass."""


class ToolCalled(_Payload):
    """``agent.tool-called``: one call.

    Args:
        tool_name: Literal name, non-empty.
        args_hash: SHA-256 hex of the canonical arguments, if the host gave it.
        inputs: Undecoded arguments (content); empty if absent.
    """

    tool_name: Annotated[str, Meta(min_length=1, max_length=512)]
    args_hash: Annotated[str, Meta(pattern="^[0-9a-fA-F]{64}$")] | None = None
    inputs: Raw = msgspec.field(default_factory=Raw)


class EvalStarted(_Payload):
    """``eval.started``: which suite a run evaluates."""

    suite_id: Annotated[str, Meta(min_length=1, max_length=512)]
    suite_version: Annotated[str, Meta(min_length=1, max_length=128)]
    task_count: Annotated[int, Meta(ge=0)]
    baseline_run_id: (
        Annotated[str, Meta(min_length=1, max_length=MAX_RUN_ID_LENGTH)] | None
    ) = None


class EvalScored(_Payload):
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

    task_id: Annotated[str, Meta(min_length=1, max_length=512)]
    score: Decimal
    passed: bool
    cost_usd: Decimal | None = None
    latency_ms: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    schema_valid: bool | None = None
    fixture_miss: bool = False


class EvalCompleted(_Payload):
    """``eval.completed``: the host's own verdict."""

    aggregate_score: Annotated[float, Meta(ge=0, le=1)]
    passed: bool
    task_count: Annotated[int, Meta(ge=0)]
    passed_count: Annotated[int, Meta(ge=0)]


class RunEnded(_Payload):
    """``run.completed``, ``run.failed`` or ``run.cancelled``.

    Args:
        ending: Which of the three; from the event's type, not its payload.
    """

    ending: EventType


Payload = ToolCalled | EvalStarted | EvalScored | EvalCompleted | RunEnded

__all__ = [
    "MAX_EVENT_BYTES",
    "UNSET",
    "Envelope",
    "EvalCompleted",
    "EvalScored",
    "EvalStarted",
    "EventType",
    "Payload",
    "RunEnded",
    "ToolCalled",
    "UnsetType",
]
