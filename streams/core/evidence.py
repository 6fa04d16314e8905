"""What is kept of an event: the facts grading needs, and nothing else."""

from decimal import Decimal

import msgspec


class Call(msgspec.Struct, frozen=True, gc=False):
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

    sequence: int
    event_id: str
    tool: str
    digest: bytes | None = None
    parts: dict[str, bytes] | None = None
    node_id: str | None = None


class Score(msgspec.Struct, frozen=True, gc=False):
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

    sequence: int
    event_id: str
    task_id: str
    score: Decimal
    passed: bool
    cost_usd: Decimal | None = None
    latency_ms: int | None = None
    schema_valid: bool | None = None
    fixture_miss: bool = False
    node_id: str | None = None
