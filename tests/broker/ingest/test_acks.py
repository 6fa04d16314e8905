"""What is committed: never past a chunk that is not acknowledged, else to the end."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from faust.types import TP

from deploy.kafka.broker import Kafka
from streams import ingest
from tests.broker.ingest.worker import (
    Worker,
    committed,
    create_app,
    produce,
    until,
)

pytestmark = pytest.mark.asyncio

MakeTopic = Callable[..., Awaitable[str]]
Name = Callable[[str], str]


async def test_acks_out_of_order_never_commit_over_a_hole(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """The first chunk without acknowledgement bounds the commit, at offset 0 too."""
    topic = await make_topic("ingest.holes")
    tp = TP(topic, 0)
    await produce(kafka.bootstrap, topic, [b"x"] * 40)
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    async with Worker(app, [topic], acks=False, chunk_records=10) as worker:
        await worker.has_seen(tp, 40)
        first, second, third, fourth = worker.seen
        consumer = worker.consumer
        assert fourth.ack() is True
        assert second.ack() is True
        await consumer.commit()
        assert await committed(kafka.bootstrap, app.conf.id) == {}
        assert consumer.processed(tp) == 0
        assert first.ack() is True
        await consumer.commit()
        # Chunks of ten: the first two are done, the third is the hole.
        assert (await committed(kafka.bootstrap, app.conf.id))[tp] == 20
        assert consumer.processed(tp) == 20
        assert {tp: 20} == consumer.committed_lag()
        assert third.ack() is True
        assert third.ack() is False
        await consumer.commit()
        assert (await committed(kafka.bootstrap, app.conf.id))[tp] == 40
        assert consumer.processed(tp) == 40
        assert {tp: 0} == consumer.committed_lag()


async def test_markers_at_the_end_do_not_hold_processed_back(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """Past the marker of a transaction, and past one taken back, is the log's end."""
    topic = await make_topic("ingest.markers", partitions=2)
    full, empty = TP(topic, 0), TP(topic, 1)
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    async with Worker(app, [topic]) as worker:
        producer = AIOKafkaProducer(
            bootstrap_servers=kafka.bootstrap, transactional_id=unique_name("t")
        )
        async with producer:
            async with producer.transaction():
                for _ in range(5):
                    await producer.send(topic, b"kept", partition=0)
            await producer.begin_transaction()
            for _ in range(3):
                # An abort drops what still waits in the producer: the log has to have it.
                await producer.send_and_wait(topic, b"taken back", partition=0)
            await producer.abort_transaction()
        # 5 records, a marker, 3 aborted records, a marker. The coordinator answers
        # before its markers are in the log, so the end is read once they passed.
        await until(lambda: worker.consumer.processed(full) == 10, "the markers passed")
        assert {full: 10, empty: 0} == await worker.consumer.end_offsets([full, empty])
        await until(lambda: worker.consumer.processed(empty) == 0, "an empty partition")
        assert [b"kept"] * 5 == [r.value for c in worker.chunks() for r in c.records]
        await worker.commits(full, 10)
        assert empty not in await committed(kafka.bootstrap, app.conf.id)


async def test_an_open_transaction_holds_the_end_back_too(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """A barrier never waits for records that cannot be read yet."""
    topic = await make_topic("ingest.open")
    tp = TP(topic, 0)
    await produce(kafka.bootstrap, topic, [b"x"] * 2)
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, transactional_id=unique_name("t")
    )
    async with producer, Worker(app, [topic]) as worker:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"undecided", partition=0)
        await worker.has_seen(tp, 2)
        assert {tp: 2} == await worker.consumer.end_offsets([tp])
        assert worker.consumer.processed(tp) == 2
        await producer.commit_transaction()
        await until(lambda: worker.consumer.processed(tp) == 4, "record and marker")
        assert {tp: 4} == await worker.consumer.end_offsets([tp])


