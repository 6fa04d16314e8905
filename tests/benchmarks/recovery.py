"""Restart of a worker with many rows of state, against a bare read of them."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rocksdict

from schemas.codec import decode_event
from streams.agents.entry import Entry
from streams.core.context import Context
from streams.core.rows import Published
from streams.core.run import RunState
from streams.publish import Outgoing
from streams.tables import RUN_PREFIX, run_key
from streams.topics import partition_for
from tests.benchmarks.bench import DRAIN, PATHGATE, START_LIMIT_S, Bench
from tests.benchmarks.contestant_pathgate import settings_of
from tests.benchmarks.job import Job
from tests.benchmarks.loading import create_topics, free_port, open_publisher
from tests.benchmarks.outputs import context_of
from tests.benchmarks.process import Process, start
from tests.benchmarks.report import Goal, Table, load_average
from tests.benchmarks.workload import Shape, eval_run_id, events_of, write_suites

NAME = "recovery"
SHAPE = Shape(name="rows", runs=1)
ROWS = 1_000_000
SHORT_ROWS = 3_000

_BATCH_ROWS = 5_000
_DIGITS = b"evt-%010d-"

_HOW = (
    "A changelog of {rows:,} rows on three partitions, {row_bytes} bytes each: graded"
    " runs of {tasks} tasks with {calls} calls each, as the worker stores them. All"
    " clocks start when the process is started, so that all include the interpreter"
    " and the imports. The bare read (aiokafka, no group, nothing kept) stops with the"
    " last record; the worker's when /readyz says that it reads events. Cold: an empty"
    " state directory. Warm: that directory again, after a stop in good order. Rows:"
    " found in the worker's stores after it stopped."
)


async def measure(bench: Bench) -> Table:
    """Fills a changelog, reads it barely, then has workers recover it."""
    before = load_average()
    count = SHORT_ROWS if bench.is_short else ROWS
    write_suites(bench.home / "suites", SHAPE)
    port = free_port()
    job = bench.job("recovery", settings={"web_port": str(port)})
    await create_topics(job)
    row_bytes = await _fill(job, count)
    bench.say(f"  {count:,} rows of {row_bytes} bytes in the changelog")
    bare_s, read_s = await _bare(bench, job, count)
    cold = await _restart(job, port)
    held = stored_rows(Path(job.home))
    warm = await _restart(job, port)
    rows = (
        ("bare read", bare_s, count, None),
        ("bare read, from its first record", read_s, count, None),
        ("cold start", cold[0], held, cold[1]),
        ("warm start", warm[0], stored_rows(Path(job.home)), warm[1]),
    )
    return Table(
        name=NAME,
        title="Recovery",
        how=_HOW.format(
            rows=count, row_bytes=row_bytes, tasks=SHAPE.tasks, calls=SHAPE.calls
        ),
        columns=("", "time [s]", "rows", "peak RSS [MiB]"),
        rows=rows,
        goals=(
            Goal(
                name="cold start against the bare read",
                value=cold[0] / bare_s,
                bound="<=",
                goal=2.0,
            ),
            Goal(name="warm start", value=warm[0], bound="<=", goal=10.0, unit="s"),
        ),
        load=(before, load_average()),
    )


async def _bare(bench: Bench, job: Job, count: int) -> tuple[float, float]:
    """Seconds of a bare read: from the start of the process, and of reading."""
    read = bench.job(
        "bare-read",
        sources={"changelog": f"{job.group}-runs-changelog"},
        events=count,
    )
    began_s = time.time()
    process = await start(DRAIN.module, read, bench.own_python)
    try:
        first = await process.mark("first", START_LIMIT_S)
        done = await process.mark("done", START_LIMIT_S)
    finally:
        await process.stop()
    return done.at_s - began_s, done.at_s - first.at_s


async def _restart(job: Job, port: int) -> tuple[float, int]:
    """Seconds from the start of a worker to its readiness; its peak RSS in MiB."""
    began_s = time.time()
    process: Process = await start(PATHGATE.module, job, sys.executable)
    try:
        ready_s = await process.ready(port, 10 * START_LIMIT_S)
        return ready_s - began_s, round(process.peak_rss_bytes() / 2**20)
    finally:
        await process.stop()


async def _fill(job: Job, count: int) -> int:
    """Writes the changelog; mean bytes of a row, key included."""
    context = context_of(Path(job.suites_dir))
    settings = settings_of(job)
    topic = f"{job.group}-runs-changelog"
    batch: list[Outgoing] = []
    size = 0
    async with open_publisher(job.bootstrap) as publisher:
        for number, row in enumerate(_rows(context, count)):
            key = run_key(run_id := eval_run_id(number))
            home = partition_for(run_id.encode(), job.partitions, settings.partitioner)
            size += len(key) + len(row)
            batch.append(Outgoing(topic, home, key, row))
            if len(batch) == _BATCH_ROWS:
                await publisher.send(batch)
                batch = []
        await publisher.send(batch)
    return size // count


def _rows(context: Context, count: int) -> Iterator[bytes]:
    """Rows of graded runs: one that the core made, with other ids in it."""
    state = RunState(eval_run_id(0), hold=True)
    entry = Entry(state)
    for event in events_of(SHAPE):
        envelope, payload = decode_event(event.data)
        if payload is not None:
            state.apply(envelope, payload, context)
    state.unsealed = ()
    entry.closed = entry.graded = True
    tasks = [f"task-{number}" for number in range(SHAPE.tasks)]
    entry.published = {
        key: Published(1, b"\x5a" * 8, passed=True) for key in ("", *tasks)
    }
    row = entry.rows(time.time())[run_key(state.run_id)] or b""
    for number in range(count):
        yield row.replace(_DIGITS % 0, _DIGITS % number)


def stored_rows(home: Path) -> int:
    """Rows in the stores below a directory; nobody has them open."""
    count = 0
    for current in home.rglob("CURRENT"):
        options = rocksdict.Options(raw_mode=True)
        store = rocksdict.Rdict(
            str(current.parent), options, access_type=rocksdict.AccessType.read_only()
        )
        keys: Iterator[Any] = store.keys()
        count += sum(key.startswith(RUN_PREFIX) for key in keys)
        store.close()
    return count
