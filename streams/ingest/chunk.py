"""What an agent of a source topic is handed: a run of records of one partition."""

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from faust.types import TP

from streams.kafka import Record


class Chunk:
    """Consecutive records of one partition, acknowledged together or not at all.

    The representation holds no byte of a record, so that a chunk can be logged.

    Attributes:
        tp: Topic and partition.
        records: At least one, by ascending offset. Offsets may have gaps, where
            the log was compacted or holds the markers of transactions.
        first_offset: Offset of the first record.
        next_offset: Where the next chunk begins; above the last record's offset.
            Committed when this chunk and all before it are acknowledged.
    """

    __slots__ = ("first_offset", "next_offset", "records", "tp")

    def __init__(
        self, tp: TP, records: Sequence[Record], first_offset: int, next_offset: int
    ) -> None:
        self.tp = tp
        self.records = records
        self.first_offset = first_offset
        self.next_offset = next_offset

    def __len__(self) -> int:
        """How many records there are."""
        return len(self.records)

    def count_below(self, offset: int) -> int:
        """How many of the records lie below this offset."""
        return bisect_left(self.records, offset, key=attrgetter("offset"))

    def __repr__(self) -> str:
        """Place and size, nothing of the content."""
        return (
            f"<Chunk {self.tp.topic}/{self.tp.partition} "
            f"{self.first_offset}..{self.next_offset} ({len(self.records)} records)>"
        )
