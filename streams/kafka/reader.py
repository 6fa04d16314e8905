"""Reads a stretch of a topic with a consumer of its own, in no group."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaConnectionError

from streams.kafka.diagnosis import diagnose
from streams.kafka.security import client_options
from streams.settings import Settings

FETCH_TIMEOUT_MS = 500


class LogReader:
    """An open consumer in no group; see ``open_reader``."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer

    @property
    def consumer(self) -> AIOKafkaConsumer:
        """What it reads with."""
        return self._consumer

    async def span(
        self, partitions: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[int, int]]:
        """Where each partition begins and ends now.

        Args:
            partitions: (topic, partition), existing ones.

        Returns:
            (topic, partition) -> (first offset kept, offset after the last).
        """
        tps = [TopicPartition(*place) for place in partitions]
        starts = await self._consumer.beginning_offsets(tps)
        ends = await self._consumer.end_offsets(tps)
        return {(tp.topic, tp.partition): (starts[tp], ends[tp]) for tp in tps}

    async def since(
        self, partitions: Iterable[tuple[str, int]], at_ms: int
    ) -> dict[tuple[str, int], int | None]:
        """First offset whose record is not older than ``at_ms``; None if none."""
        tps = [TopicPartition(*place) for place in partitions]
        found = await self._consumer.offsets_for_times(dict.fromkeys(tps, at_ms))
        return {
            (tp.topic, tp.partition): None if found[tp] is None else found[tp].offset
            for tp in tps
        }

    async def read(
        self, spans: Mapping[tuple[str, int], tuple[int, int]]
    ) -> AsyncIterator[list[ConsumerRecord]]:
        """The records of several stretches, partition by partition in turns.

        Args:
            spans: (topic, partition) -> (first offset, offset after the last).

        Yields:
            Consecutive records of one partition; none beyond its end.
        """
        ends = {
            TopicPartition(*place): end
            for place, (start, end) in spans.items()
            if start < end
        }
        self._consumer.assign(list(ends))
        for tp in ends:
            self._consumer.seek(tp, spans[tp.topic, tp.partition][0])
        while ends:
            fetched = await self._consumer.getmany(timeout_ms=FETCH_TIMEOUT_MS)
            for tp, records in fetched.items():
                end = ends.get(tp)
                if end is None:
                    continue
                while records and records[-1].offset >= end:
                    records.pop()
                if records:
                    yield records
            # The position passes what is no record: compaction, transactions.
            done = [tp for tp in ends if await self._consumer.position(tp) >= ends[tp]]
            if done:
                for tp in done:
                    del ends[tp]
                self._consumer.pause(*done)

    async def follow(self, topic: str, partitions: Iterable[int]) -> AsyncIterator[Any]:
        """All records of a topic from its beginning, for ever.

        Yields:
            Lists of records; an empty one whenever nothing came for a while.
        """
        tps = [TopicPartition(topic, partition) for partition in partitions]
        self._consumer.assign(tps)
        await self._consumer.seek_to_beginning(*tps)
        while True:
            fetched = await self._consumer.getmany(timeout_ms=FETCH_TIMEOUT_MS)
            yield [record for records in fetched.values() for record in records]

    async def partitions_of(self, topic: str) -> list[int]:
        """The partitions of a topic, ascending; empty if there is no such topic."""
        cluster = await self._consumer._client.fetch_all_metadata()  # noqa: SLF001  # the public call knows subscribed topics only
        return sorted(cluster.partitions_for_topic(topic) or ())


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