async def test_log_ends_that_do_not_come_are_told_in_time(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """A partition that does not exist ends in an error, not in a wait."""
    topic = await make_topic("ingest.ends")
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    async with Worker(app, [topic]) as worker:
        await worker.owns([TP(topic, 0)])
        nowhere = TP(topic, 7)
        async with asyncio.timeout(10):
            with pytest.raises(TimeoutError, match=r"no log ends in 0\.3 s"):
                await worker.consumer.end_offsets([nowhere], timeout_s=0.3)
        assert worker.consumer.processed(nowhere) is None
        assert worker.consumer.processed(TP("elsewhere", 0)) is None


async def test_the_flush_comes_between_the_acks_and_their_commit(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """What is acknowledged during the flush waits for the next commit."""
    topic = await make_topic("ingest.flush")
    tp = TP(topic, 0)
    await produce(kafka.bootstrap, topic, [b"x"] * 20)
    flushing, flushed = asyncio.Event(), asyncio.Event()

    async def flush() -> None:
        flushing.set()
        await flushed.wait()

    app = create_app(
        kafka.bootstrap, unique_name("g"), tmp_path, broker_commit_interval=3600.0
    )
    worker = Worker(app, [topic], acks=False, chunk_records=10, before_commit=flush)
    async with worker:
        await worker.has_seen(tp, 20)
        await worker.consumer.commit()
        assert not flushing.is_set()  # nothing to commit, nothing to flush
        worker.seen[0].ack()
        commit = asyncio.ensure_future(worker.consumer.commit())
        await asyncio.wait_for(flushing.wait(), 10)
        worker.seen[1].ack()
        assert await committed(kafka.bootstrap, app.conf.id) == {}
        flushed.set()
        assert await commit is True
        assert (await committed(kafka.bootstrap, app.conf.id))[tp] == 10
        await worker.consumer.commit()
        assert (await committed(kafka.bootstrap, app.conf.id))[tp] == 20


async def test_a_flush_that_fails_commits_nothing_and_stops_the_worker(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """An offset whose state is not safe never reaches the broker."""
    topic = await make_topic("ingest.unsafe")
    await produce(kafka.bootstrap, topic, [b"x"] * 3)

    async def flush() -> None:
        raise RuntimeError("no state was written")

    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    worker = Worker(app, [topic], before_commit=flush)
    async with worker:
        await until(lambda: app.crashed, "the crash")
        await until(lambda: len(worker.offsets(TP(topic, 0))) == 3, "the records")
    assert await committed(kafka.bootstrap, app.conf.id) == {}
    assert repr(app.crash_reason) == "RuntimeError('no state was written')"


async def test_a_flush_that_fails_at_the_stop_leaves_nothing_running(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """The thread ends, nothing is committed, and the worker counts as crashed."""
    topic = await make_topic("ingest.unsafe")
    await produce(kafka.bootstrap, topic, [b"x"] * 3)

    async def flush() -> None:
        raise RuntimeError("no state was written")

    app = create_app(
        kafka.bootstrap, unique_name("g"), tmp_path, broker_commit_interval=3600.0
    )
    async with Worker(app, [topic], before_commit=flush) as worker:
        await worker.has_seen(TP(topic, 0), 3)
    assert await committed(kafka.bootstrap, app.conf.id) == {}
    assert app.crashed
    thread = worker.consumer._thread._thread
    assert thread is not None
    assert not thread.is_alive()


async def test_a_good_stop_commits_what_is_acknowledged_and_no_more(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """The next worker begins at the first chunk that was not acknowledged."""
    topic = await make_topic("ingest.stop")
    tp = TP(topic, 0)
    await produce(kafka.bootstrap, topic, [b"x"] * 30)
    group = unique_name("g")
    app = create_app(kafka.bootstrap, group, tmp_path, broker_commit_interval=3600.0)
    async with Worker(app, [topic], acks=False, chunk_records=10) as worker:
        await worker.has_seen(tp, 30)
        worker.seen[0].ack()
        worker.seen[2].ack()
    assert (await committed(kafka.bootstrap, group))[tp] == 10
    app = create_app(kafka.bootstrap, group, tmp_path)
    async with Worker(app, [topic]) as worker:
        await worker.has_seen(tp, 20)
        assert list(range(10, 30)) == worker.offsets(tp)


async def test_a_stream_that_acknowledges_by_itself_is_refused(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """Without noack() a chunk would count although its agent failed in it."""
    topic = await make_topic("ingest.auto")
    await produce(kafka.bootstrap, topic, [b"x"] * 3)
    app = create_app(kafka.bootstrap, unique_name("g"), tmp_path)
    ingest.install(app, [topic])

    @app.agent(app.topic(topic, value_type=bytes, value_serializer="raw"))
    async def _careless(stream: Any) -> None:
        async for _ in stream:
            pass

    await app.start()
    try:
        await until(lambda: app.crashed, "the crash")
    finally:
        await app.stop()
    assert await committed(kafka.bootstrap, app.conf.id) == {}
    assert isinstance(app.crash_reason, ingest.IngestError)
    assert "stream.noack()" in str(app.crash_reason)
