"""What agents are handed: every record once, whole chunks, fair between topics."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from faust.types import TP

from deploy.kafka.broker import Kafka
from tests.broker.ingest.worker import Worker, chunk_of, create_app, produce, until

pytestmark = pytest.mark.asyncio

MakeTopic = Callable[..., Awaitable[str]]
Name = Callable[[str], str]


async def test_records_arrive_once_in_order_and_untouched(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """Bytes that no decoder likes, tombstones and empty values are only bytes."""
    topic = await make_topic("ingest.bytes", partitions=2)
    odd: list[bytes | None] = [b"{", b"\xff\xfe", None, b"", b"\x00" * 70_000]
    for partition in (0, 1):
        await produce(kafka.bootstrap, topic, odd * 3, partition=partition)
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    async with Worker(app, [topic], chunk_records=4) as worker:
        for partition in (0, 1):
            tp = TP(topic, partition)
            await worker.has_seen(tp, 15)
            chunks = worker.chunks(tp)
            assert odd * 3 == [r.value for chunk in chunks for r in chunk.records]
            assert list(range(15)) == worker.offsets(tp)
            assert max(map(len, chunks)) <= 4
            for chunk in chunks:
                assert chunk.tp == tp
                assert chunk.first_offset == chunk.records[0].offset
                assert chunk.next_offset == chunk.records[-1].offset + 1


async def test_a_lone_record_is_a_chunk_of_one(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """Nothing waits for a chunk to fill, and the record's parts are all there."""
    topic = await make_topic("ingest.one")
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    async with Worker(app, [topic]) as worker:
        tp = TP(topic, 0)
        await worker.owns([tp])
        for number in range(3):
            await produce(kafka.bootstrap, topic, [b"%d" % number])
            await worker.has_seen(tp, number + 1)
        assert [1, 1, 1] == [len(chunk) for chunk in worker.chunks()]
        record = worker.chunks()[2].records[0]
        assert (2, None, b"2", []) == (
            record.offset,
            record.key,
            record.value,
            list(record.headers),
        )
        assert record.timestamp > 1_600_000_000_000
        await worker.commits(tp, 3)


