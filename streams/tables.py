"""The table of runs: Faust's table, read and written a batch at a time.

Faust recovers, assigns and closes it. Rows are read straight from the store of
the run's partition, and written there together with the changelog, whose
acknowledgement is awaited: Faust itself discards it (a lost changelog write is
only a warning there).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import faust
from faust.types import TP

from streams.publish import Outgoing, Publisher
from streams.store import StoreOptions, batch_of, unfilling

RUN_PREFIX = b"r"
BLOCK_PREFIX = b"b"


def run_key(run_id: str) -> bytes:
    """Key of a run's row."""
    return RUN_PREFIX + run_id.encode()


def block_key(run_id: str, number: int) -> bytes:
    """Key of a block of a run's evidence; ``number`` from 0."""
    return BLOCK_PREFIX + run_id.encode() + b"\x00" + str(number).encode()


def run_of_key(key: bytes) -> str:
    """The run that a row or a block is of; the inverse of the two above."""
    return key[1:].partition(b"\x00")[0].decode()


class Span(NamedTuple):
    """A stretch of a changelog partition.

    Args:
        topic: The changelog.
        partition: Its partition.
        first: First offset.
        end: Offset after the last.
    """

    topic: str
    partition: int
    first: int
    end: int


class RunTable(faust.Table[bytes, bytes]):
    """Rows of runs and blocks of evidence, keyed in bytes, one store a partition."""

    def _new_store(self) -> Any:
        store: Any = super()._new_store()
        store.rocksdb_options = StoreOptions()
        return store

    def partition(self, number: int) -> "PartitionRows":
        """The rows of one assigned partition."""
        return PartitionRows(self, number)


class PartitionRows:
    """Reads and writes the rows of one partition.

    Args:
        table: The table.
        partition: An assigned partition.
    """

    def __init__(self, table: RunTable, partition: int) -> None:
        self._table = table
        self._partition = partition
        self._topic: str = table.changelog_topic.get_topic_name()
        self._store: Any = table.data
        self._next_offset: int | None = None
        self._is_shared = False

    @property
    def _db(self) -> Any:
        return self._store._db_for_partition(self._partition)  # noqa: SLF001  # the store's only per-partition access

    def get(self, key: bytes) -> bytes | None:
        """The row with this key, or None."""
        value: bytes | None = self._db.get(key)
        return value

    def scan(self, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Run rows in key order.

        Args:
            start: First key wanted.
            limit: Most rows wanted.

        Returns:
            Keys and values; fewer than ``limit`` at the end of the run rows.
        """
        rows: list[tuple[bytes, bytes]] = []
        cursor = self._db.iter(unfilling())
        cursor.seek(start)
        while cursor.valid() and len(rows) < limit:
            key = cursor.key()
            if not key.startswith(RUN_PREFIX):
                break
            rows.append((key, cursor.value()))
            cursor.next()
        return rows

    def put(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Writes rows to the store, where they are read from at once.

        Args:
            rows: Key -> value, None to remove. ``log`` has to follow, in the same
                order; until it does the changelog lacks them.
        """
        self._db.write(batch_of(rows.items()))

    async def log(
        self, rows: Mapping[bytes, bytes | None], publisher: Publisher
    ) -> Span | None:
        """Writes rows to the changelog and waits until it has them.

        Args:
            rows: As they were put. One call at a time.
            publisher: Writes the changelog.

        Returns:
            None; or, where somebody else wrote to the partition since it was
            recovered or last written, the stretch with those records in it.

        Raises:
            PublishError: The changelog was not acknowledged.
        """
        if not rows:
            return None
        tp = TP(self._topic, self._partition)
        expected = self._next_offset
        if expected is None:
            held = self._store.persisted_offset(tp)
            expected = None if held is None else held + 1
        ends = await publisher.send(
            Outgoing(self._topic, self._partition, key, value)
            for key, value in rows.items()
        )
        last = ends[self._topic, self._partition]
        self._next_offset = last + 1
        foreign = None
        if expected is not None and last + 1 - len(rows) != expected:
            foreign = Span(self._topic, self._partition, expected, last + 1)
            self._is_shared = True
        if not self._is_shared:
            # Beyond what others wrote there is no going: it is not in the store.
            self._store.set_persisted_offset(tp, last)
        return foreign
