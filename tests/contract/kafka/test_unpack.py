"""Records are unpacked as aiokafka unpacks them, only in lists."""

import gc
import weakref
from collections.abc import Sequence

import pytest
from aiokafka.consumer.fetcher import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    PartitionRecords,
)
from aiokafka.errors import CorruptRecordException
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.unpack import Unpacker
from tests.contract.kafka.batches import ABORT, COMMIT, batch, fetched

Aborted = Sequence[tuple[int, int]]


def offsets_taken(
    response: PartitionRecords, limit: int
) -> list[tuple[list[int], int]]:
    """Offsets of each chunk, and where the next fetch would begin after it."""
    unpacker, chunks, is_used_up = Unpacker(response), [], False
    while not is_used_up:
        records, is_used_up = unpacker.take(limit)
        offsets = [record.offset for record in records]
        chunks.append((offsets, response.next_fetch_offset))
    return chunks


def test_chunks_end_where_told_and_go_on_inside_a_batch() -> None:
    """Seven records in two batches, three at a time."""
    raw = batch(0, range(5)) + batch(5, range(2))
    assert [([0, 1, 2], 3), ([3, 4, 5], 6), ([6], 7)] == offsets_taken(fetched(raw), 3)


def test_a_full_last_chunk_tells_the_end_with_an_empty_one() -> None:
    """Six records by three: that nothing follows is found by looking again."""
    raw = batch(0, range(6))
    assert [([0, 1, 2], 3), ([3, 4, 5], 6), ([], 6)] == offsets_taken(fetched(raw), 3)


def test_a_used_response_needs_no_garbage_collector() -> None:
    """A worker collects seldom, and a response may have megabytes."""
    gc.disable()
    try:
        response = fetched(batch(0, range(5)))
        gone = weakref.ref(response)
        Unpacker(response).take(5)
        del response
        assert gone() is None
    finally:
        gc.enable()


def test_what_was_not_asked_for_is_left_out() -> None:
    """A broker answers with the whole batch that holds the offset."""
    raw = batch(10, range(5))
    assert [([13, 14], 15)] == offsets_taken(fetched(raw, at=13), 100)


def test_a_batch_without_its_tail_is_left_behind() -> None:
    """Compaction took offsets 3 and 4; to fetch at 3 would bring the same batch."""
    raw = batch(0, [0, 2], last_delta=4)
    assert [([0, 2], 5)] == offsets_taken(fetched(raw), 100)


def test_markers_are_passed_without_records() -> None:
    """A response of nothing but a marker moves on and brings no record."""
    raw = batch(7, [0], producer=1, marker=COMMIT)
    assert [([], 8)] == offsets_taken(fetched(raw, at=7), 100)


@pytest.mark.parametrize(
    ("level", "expected"), [(READ_COMMITTED, [3, 4]), (READ_UNCOMMITTED, [0, 1, 3, 4])]
)
def test_what_a_transaction_took_back_is_left_out(
    level: int, expected: list[int]
) -> None:
    """Producer 1 aborts offsets 0 and 1 by the marker at 2; then it commits."""
    raw = (
        batch(0, range(2), producer=1)
        + batch(2, [0], producer=1, marker=ABORT)
        + batch(3, range(2), producer=1)
        + batch(5, [0], producer=1, marker=COMMIT)
    )
    response = fetched(raw, aborted=[(1, 0)], level=level)
    assert [(expected, 6)] == offsets_taken(response, 100)


def test_a_broken_checksum_is_an_error() -> None:
    """One flipped bit in a value is told, and no record of the batch handed out."""
    raw = bytearray(batch(0, range(3)))
    raw[-1] ^= 1
    with pytest.raises(CorruptRecordException, match="Invalid CRC"):
        Unpacker(fetched(bytes(raw))).take(10)


@st.composite
def responses(draw: st.DrawFn) -> tuple[bytes, Aborted, int]:
    """A log's part with holes, markers and aborts, and an offset inside it."""
    raw, at, aborted = b"", 0, []
    for _ in range(draw(st.integers(1, 6))):
        producer = draw(st.sampled_from([None, 1, 2]))
        size = draw(st.integers(1, 9))
        deltas = sorted(draw(st.sets(st.integers(0, size - 1), min_size=1)))
        raw += batch(
            at,
            deltas,
            last_delta=size - 1,
            producer=producer,
            compression=draw(st.sampled_from([0, 1])),
        )
        is_aborted = producer is not None and draw(st.booleans())
        if is_aborted and producer is not None:
            aborted.append((producer, at))
        at += size
        if producer is not None:
            marker = ABORT if is_aborted else COMMIT
            raw += batch(at, [0], producer=producer, marker=marker)
            at += 1
    return raw, aborted, draw(st.integers(0, at - 1))


@given(responses(), st.sampled_from([READ_COMMITTED, READ_UNCOMMITTED]))
def test_everything_is_unpacked_as_aiokafka_does(
    response: tuple[bytes, Aborted, int], level: int
) -> None:
    """The same records, and the same offset to fetch next, for any chunk size."""
    raw, aborted, at = response
    theirs = fetched(raw, at, aborted, level)
    expected = [
        (r.offset, r.key, r.value, tuple(r.headers), r.timestamp, r.timestamp_type)
        for r in theirs
    ]
    for limit in (1, 3, 1000):
        ours = fetched(raw, at, aborted, level)
        unpacker, records, is_used_up = Unpacker(ours), [], False
        while not is_used_up:
            part, is_used_up = unpacker.take(limit)
            assert len(part) <= limit
            records += part
        actual = [
            (r.offset, r.key, r.value, tuple(r.headers), r.timestamp, r.timestamp_type)
            for r in records
        ]
        assert expected == actual
        assert theirs.next_fetch_offset == ours.next_fetch_offset
