"""From a score that is published to its task summary in a consumer's hands."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.benchmarks.bench import PATHGATE, START_LIMIT_S, Bench, Contestant
from tests.benchmarks.job import Job
from tests.benchmarks.loading import create_topics, free_port
from tests.benchmarks.paced import Order
from tests.benchmarks.process import start_command
from tests.benchmarks.report import Cell, Goal, Table, load_average
from tests.benchmarks.workload import Shape, events_of, write_suites

NAME = "latency"
RATE = 5_000
SHAPE = Shape(name="paced", runs=4_000, window=100)
ECHO = Contestant(name="bare echo", module="contestant_echo")

_SECONDS = 24
_WARM_S = 4.0
_DRAIN_S = 20.0

_HOW = (
    "{rate:,} events a second for {seconds} s, published one at a time by one"
    " producer; runs of {tasks} tasks with {calls} calls each, {window} under way at"
    " once. The clock starts when an eval.scored is handed to the producer, and stops"
    " when a consumer in another process holds the task summary of its trial (or the"
    " echoed score). Same load for both, in turns, {rounds} rounds; the first"
    " {warm:g} s of each are left out. Settings of the worker: the defaults."
)


class _Key(msgspec.Struct, rename="camel"):
    run_id: str
    payload: "_Payload"


class _Payload(msgspec.Struct, rename="camel"):
    task_id: str


_key_of_score = msgspec.json.Decoder(_Key)


async def measure(bench: Bench) -> Table:
    """Measures the echo and the worker, in turns."""
    before = load_average()
    seconds = 2 if bench.is_short else _SECONDS
    warm_s = 0.0 if bench.is_short else _WARM_S
    shape = SHAPE.sized(RATE * seconds)
    rounds = 1 if bench.is_short else bench.rounds
    taken: dict[str, list[float]] = {ECHO.name: [], PATHGATE.name: []}
    rows: list[tuple[Cell, ...]] = []
    for number in range(rounds):
        for contestant in (ECHO, PATHGATE):
            found = await _turn(bench, contestant, shape, warm_s)
            taken[contestant.name] += found
            rows.append(_row(f"{contestant.name}, round {number + 1}", found))
            bench.say(f"  {NAME}: {rows[-1]}")
    rows += [_row(f"{name}, all", found) for name, found in taken.items()]
    echo, ours = (sorted(taken[one.name]) for one in (ECHO, PATHGATE))
    return Table(
        name=NAME,
        title="Latency",
        how=_HOW.format(
            rate=RATE,
            seconds=seconds,
            tasks=shape.tasks,
            calls=shape.calls,
            window=shape.window,
            rounds=rounds,
            warm=warm_s,
        ),
        columns=("", "scores", "p50 [ms]", "p95 [ms]", "p99 [ms]", "max [ms]"),
        rows=tuple(rows),
        goals=(
            Goal(
                name="p99 of the task summary against the echo's",
                value=_percentile(ours, 99) / _percentile(echo, 99),
                bound="<=",
                goal=3.0,
            ),
            Goal(
                name="p50 of the task summary against the echo's",
                value=_percentile(ours, 50) / _percentile(echo, 50),
                bound="<=",
                goal=3.0,
            ),
        ),
        load=(before, load_average()),
    )


def _row(name: str, waits_s: list[float]) -> tuple[Cell, ...]:
    ordered = sorted(waits_s)
    figures = [_percentile(ordered, p) * 1000 for p in (50, 95, 99, 100)]
    return (name, len(ordered), *figures)


def _percentile(ordered: list[float], percent: int) -> float:
    """Nearest rank; ``ordered`` is ascending and holds something."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


async def _turn(
    bench: Bench, contestant: Contestant, shape: Shape, warm_s: float
) -> list[float]:
    """Seconds that each score waited, the first ``warm_s`` left out."""
    write_suites(Path(bench.home) / "suites", shape)
    port = free_port()
    job = bench.job("latency", settings={"web_port": str(port)})
    times = bench.home / f"{job.group}.times"
    await create_topics(job)
    async with bench.running(contestant, job) as process, _watching(job) as seen:
        if contestant is ECHO:
            await process.mark("ready", START_LIMIT_S)
        else:
            await process.ready(port, START_LIMIT_S)
        order = Order(job=job, shape=shape, rate=RATE, times=str(times))
        paced = await start_command(
            "tests.benchmarks.paced", msgspec.json.encode(order).decode(), bench.home
        )
        try:
            await paced.mark("done", START_LIMIT_S + shape.events / RATE * 3)
        finally:
            await paced.stop()
        scores = list(_scores_of(shape))
        deadline_s = time.monotonic() + _DRAIN_S
        while len(seen) < len(scores) and time.monotonic() < deadline_s:
            await asyncio.sleep(0.05)
    sent_at_s = msgspec.json.decode(times.read_bytes(), type=list[float])
    times.unlink()
    counted_from_s = sent_at_s[0] + warm_s
    lost = [key for key in scores if key not in seen]
    if lost:
        raise RuntimeError(f"{contestant.name}: {len(lost)} scores came to nothing")
    return [
        seen[key] - at_s
        for key, at_s in zip(scores, sent_at_s, strict=True)
        if at_s >= counted_from_s
    ]


def _scores_of(shape: Shape) -> Iterator[str]:
    """``runId#taskId`` of each score, in the order they are published."""
    for event in events_of(shape):
        if event.kind == "eval_scored":
            yield _name_score(event.data)


def _name_score(data: bytes) -> str:
    score = _key_of_score.decode(data)
    return f"{score.run_id}#{score.payload.task_id}"


@asynccontextmanager
async def _watching(job: Job) -> AsyncIterator[dict[str, float]]:
    """When the first record of each key was read, seconds since the epoch."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap, enable_auto_commit=False
    )
    seen: dict[str, float] = {}

    async def read() -> None:
        while True:
            fetched = await consumer.getmany(timeout_ms=1000)
            now_s = time.time()
            for records in fetched.values():
                for record in records:
                    name = record.key.decode()
                    if "#" not in name:
                        name = _name_score(record.value)
                    seen.setdefault(name, now_s)

    async with consumer:
        tps = [TopicPartition(job.task_summary, n) for n in range(job.partitions)]
        consumer.assign(tps)
        await consumer.seek_to_beginning(*tps)
        reading = asyncio.create_task(read())
        try:
            yield seen
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
