"""Kills, rebalances and broker restarts in the middle of a chunk lose nothing."""

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from faust.types import TP

from deploy.kafka.broker import Kafka, KafkaCluster
from streams import ingest
from tests.broker.ingest import worker as worker_module
from tests.broker.ingest.worker import (
    PATIENCE_S,
    Worker,
    chunk_of,
    commits,
    committed,
    create_app,
    produce,
    until,
)

pytestmark = pytest.mark.asyncio

MakeTopic = Callable[..., Awaitable[str]]
Name = Callable[[str], str]
StartKafka = Callable[..., KafkaCluster]


async def _run_worker(told: dict[str, Any]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        worker_module.__file__,
        json.dumps(told),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        env={"PYTHONPATH": str(Path(__file__).parents[3])},
    )


async def _lines(
    process: asyncio.subprocess.Process, until_line: Callable[[list[str]], bool]
) -> list[str]:
    assert process.stdout is not None
    seen: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while not until_line(seen):
            line = await process.stdout.readline()
            assert line, f"the worker ended after {seen[-3:]}"
            seen.append(line.decode().strip())
    return seen


async def test_a_kill_inside_a_chunk_brings_the_whole_chunk_again(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """Half a chunk processed and the process gone: none of its records is missing."""
    topic = await make_topic("ingest.kill")
    await produce(kafka.bootstrap, topic, [b"x"] * 100)
    told: dict[str, Any] = {
        "bootstrap": kafka.bootstrap,
        "group": unique_name("g"),
        "datadir": str(tmp_path),
        "topic": topic,
        "chunk_records": 10,
        "hang_at": 4,
    }
    first = await _run_worker(told)
    lines = await _lines(first, lambda seen: "hanging" in seen)
    # Chunks 0 to 3 are done, of chunk 4 the offsets 40 to 44.
    assert [str(n) for n in range(45)] == lines[:-1]
    await commits(kafka.bootstrap, told["group"], TP(topic, 0), 40)
    first.send_signal(signal.SIGKILL)
    await first.wait()
    second = await _run_worker({**told, "hang_at": -1})
    try:
        lines = await _lines(second, lambda seen: "99" in seen)
    finally:
        second.kill()
        await second.wait()
    assert [str(n) for n in range(40, 100)] == lines


async def test_a_rebalance_inside_a_chunk_hands_it_to_the_next_owner(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """The chunk comes again, and an acknowledgement of the old one is void."""
    topic = await make_topic("ingest.rebalance", partitions=2)
    both = [TP(topic, 0), TP(topic, 1)]
    group = unique_name("g")
    for tp in both:
        await produce(kafka.bootstrap, topic, [b"x"] * 20, partition=tp.partition)
    one = Worker(
        create_app(kafka.bootstrap, group, tmp_path / "1"),
        [topic],
        acks=False,
        chunk_records=10,
    )
    two = Worker(
        create_app(kafka.bootstrap, group, tmp_path / "2"), [topic], chunk_records=10
    )
    async with one:
        for tp in both:
            await one.has_seen(tp, 20)
        held = {tp: [e for e in one.seen if e.message.tp == tp] for tp in both}
        for tp in both:
            assert held[tp][0].ack() is True
            await one.commits(tp, 10)
        async with two:
            await until(lambda: len(two.consumer._ledgers) == 1, "a share for two")
            (moved,) = two.consumer._ledgers
            (kept,) = set(both) - {moved}
            await one.owns([kept])
            for tp in both:
                stale = held[tp][1]
                assert not one.consumer.is_current(chunk_of(stale))
                assert stale.ack() is False
            await two.has_seen(moved, 10)
            assert list(range(10, 20)) == two.offsets(moved)
            # The same worker gets its share again as well, as another chunk.
            await one.has_seen(kept, 30)
            assert [*range(20), *range(10, 20)] == one.offsets(kept)
            assert one.consumer.processed(kept) == 10
            assert one.consumer.processed(moved) is None
            await two.commits(moved, 20)
            assert (await committed(kafka.bootstrap, group))[kept] == 10
            assert one.seen[-1].ack() is True
            await one.commits(kept, 20)


async def test_a_broker_restart_inside_a_chunk_loses_nothing(
    start_kafka: StartKafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """Reading goes on where it was, and late acknowledgements are committed."""
    cluster = await asyncio.to_thread(start_kafka)
    topic = await make_topic("ingest.restart", on=cluster)
    tp = TP(topic, 0)
    await produce(cluster.bootstrap, topic, [b"x"] * 50)
    app = create_app(cluster.bootstrap, unique_name("g"), tmp_path)
    async with Worker(app, [topic], acks=False, chunk_records=10) as worker:
        await worker.has_seen(tp, 50)
        await asyncio.to_thread(cluster.restart_broker, 1, kill=True)
        await produce(cluster.bootstrap, topic, [b"y"] * 50)
        await until(lambda: 99 in worker.offsets(tp), "the records after the restart")
        assert set(range(100)) == set(worker.offsets(tp))
        # Whether the group was rebalanced or not: what counts is acknowledged once.
        for event in worker.seen:
            event.ack()
        worker.acks = True
        await worker.commits(tp, 100)
        assert worker.consumer.processed(tp) == 100
        assert not app.crashed


async def test_a_stop_without_a_broker_comes_to_an_end(
    start_kafka: StartKafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """The last commit is given up, and the consumer's thread does not stay behind."""
    cluster = await asyncio.to_thread(start_kafka)
    topic = await make_topic("ingest.alone", on=cluster)
    await produce(cluster.bootstrap, topic, [b"x"] * 10)
    app = create_app(
        cluster.bootstrap, unique_name("g"), tmp_path, broker_commit_interval=3600.0
    )
    worker = Worker(app, [topic])
    await app.start()
    await worker.has_seen(TP(topic, 0), 10)
    await asyncio.to_thread(cluster.stop_broker, 1, kill=True)
    async with asyncio.timeout(30):
        await app.stop()
    thread = worker.consumer._thread._thread
    assert thread is not None
    assert not thread.is_alive()


async def test_sources_wait_until_tables_are_recovered(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Name, tmp_path: Path
) -> None:
    """The first chunk of a new worker finds the table as the last one left it."""
    group = unique_name("g")
    topic = await make_topic("ingest.tables")
    tp = TP(topic, 0)
    found: list[int] = []

    async def run(sent: int, total: int) -> None:
        app = create_app(kafka.bootstrap, group, tmp_path, topic_allow_declare=True)
        table = app.Table("counts", key_type=str, default=int, partitions=1)
        worker = Worker(app, [topic], chunk_records=100)

        def count(chunk: ingest.Chunk) -> None:
            if chunk is worker.chunks()[0]:
                found.append(table["all"])
            for record in chunk.records:
                table[f"at-{record.offset}"] = 1
            table["all"] += len(chunk)

        worker.on_chunk = count
        await produce(kafka.bootstrap, topic, [b"x"] * sent)
        async with worker:
            await worker.has_seen(tp, sent)
            await worker.commits(tp, total)

    await run(500, 500)
    await run(250, 750)
    await run(1, 751)
    assert [0, 500, 750] == found
