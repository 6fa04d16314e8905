"""Events for tests, written out as JSON text so that any fault can be spelled."""

from collections.abc import Mapping, Sequence

Member = tuple[str, str]
"""A key and a value, both as JSON text."""

ENVELOPE: Mapping[str, str] = {
    '"eventId"': '"evt-0000000000000001"',
    '"runId"': '"acme/run-0000000000000001"',
    '"type"': '"agent.tool-called"',
    '"timestamp"': '"2026-10-16T15:29:51.250Z"',
    '"sequence"': "7",
    '"schemaVersion"': "1",
}

PAYLOADS: Mapping[str, Mapping[str, str]] = {
    "agent.tool-called": {
        '"agentId"': '"acme.agent"',
        '"toolName"': '"search"',
        '"callId"': '"call-1"',
        '"inputs"': '{"query":"a, b","type":"x","limit":[1,2.50,null,true]}',
    },
    "eval.started": {
        '"suiteId"': '"acme.evals.refunds"',
        '"suiteVersion"': '"1.2.0"',
        '"taskCount"': "2",
        '"modes"': '["golden","adversarial"]',
    },
    "eval.scored": {
        '"taskId"': '"refund-small"',
        '"score"': "0.70",
        '"passed"': "true",
        '"costUsd"': "0.0125",
        '"latencyMs"': "1830",
    },
    "eval.completed": {
        '"aggregateScore"': "0.9",
        '"passed"': "true",
        '"taskCount"': "2",
        '"passedCount"': "1",
    },
    "run.completed": {'"outputs"': '{"answer":"x"}', '"durationMs"': "12"},
    "run.failed": {'"error"': '{"code":"x"}'},
    "run.cancelled": {},
    "agent.message-sent": {'"text"': '"hello"', '"toolName"': "[]"},
}


def write_object(members: Sequence[Member]) -> str:
    """An object with these members in this order, twice the same key included."""
    return "{" + ",".join(f"{key}:{value}" for key, value in members) + "}"


def event_members(event_type: str) -> list[Member]:
    """The envelope of a valid event of a type, without its payload."""
    members = dict(ENVELOPE) | {'"type"': f'"{event_type}"'}
    return list(members.items())


def payload_members(event_type: str) -> list[Member]:
    """The members of a valid payload of a type."""
    return list(PAYLOADS[event_type].items())


def event_text(
    event_type: str = "agent.tool-called",
    *,
    envelope: Mapping[str, str | None] | None = None,
    payload: Mapping[str, str | None] | str | None = None,
) -> str:
    """A valid event with some members replaced, added or (None) left out.

    Args:
        event_type: One of ``PAYLOADS``.
        envelope: Key -> JSON text of its value, of the envelope; keys bare.
        payload: Likewise of the payload; or the whole payload as JSON text.
    """
    if isinstance(payload, str):
        payload_text = payload
    else:
        payload_text = write_object(_changed(payload_members(event_type), payload))
    members = [*event_members(event_type), ('"payload"', payload_text)]
    return write_object(_changed(members, envelope))


def event(
    event_type: str = "agent.tool-called",
    *,
    envelope: Mapping[str, str | None] | None = None,
    payload: Mapping[str, str | None] | str | None = None,
) -> bytes:
    """``event_text`` as UTF-8."""
    return event_text(event_type, envelope=envelope, payload=payload).encode()


def _changed(
    members: Sequence[Member], changes: Mapping[str, str | None] | None
) -> list[Member]:
    merged: dict[str, str | None] = dict(members)
    for key, value in (changes or {}).items():
        merged[f'"{key}"'] = value
    return [(key, value) for key, value in merged.items() if value is not None]
