"""Stretches of a real log end where they should, whatever lies at their ends."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from deploy.kafka.broker import Kafka
from streams.kafka import LogReader, open_reader
from streams.settings import Settings

pytestmark = pytest.mark.asyncio

MakeTopic = Callable[..., Awaitable[str]]
Span = tuple[int, int]


async def values_of(reader: LogReader, topic: str, span: Span) -> list[bytes | None]:
    """What a stretch of partition 0 holds, once it was read to its end."""
    async with asyncio.timeout(30):
        return [
            record.value
            async for _, records in reader.read({(topic, 0): span})
            for record in records
        ]


async def test_a_marker_at_the_end_is_reached(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Callable[[str], str]
) -> None:
    """A transaction's marker has the last offset, and is no record."""
    topic = await make_topic("reader.marker")
    async with (
        AIOKafkaProducer(
            bootstrap_servers=kafka.bootstrap, transactional_id=unique_name("t")
        ) as producer,
        producer.transaction(),
    ):
        for value in (b"0", b"1"):
            await producer.send_and_wait(topic, value, partition=0)
    async with open_reader(Settings(bootstrap_servers=kafka.bootstrap)) as reader:
        # The coordinator answers before its marker is in the log.
        async with asyncio.timeout(30):
            while (await reader.span([(topic, 0)]))[topic, 0] != (0, 3):
                await asyncio.sleep(0.02)
        assert [b"0", b"1"] == await values_of(reader, topic, (0, 3))


async def test_what_a_transaction_took_back_is_no_evidence(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Callable[[str], str]
) -> None:
    """As the worker reads; while it is undecided the log ends before it."""
    topic = await make_topic("reader.aborted")
    async with (
        open_reader(Settings(bootstrap_servers=kafka.bootstrap)) as reader,
        AIOKafkaProducer(
            bootstrap_servers=kafka.bootstrap, transactional_id=unique_name("t")
        ) as producer,
    ):
        async with producer.transaction():
            await producer.send_and_wait(topic, b"kept", partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"taken back", partition=0)
        assert {(topic, 0): (0, 2)} == await reader.span([(topic, 0)])
        await producer.abort_transaction()
        # The coordinator answers before its marker is in the log.
        async with asyncio.timeout(30):
            while (await reader.span([(topic, 0)]))[topic, 0] != (0, 4):
                await asyncio.sleep(0.02)
        assert [b"kept"] == await values_of(reader, topic, (0, 4))


@pytest.mark.parametrize(("kept_from", "expected"), [(3, []), (2, [b"2"])])
async def test_what_was_deleted_meanwhile_is_not_waited_for(
    kafka: Kafka, make_topic: MakeTopic, kept_from: int, expected: list[bytes]
) -> None:
    """The log's beginning moves after the ends are known, to the end or before it."""
    topic = await make_topic("reader.deleted")
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for value in (b"0", b"1", b"2"):
            await producer.send_and_wait(topic, value, partition=0)
    async with open_reader(Settings(bootstrap_servers=kafka.bootstrap)) as reader:
        span = (await reader.span([(topic, 0)]))[topic, 0]
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        await admin.start()
        try:
            place = TopicPartition(topic, 0)
            await admin.delete_records({place: RecordsToDelete(kept_from)})
        finally:
            await admin.close()
        assert expected == await values_of(reader, topic, span)
        assert {(topic, 0): (kept_from, 3)} == await reader.span([(topic, 0)])
