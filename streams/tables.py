"""The table of runs: Faust's table, read and written a batch at a time.

Faust recovers, assigns and closes it. Rows are read straight from the store of
the run's partition, and written there together with the changelog, whose
acknowledgement is awaited: Faust itself discards it (a lost changelog write is
only a warning there).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import faust
from faust.types import TP

from streams.publish import Outgoing, Publisher

RUN_PREFIX = b"r"
BLOCK_PREFIX = b"b"


def run_key(run_id: str) -> bytes:
    """Key of a run's row."""
    return RUN_PREFIX + run_id.encode()


def block_key(run_id: str, number: int) -> bytes:
    """Key of a block of a run's evidence; ``number`` from 0."""
    return BLOCK_PREFIX + run_id.encode() + b"\x00" + str(number).encode()


class RunTable(faust.Table[bytes, bytes]):
    """Rows of runs and blocks of evidence, keyed in bytes, one store a partition."""

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
        cursor = self._db.iter()
        cursor.seek(start)
        while cursor.valid() and len(rows) < limit:
            key = cursor.key()
            if not key.startswith(RUN_PREFIX):
                break
            rows.append((key, cursor.value()))
            cursor.next()
        return rows

    async def write(
        self, rows: Mapping[bytes, bytes | None], publisher: Publisher
    ) -> None:
        """Writes rows to the store and the changelog, and waits for the latter.

        Args:
            rows: Key -> value, None to remove.
            publisher: Writes the changelog.

        Raises:
            PublishError: The changelog was not acknowledged.
        """
        if not rows:
            return
        self._write_store(rows.items())
        ends = await publisher.send(
            Outgoing(self._topic, self._partition, key, value)
            for key, value in rows.items()
        )
        offset = ends[self._topic, self._partition]
        self._store.set_persisted_offset(TP(self._topic, self._partition), offset)

    def _write_store(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        batch = _write_batch()
        for key, value in rows:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        self._db.write(batch)


def _write_batch() -> Any:
    import rocksdict  # noqa: PLC0415  # 50 ms that only a worker pays

    return rocksdict.WriteBatch(raw_mode=True)
