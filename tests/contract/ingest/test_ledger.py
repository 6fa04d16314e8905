"""A ledger's answers, by hand and against a model."""

from typing import cast

from faust.types import TP, ConsumerMessage, Message
from hypothesis import given
from hypothesis import strategies as st

from streams.ingest import Chunk
from streams.ingest.ledger import Ledger

TP0 = TP("t", 0)


def message(first: int, upto: int) -> Message:
    """A chunk of no records, as the ledger looks at its bounds alone."""
    chunk = Chunk(TP0, [], first, upto)
    return ConsumerMessage(
        "t",
        0,
        first,
        0.0,
        0,
        None,
        None,
        chunk,  # type: ignore[arg-type] # a chunk is no bytes
        None,
    )


def chunk_of(told: Message) -> Chunk:
    """The chunk that a message carries."""
    return cast(Chunk, told.value)


def unplaced() -> Ledger:
    """A ledger that does not know yet where reading will begin."""
    ledger = Ledger(1, None)
    assert (None, None) == (ledger.processed, ledger.committable)
    return ledger


def test_a_hole_at_the_head_holds_back_the_first_commit() -> None:
    """With nothing committed before, a later acknowledgement commits nothing."""
    ledger = unplaced()
    ledger.begin(0)
    head, tail = message(0, 50), message(50, 52)
    ledger.add(head)
    ledger.add(tail)
    assert ledger.ack(chunk_of(tail)) is True
    assert ledger.ack(chunk_of(tail)) is False
    assert not ledger.holds(chunk_of(tail))
    assert (0, None) == (ledger.processed, ledger.committable)
    assert ledger.ack(chunk_of(head)) is True
    assert (52, 52) == (ledger.processed, ledger.committable)


def test_a_hole_of_one_offset_holds_back_later_commits() -> None:
    """Committed 1112, so 1112 is the next to read; 1113 alone moves nothing."""
    ledger = Ledger(1, 1112, 1112)
    ledger.add(message(1112, 1113))
    later = message(1113, 1114)
    ledger.add(later)
    ledger.ack(chunk_of(later))
    assert ledger.committable is None


def test_an_acknowledgement_counts_once_and_only_of_ones_own() -> None:
    """Neither a second one, nor one of a like chunk of another ledger, counts."""
    ledger = Ledger(1, 0, 0)
    ours, theirs = message(0, 5), message(0, 5)
    ledger.add(ours)
    assert not ledger.holds(chunk_of(theirs))
    assert ledger.ack(chunk_of(theirs)) is False
    assert [ours] == ledger.waiting
    assert ledger.ack(chunk_of(ours)) is True
    assert ledger.ack(chunk_of(ours)) is False
    assert not ledger.holds(chunk_of(ours))
    assert [] == ledger.waiting


def test_offsets_without_records_are_processed_with_what_precedes_them() -> None:
    """Markers after a chunk count when the chunk does, and may be committed."""
    ledger = Ledger(1, 0, 0)
    first = message(0, 5)
    ledger.add(first)
    ledger.skip_to(7)
    assert 0 == ledger.processed
    ledger.ack(chunk_of(first))
    assert (7, 7) == (ledger.processed, ledger.committable)
    ledger.committed = 7
    assert ledger.committable is None


def test_nothing_read_is_nothing_to_commit() -> None:
    """An empty partition gets no committed offset of 0."""
    ledger = unplaced()
    ledger.begin(0)
    assert (0, None) == (ledger.processed, ledger.committable)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.data())
def test_processed_is_the_first_chunk_that_is_out(
    sizes: list[int], data: st.DataObject
) -> None:
    """In whatever order chunks are acknowledged, after each of them."""
    ledger = Ledger(1, 0, 0)
    messages, at = [], 0
    for size in sizes:
        messages.append(message(at, at + size))
        ledger.add(messages[-1])
        at += size
    out = list(range(len(sizes)))
    for which in data.draw(st.permutations(out)):
        ledger.ack(chunk_of(messages[which]))
        out.remove(which)
        expected = sum(sizes[: min(out)]) if out else at
        assert expected == ledger.processed
        assert (expected or None) == ledger.committable
        assert [messages[left] for left in out] == ledger.waiting
