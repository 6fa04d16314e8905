"""Rows that past versions wrote, kept as bytes: a newer worker reads each.

A row is added here whenever a field is appended or ``ROW_VERSION`` goes up, and
none is ever changed. Laid out by hand from the msgpack format: ``9c`` opens the
array of twelve fields, ``94``/``93`` a published revision, ``98``/``97`` a start.
Of the numbers that stand for a name, none is ever given another meaning.
"""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from schemas.events import EventType
from streams.core.evidence import Call, Completed, Ended, Score, Started
from streams.core.rows import (
    Published,
    RowStatus,
    decode_block,
    decode_head,
    decode_row,
    restore_state,
)
from streams.core.trajectory import ArgsNeed
from tests.factories import RUN, make_context

_HEAD = (
    "9c0101cb41dac3b2d3200000b861636d652e6576616c732e737570706f727440312e302e30"
    "c3c200d6ff6ae9a295009081a0"
)
_START = (
    "0300b46576742d30303030303030303030303030303030b261636d652e6576616c732e73757070"
    "6f7274a5312e302e3001c0"
)
_REST = (
    "980101b46576742d30303030303030303030303030303031ac6c6f6f6b75705f6f72646572"
    "c41030313233343536373839616263646566c0c0009b0202b46576742d3030303030303030303030"
    "3030303032ac726566756e642d6f72646572a3302e39c3c0c0c0c2c0"
)
# Before a revision said whether the gate changed its verdict, and a start
# whether another disputes it.
WITHOUT_CHANGED = (
    _HEAD
    + "9301c4083132333435363738c2"
    + "93"
    + "97"
    + _START
    + _REST.replace("c0c0009b", "c0c09b").replace("980101", "970101", 1)
)
VERSION_1 = _HEAD + "9401c4083132333435363738c2c3" + "93" + "98" + _START + "c2" + _REST


@pytest.mark.parametrize(
    ("row", "changed"),
    [
        pytest.param(WITHOUT_CHANGED, False, id="without-changed"),
        pytest.param(VERSION_1, True, id="version-1"),
    ],
)
def test_row_of_a_past_version_is_read(row: str, *, changed: bool) -> None:
    """Every fact and figure that it held."""
    found = decode_row(bytes.fromhex(row))
    assert (RowStatus.CLOSED, 1796131660.5) == (found.status, found.touched_at_s)
    assert ("acme.evals.support@1.0.0", True) == (found.suite_key, found.graded)
    assert datetime(2026, 11, 3, 9, 0, 5, tzinfo=UTC) == found.latest_at
    assert {"": Published(1, b"12345678", passed=False, changed=changed)} == (
        found.published
    )
    start, call, score = found.tail
    assert Started(0, "evt-0000000000000000", "acme.evals.support", "1.0.0", 1) == start
    assert Call(1, "evt-0000000000000001", "lookup_order", b"0123456789abcdef") == call
    assert (
        Score(2, "evt-0000000000000002", "refund-order", Decimal("0.9"), passed=True)
        == score
    )


# Every event id is of 20 characters (``b4``) and ends in its sequence.
_ID = "b46576742d303030303030303030303030303030"
_DIGEST = "c41030313233343536373839616263646566"
# An array of four facts: a verdict (0.5, passed, 2 tasks, 1 passed), an ending,
# and calls of ``a`` whose arguments were disputed as a whole and in the part x.
BLOCK = (
    "94"
    + ("970403" + _ID + "33" + "cb3fe0000000000000" + "c3" + "02" + "01")
    + ("940504" + _ID + "34" + "aa72756e2e6661696c6564")
    + ("980105" + _ID + "35" + "a161" + _DIGEST + "c0" + "c0" + "01")
    + ("980106" + _ID + "36" + "a161" + _DIGEST + "81a178" + _DIGEST + "c0" + "02")
)


def test_a_past_block_is_read() -> None:
    """Kinds of facts and of disputes are stored as numbers, fields by position."""
    digest = b"0123456789abcdef"
    whole, parts = ArgsNeed.WHOLE, ArgsNeed.PARTS
    assert [
        Completed(
            3,
            "evt-0000000000000003",
            0.5,
            passed=True,
            task_count=2,
            passed_count=1,
        ),
        Ended(4, "evt-0000000000000004", EventType.RUN_FAILED),
        Call(5, "evt-0000000000000005", "a", digest, disputed=whole),
        Call(6, "evt-0000000000000006", "a", digest, {"x": digest}, disputed=parts),
    ] == decode_block(bytes.fromhex(BLOCK))


@pytest.mark.parametrize(
    ("number", "status"),
    [(0, RowStatus.OPEN), (1, RowStatus.CLOSED), (2, RowStatus.MARKER)],
)
def test_a_past_status_is_read(number: int, status: RowStatus) -> None:
    """``93``: version 1, the status, 12.0 seconds."""
    data = bytes.fromhex(f"9301{number:02x}cb4028000000000000")
    assert status is decode_head(data).status


FLAGS = ["conflict", "overflow", "calls_dropped", "misrouted", "idle", "unreadable"]


@pytest.mark.parametrize(("place", "name"), [*enumerate(FLAGS)])
def test_a_past_flag_is_read(place: int, name: str) -> None:
    """One bit each, from the lowest: 1, 2, 4, 8, 16, 32; the seventh of the fields."""
    data = bytes.fromhex(f"970100cb4028000000000000a0c2c2{2**place:02x}")
    state = restore_state(RUN, decode_row(data), [], make_context(), hold=False)
    assert [name] == [flag for flag in FLAGS if getattr(state, flag)]
