"""Reads changelogs in bulk before Faust does: its own path takes them singly.

Faust's recovery then finds nothing left to read, or only what was written
meanwhile, and everything else about it stays as it is.
"""

# ruff: noqa: SLF001 - the recovery of Faust 0.15 has no public seams

import asyncio
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.types import TP

from streams.kafka import LogReader, Record, open_reader
from streams.settings import Settings
from streams.store import batch_of

Remaining = Callable[[str, int], None]


class BulkRecovery(Recovery):
    """Recovery whose active partitions are filled in batches first."""

    settings: Settings
    remaining: Remaining

    async def _build_offsets(
        self, consumer: Any, tps: set[TP], destination: Any, title: str
    ) -> None:
        if title == "active" and tps:
            # Bounded by the caller's timeout; what is left, Faust reads itself.
            limit_s = self.app.conf.broker_request_timeout * 0.8
            try:
                async with asyncio.timeout(limit_s):
                    await self._fill(tps, destination)
            except TimeoutError:
                self.log.info("bulk recovery goes on record by record")
        await super()._build_offsets(consumer, tps, destination, title)

    async def _fill(self, tps: set[TP], offsets: MutableMapping[TP, Any]) -> None:
        async with open_reader(self.settings) as reader:
            places = [(tp.topic, tp.partition) for tp in tps]
            spans = {}
            for place, (start, end) in (await reader.span(places)).items():
                held = offsets.get(TP(*place))
                first = start if held is None else max(start, held + 1)
                if first < end:
                    spans[place] = (first, end)
            await self._read(reader, spans, offsets)

    async def _read(
        self,
        reader: LogReader,
        spans: dict[tuple[str, int], tuple[int, int]],
        offsets: MutableMapping[TP, Any],
    ) -> None:
        left = sum(end - start for start, end in spans.values())
        table: Any = self.tables._changelogs
        with unlogged_writes() as write:
            async for place, records in reader.read(spans):
                tp = TP(*place)
                write(table[tp.topic].data, tp.partition, records)
                offsets[tp] = records[-1].offset
                left -= len(records)
                self.remaining(tp.topic, max(0, left))
                await asyncio.sleep(0)
        # What is no record (compacted, at the end) is reached all the same.
        for place, (_, end) in spans.items():
            tp = TP(*place)
            offsets[tp] = end - 1
            changelog: Any = table[tp.topic].data
            changelog.set_persisted_offset(tp, end - 1)


Write = Callable[[Any, int, Sequence[Record]], None]


@contextmanager
def unlogged_writes() -> Iterator[Write]:
    """Gives what writes changelog records to a store past its write-ahead log.

    The changelog is the log: with RocksDB's own, the same takes 1.7 times as long.
    Records and the offset of the last are one batch, and a memtable reaches the disk
    whole, in order: after a crash the store is at an earlier offset, with all rows
    up to it. That holds only until something else is written, with a log, so what
    was written is on the disk when the context is left, in whatever way.

    Yields:
        Called with a store of Faust's, a partition, and at least one record.
    """
    import rocksdict  # noqa: PLC0415  # only a worker pays for it

    options = rocksdict.WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment]  # an attribute, whatever its stub says
    written: dict[tuple[int, int], Any] = {}

    def write(store: Any, partition: int, records: Sequence[Record]) -> None:
        # A compacted topic has no record without a key.
        batch = batch_of((record.key, record.value) for record in records)
        batch.put(store.offset_key, b"%d" % records[-1].offset)
        database = store._db_for_partition(partition)
        written[id(store), partition] = database
        database.write(batch, options)

    try:
        yield write
    finally:
        while written:
            written.popitem()[1].flush()


def table_manager(settings: Settings, remaining: Remaining) -> type[TableManager]:
    """A table manager class whose recovery is in bulk.

    Args:
        settings: How to reach the brokers.
        remaining: Told changelog topic and records left to read.
    """

    class BulkTableManager(TableManager):
        @property
        def recovery(self) -> Recovery:
            if self._recovery is None:
                recovery = BulkRecovery(
                    self.app, self, beacon=self.beacon, loop=self.loop
                )
                recovery.settings = settings
                recovery.remaining = remaining
                self._recovery = recovery
            return self._recovery

    return BulkTableManager
