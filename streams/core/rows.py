"""How the state of a run is stored: one row a run, blocks of evidence apart.

A run's row holds what changes; facts beyond a few dozen move to blocks of
their own, written once, so that the cost of storing an event does not grow
with the run. Values are versioned msgpack arrays: a new field is appended and
has a default, so that a newer worker reads an older row.
"""

from datetime import datetime
from enum import IntEnum, IntFlag

import msgspec

from streams.core.context import Context
from streams.core.evidence import Call, Completed, Ended, Score, Started
from streams.core.run import RunState

ROW_VERSION = 1
BLOCK_FACTS = 64

_Stored = Call | Score | Started | Completed | Ended


class RowStatus(IntEnum):
    """What a run's row is."""

    OPEN = 0
    CLOSED = 1
    MARKER = 2


class RowFlag(IntFlag):
    """Facts about a run that no single event holds."""

    CONFLICT = 1
    OVERFLOW = 2
    CALLS_DROPPED = 4
    MISROUTED = 8
    IDLE = 16
    UNREADABLE = 32


class Published(msgspec.Struct, array_like=True, gc=False):
    """The newest revision of one record: its number and its value's digest.

    Args:
        revision: 1, 2, ...
        digest: First 8 bytes of the SHA-256 of the value.
        passed: The verdict it held.
        changed: Whether RFC 0244 would have passed it and the gate did not.
    """

    revision: int
    digest: bytes
    passed: bool = False
    changed: bool = False


class RowHead(msgspec.Struct, array_like=True):
    """The first fields of a row: enough for sweeps, cheap to decode.

    Args:
        version: ``ROW_VERSION`` at the time of writing.
        status: Open, closed (published as a whole), or a marker of a run whose
            state was removed.
        touched_at_s: When the row was last written, seconds since the epoch;
            operational, never part of a record.
        suite_key: ``suiteId@version`` named by ``eval.started``, or "".
        graded: Whether the suite was known when it was last graded.
        waits: Whether something is due without a further event: a score to be
            sealed, or the end of the host's time for its own verdict.
    """

    version: int
    status: RowStatus
    touched_at_s: float
    suite_key: str = ""
    graded: bool = False
    waits: bool = False


class RunRow(RowHead, array_like=True):
    """The row of a run.

    Args:
        flags: See ``RowFlag``.
        latest_at: Time of the latest event used.
        blocks: Number of blocks of evidence apart from ``tail``.
        unsealed: Sequences of scores and endings not yet sealed.
        published: Task id, or "" for the suite record -> newest revision.
        tail: Facts that are in no block.
    """

    flags: int = 0
    latest_at: datetime | None = None
    blocks: int = 0
    unsealed: list[int] = []
    published: dict[str, Published] = {}
    tail: list[_Stored] = []


_encoder = msgspec.msgpack.Encoder()
_row_decoder = msgspec.msgpack.Decoder(RunRow)
_head_decoder = msgspec.msgpack.Decoder(RowHead)
_block_decoder = msgspec.msgpack.Decoder(list[_Stored])


class RowError(Exception):
    """A stored row cannot be read: the state is of a newer or foreign version.

    Stop the worker and run the version that wrote it, or remove the state
    directory and the changelog and let the worker grade afresh.
    """


def decode_head(data: bytes) -> RowHead:
    """The head of a row.

    Raises:
        RowError: Not a row of this or an older version.
    """
    try:
        head = _head_decoder.decode(data)
    except msgspec.DecodeError as error:
        raise RowError("expected a run row") from error
    if head.version > ROW_VERSION:
        raise RowError(f"expected row version <= {ROW_VERSION}, got {head.version}")
    return head


def decode_row(data: bytes) -> RunRow:
    """A whole row.

    Raises:
        RowError: Not a row of this or an older version.
    """
    decode_head(data)
    try:
        return _row_decoder.decode(data)
    except msgspec.DecodeError as error:
        raise RowError("expected a run row") from error


def decode_block(data: bytes) -> list[_Stored]:
    """The facts of one block.

    Raises:
        RowError: Not a block.
    """
    try:
        return _block_decoder.decode(data)
    except msgspec.DecodeError as error:
        raise RowError("expected a block of facts") from error


def encode_row(row: RunRow) -> bytes:
    """The bytes of a row."""
    return _encoder.encode(row)


def encode_block(facts: list[_Stored]) -> bytes:
    """The bytes of a block."""
    return _encoder.encode(facts)


def marker(touched_at_s: float, suite_key: str, *, passed: bool) -> bytes:
    """The row that stays of a run whose state was removed."""
    row = RunRow(
        ROW_VERSION,
        RowStatus.MARKER,
        touched_at_s,
        suite_key,
        published={"": Published(0, b"", passed)},
    )
    return _encoder.encode(row)


def flags_of(state: RunState) -> int:
    """The flags of a state, as stored."""
    return int(
        (RowFlag.CONFLICT if state.conflict else 0)
        | (RowFlag.OVERFLOW if state.overflow else 0)
        | (RowFlag.CALLS_DROPPED if state.calls_dropped else 0)
        | (RowFlag.MISROUTED if state.misrouted else 0)
        | (RowFlag.IDLE if state.idle else 0)
        | (RowFlag.UNREADABLE if state.unreadable else 0)
    )


def restore_state(
    run_id: str,
    row: RunRow,
    blocks: list[list[_Stored]],
    context: Context,
    *,
    hold: bool,
) -> RunState:
    """The state a row and its blocks hold.

    Args:
        run_id: The run.
        row: Its row.
        blocks: Its blocks, in any order.
        context: As in ``RunState.apply``.
        hold: As in ``RunState``.

    Returns:
        A state equal to the one that was stored, but for cached results.
    """
    state = RunState(run_id, hold=hold)
    for facts in (*blocks, row.tail):
        state.restore(facts, context)
    flags = RowFlag(row.flags)
    # Two verdicts of the host may stand in rows that are older than their flag.
    state.conflict |= RowFlag.CONFLICT in flags
    state.overflow = RowFlag.OVERFLOW in flags
    state.calls_dropped = RowFlag.CALLS_DROPPED in flags
    state.misrouted = RowFlag.MISROUTED in flags
    state.idle = RowFlag.IDLE in flags
    state.unreadable = RowFlag.UNREADABLE in flags
    state.unsealed = {s for s in row.unsealed if s in state.facts}
    state.latest_at = row.latest_at
    return state
