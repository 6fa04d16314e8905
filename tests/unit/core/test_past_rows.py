"""Rows that past versions wrote, kept as bytes: a newer worker reads each.

A row is added here whenever a field is appended or ``ROW_VERSION`` goes up, and
none is ever changed. Laid out by hand from the msgpack format: ``9c`` opens the
array of twelve fields, ``94``/``93`` a published revision, ``98``/``97`` a start.
"""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from streams.core.evidence import Call, Score, Started
from streams.core.rows import Published, RowStatus, decode_row

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