async def test_other_topics_keep_to_fausts_path(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """An agent of a topic that was not named gets records one by one."""
    source = await make_topic("ingest.source")
    other = await make_topic("ingest.other")
    await produce(kafka.bootstrap, source, [b"s"] * 10)
    await produce(kafka.bootstrap, other, [b"a", b"b", b"c"])
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    async with Worker(app, [source], others=[other]) as worker:
        await worker.has_seen(TP(source, 0), 10)
        await until(lambda: len(worker.singles) >= 3, "three single records")
        assert [b"a", b"b", b"c"] == [event.value for event in worker.singles]
        await worker.commits(TP(other, 0), 3)
        await worker.commits(TP(source, 0), 10)


async def test_a_slow_agent_bounds_what_is_read_and_starves_nobody(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """Behind an agent that stands still wait few chunks; other agents go on."""
    slow = await make_topic("ingest.slow", partitions=3)
    fast = await make_topic("ingest.fast")
    for partition in range(3):
        await produce(kafka.bootstrap, slow, [b"x"] * 500, partition=partition)
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    worker = Worker(app, [slow, fast], chunk_records=10, chunks_waiting=3)
    worker.open.clear()
    async with worker:
        await until(lambda: len(worker.seen) > 0, "the first chunk")
        (queue,) = worker.consumer._queues(TP(slow, 0))
        await until(lambda: queue.qsize() == 3, "a full queue")
        for number in range(20):
            await produce(kafka.bootstrap, fast, [b"%d" % number])
            if number == 0:
                await worker.has_seen(TP(fast, 0), 1)
                # Its agent stands still as well, by now; so does what it may read.
            assert queue.qsize() <= 3
        (behind,) = worker.consumer._queues(TP(fast, 0))
        await until(lambda: behind.qsize() == 3, "the other queue full as well")
        handed_out = sum(len(c) for c in worker.chunks()) // 10
        assert len(worker.consumer._held) + len(worker.consumer._thread.taken) == 0
        assert handed_out <= 1
        worker.open.set()
        for partition in range(3):
            await worker.has_seen(TP(slow, partition), 500)
            assert list(range(500)) == worker.offsets(TP(slow, partition))
        await worker.has_seen(TP(fast, 0), 20)


@pytest.mark.parametrize("one_agent", [False, True])
async def test_a_backlog_does_not_hold_up_other_topics_or_partitions(
    kafka: Kafka,
    make_topic: MakeTopic,
    unique_name: Name,
    tmp_path: Path,
    one_agent: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Chunks come from all topics and partitions in turn, however they are read."""
    long = await make_topic("ingest.long", partitions=2)
    short = await make_topic("ingest.short")
    for partition in (0, 1):
        await produce(kafka.bootstrap, long, [b"x"] * 1000, partition=partition)
    await produce(kafka.bootstrap, short, [b"y"] * 30)
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    worker = Worker(app, [long, short], chunk_records=10, one_agent=one_agent)
    async with worker:
        await worker.has_seen(TP(short, 0), 30)
        for partition in (0, 1):
            await worker.has_seen(TP(long, partition), 1000)
        # Three chunks of the short topic stand among 200 of the long one.
        order = [chunk.tp.topic for chunk in worker.chunks()]
        assert len(order) - 1 - order[::-1].index(short) < 60
        # The long topic's partitions alternate, a run of one of them stays short.
        parts = [c.tp.partition for c in worker.chunks() if c.tp.topic == long]
        assert abs(sum(parts[:100]) - 50) <= 20


async def test_a_paused_topic_loses_nothing(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """Paused in the middle, a topic stands still and later goes on where it was."""
    paused = await make_topic("ingest.paused")
    running = await make_topic("ingest.running")
    await produce(kafka.bootstrap, paused, [b"x"] * 2000)
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    async with Worker(app, [paused, running], chunk_records=10) as worker:
        tp = TP(paused, 0)
        await worker.has_seen(tp, 20)
        worker.consumer.pause_partitions([tp])
        (queue,) = worker.consumer._queues(tp)
        await until(queue.empty, "the agent to use up its queue")
        await asyncio.sleep(0)
        before = len(worker.offsets(tp))
        await produce(kafka.bootstrap, running, [b"y"] * 5)
        await worker.has_seen(TP(running, 0), 5)
        assert before == len(worker.offsets(tp)) < 2000
        worker.consumer.resume_partitions([tp])
        await worker.has_seen(tp, 2000)
        assert list(range(2000)) == worker.offsets(tp)


async def test_a_seek_voids_what_is_out(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """After a seek the records come again, and only the new chunk counts."""
    topic = await make_topic("ingest.seek")
    await produce(kafka.bootstrap, topic, [b"x"] * 10)
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    async with Worker(app, [topic], acks=False) as worker:
        tp = TP(topic, 0)
        await worker.has_seen(tp, 10)
        old = worker.seen[0]
        assert worker.consumer.is_current(chunk_of(old))
        await worker.consumer.seek(tp, 4)
        assert not worker.consumer.is_current(chunk_of(old))
        await worker.has_seen(tp, 16)
        assert [*range(10), *range(4, 10)] == worker.offsets(tp)
        assert old.ack() is False
        assert worker.consumer.processed(tp) == 4
        assert worker.seen[-1].ack() is True
        assert worker.consumer.processed(tp) == 10


@pytest.mark.parametrize("reset", ["earliest", "latest"])
async def test_going_back_to_the_committed_offset_skips_nothing(
    kafka: Kafka,
    make_topic: MakeTopic,
    unique_name: Name,
    tmp_path: Path,
    reset: str,
) -> None:
    """Also where none is committed, and where that would mean the log's end."""
    topic = await make_topic("ingest.back")
    tp = TP(topic, 0)
    app = create_app(
        kafka.bootstrap, unique_name("g"), tmp_path, consumer_auto_offset_reset=reset
    )
    async with Worker(app, [topic], acks=False, chunk_records=5) as worker:
        await until(lambda: worker.consumer.processed(tp) == 0, "the position")
        await produce(kafka.bootstrap, topic, [b"x"] * 10)
        await worker.has_seen(tp, 10)
        first = worker.seen[0]
        await worker.consumer.perform_seek()
        assert not worker.consumer.is_current(chunk_of(first))
        assert first.ack() is False
        await worker.has_seen(tp, 20)
        assert [*range(10), *range(10)] == worker.offsets(tp)
        # With an offset committed, from there.
        after = worker.seen[len(worker.seen) // 2]
        assert after.ack() is True
        await worker.commits(tp, 5)
        await worker.consumer.perform_seek()
        assert worker.consumer.processed(tp) == 5
        await worker.has_seen(tp, 25)
        assert list(range(5, 10)) == worker.offsets(tp)[20:]


async def test_nothing_is_logged_chunk_by_chunk(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """At level INFO, neither we nor the libraries make log entries while reading."""
    topic = await make_topic("ingest.quiet")
    await produce(kafka.bootstrap, topic, [b"x"] * 2000)
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    made: list[str] = []
    factory = logging.getLogRecordFactory()
    root = logging.getLogger()
    level = root.level

    def note(*args: Any, **keywords: Any) -> logging.LogRecord:
        entry = factory(*args, **keywords)
        made.append(entry.getMessage())
        return entry

    async with Worker(app, [topic], chunk_records=2) as worker:
        await worker.has_seen(TP(topic, 0), 2)
        worker.open.clear()
        await until(lambda: not app.rebalancing, "the rebalance's end")
        try:
            root.setLevel(logging.INFO)
            logging.setLogRecordFactory(note)
            worker.open.set()
            await worker.has_seen(TP(topic, 0), 2000)
        finally:
            logging.setLogRecordFactory(factory)
            root.setLevel(level)
    assert [] == made
