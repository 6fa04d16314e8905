"""Reads stretches of topics to their ends, with a consumer of its own, in no group.

Whole responses are unpacked at once: a read of 300,000 records of 1.4 kB took 2.2 s
through aiokafka's ``getmany`` and 1.5 here, of which most is the reading of the
socket.
"""

# ruff: noqa: SLF001 - leans on internals, which tests/contract/ingest pins

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.errors import KafkaConnectionError

from streams.kafka.diagnosis import diagnose
from streams.kafka.security import client_options
from streams.kafka.unpack import Record, Unpacker
from streams.settings import Settings

_FETCH_WAIT_S = 0.5

Place = tuple[str, int]


class LogReader:
    """An open consumer in no group, for one reading at a time; see ``open_reader``."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer

    async def span(self, partitions: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        """Where each partition begins and ends now.

        Args:
            partitions: (topic, partition), existing ones.

        Returns:
            (topic, partition) -> (first offset kept, offset after the last that
            can be read: an open transaction holds it back).
        """
        tps = [TopicPartition(*place) for place in partitions]
        starts = await self._consumer.beginning_offsets(tps)
        ends = await self._consumer.end_offsets(tps)
        return {(tp.topic, tp.partition): (starts[tp], ends[tp]) for tp in tps}

    async def since(
        self, partitions: Iterable[Place], at_ms: int
    ) -> dict[Place, int | None]:
        """First offset whose record is not older than ``at_ms``; None if none."""
        tps = [TopicPartition(*place) for place in partitions]
        found = await self._consumer.offsets_for_times(dict.fromkeys(tps, at_ms))
        return {
            (tp.topic, tp.partition): None if found[tp] is None else found[tp].offset
            for tp in tps
        }

    async def read(
        self, spans: Mapping[Place, tuple[int, int]]
    ) -> AsyncIterator[tuple[Place, list[Record]]]:
        """The records of several stretches, partition by partition as they come.

        Records of aborted transactions are left out. A stretch ends where the consumer's position reaches its end: by a record,
        or by what is none (the markers of transactions, what compaction took), or
        because all that was left of it was deleted meanwhile.

        While the caller works on what it was given, the next responses are fetched.

        Args:
            spans: (topic, partition) -> (first offset, offset after the last).

        Yields:
            (topic, partition) and consecutive records of it, at least one; none
            beyond its end.

        Raises:
            KafkaError: A partition cannot be read.
            CorruptRecordException: A batch does not fit its checksum.
        """
        ends = {
            TopicPartition(*place): end
            for place, (start, end) in spans.items()
            if start < end
        }
        self._begin({tp: spans[tp][0] for tp in ends})
        while ends:
            parts = await self._take()
            for tp, records in parts.items():
                while records and records[-1].offset >= ends[tp]:
                    records.pop()
            done = [tp for tp in ends if await self._consumer.position(tp) >= ends[tp]]
            for tp in done:
                del ends[tp]
            self._consumer.pause(*done)
            # Has the fetcher ask for the next responses before these are used.
            await asyncio.sleep(0)
            for tp, records in parts.items():
                if records:
                    yield tp, records

    async def follow(
        self, starts: Mapping[Place, int]
    ) -> AsyncIterator[tuple[Place, list[Record]]]:
        """All records from these offsets on, for ever.

        Args:
            starts: (topic, partition) -> first offset.

        Yields:
            As ``read``.

        Raises:
            KafkaError: As ``read``; so is ``CorruptRecordException``.
        """
        self._begin({TopicPartition(*place): start for place, start in starts.items()})
        while True:
            for tp, records in (await self._take()).items():
                if records:
                    yield tp, records

    async def partitions_of(self, topic: str) -> list[int]:
        """The partitions of a topic, ascending; empty if there is no such topic."""
        # The public call knows subscribed topics only.
        cluster = await self._consumer._client.fetch_all_metadata()
        return sorted(cluster.partitions_for_topic(topic) or ())

    def _begin(self, starts: Mapping[TopicPartition, int]) -> None:
        self._consumer.assign(list(starts))
        for tp, start in starts.items():
            self._consumer.seek(tp, start)

    async def _take(self) -> dict[TopicPartition, list[Record]]:
        """Takes all responses there are; waits for some, but not for ever."""
        fetcher: Fetcher = self._consumer._fetcher
        await _fetched(fetcher)
        parts = {}
        while fetcher._records:
            tp, result = fetcher._records.popitem(last=False)
            if not isinstance(result, FetchResult):
                result.check_raise()
            # Not so where the partition was paused, its end reached.
            elif result.has_more() and result.check_assignment(tp):
                unpacker = Unpacker(result._partition_records)
                parts[tp], _ = unpacker.take(sys.maxsize)
                result._update_position()
        fetcher._notify(fetcher._wait_consume_future)
        return parts


async def _fetched(fetcher: Fetcher) -> None:
    """Waits until there are responses; not for ever."""
    if fetcher._records:
        return
    waiter = fetcher._create_fetch_waiter()
    await asyncio.wait([waiter], timeout=_FETCH_WAIT_S)
    if waiter.done():
        # Raises what aiokafka holds to be beyond repair.
        waiter.result()
    waiter.cancel()


@asynccontextmanager
async def open_reader(settings: Settings) -> AsyncIterator[LogReader]:
    """Opens a reader.

    Raises:
        BrokerUnavailableError: No broker answers.
        AccessDeniedError: A broker refused the user.
    """
    options = client_options(settings)
    consumer = AIOKafkaConsumer(
        **options,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        # As the worker reads its sources: what was taken back is no evidence.
        isolation_level="read_committed",
        max_partition_fetch_bytes=4 * 1024 * 1024,
    )
    try:
        await consumer.start()
    except KafkaConnectionError as error:
        await consumer.stop()
        raise await diagnose(options) from error
    try:
        yield LogReader(consumer)
    finally:
        await consumer.stop()
