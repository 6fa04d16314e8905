"""Memory of a worker: for each open trial, and in the long run."""

from collections.abc import Iterator

import msgspec

from tests.benchmarks.bench import PATHGATE, START_LIMIT_S, Bench
from tests.benchmarks.loading import (
    Ends,
    Loader,
    await_commits,
    free_port,
    log_ends,
    open_publisher,
)
from tests.benchmarks.report import Cell, Goal, Table, load_average
from tests.benchmarks.workload import Event, Shape, events_of, write_suites

NAME = "memory"
OPEN = Shape(name="open", runs=120_000, tasks=1, window=500)
FINISHED = Shape(name="finished", runs=1_000_000, tasks=1, calls=2, window=500)

# Runs after which memory is looked at; the first is what the rest is held to.
_OPEN_STEPS = (20_000, 120_000)
_FINISHED_STEPS = (50_000, 100_000, 250_000, 500_000, 750_000, 1_000_000)
_SHORT = 100
_BLOCK_RUNS = 10_000

_HOW = (
    "Resident memory of one worker on three partitions, read whenever it has committed"
    " everything that was published. Open trials: runs of one task that were started"
    " and made {calls} calls, and wait for their score; all held decoded"
    " (cache_runs={open:,}), and with the default of 20,000, where the others are on"
    " disk. Bytes a trial: growth from the first line to the last, RocksDB's and the"
    " allocator's growth included. Finished runs: one task of two calls, graded and"
    " kept for late events; published as fast as the worker reads, at most"
    " {block:,} runs ahead."
)


async def measure(bench: Bench) -> Table:
    """Measures both."""
    before = load_average()
    scale = _SHORT if bench.is_short else 1
    steps = [step // scale for step in _OPEN_STEPS]
    most = str(2 * steps[-1])
    held = await _grow(bench, OPEN, steps, is_open=True, cache_runs=most)
    rows = [_row("open, all held", step, rss) for step, rss in held]
    each = (held[-1][1] - held[0][1]) / (held[-1][0] - held[0][0])
    goals = [
        Goal(
            name="memory of an open trial, all held decoded",
            value=each,
            bound="<=",
            goal=2048.0,
            unit="bytes",
        )
    ]
    if not bench.is_short:
        cached = await _grow(bench, OPEN, steps, is_open=True)
        rows += [_row("open, default cache", step, rss) for step, rss in cached]
        goals.append(
            Goal(
                name="memory of an open trial, default cache",
                value=(cached[-1][1] - cached[0][1]) / (cached[-1][0] - cached[0][0]),
                bound="<=",
                goal=2048.0,
                unit="bytes",
            )
        )
    steps = [step // scale // 5 if bench.is_short else step for step in _FINISHED_STEPS]
    long = await _grow(bench, FINISHED, steps, is_open=False)
    rows += [_row("finished", step, rss) for step, rss in long]
    goals.append(
        Goal(
            name=f"memory after {long[-1][0]:,} runs against after {long[0][0]:,}",
            value=long[-1][1] / long[0][1],
            bound="<=",
            goal=1.05,
        )
    )
    return Table(
        name=NAME,
        title="Memory",
        how=_HOW.format(calls=OPEN.calls, open=2 * OPEN.runs, block=2 * _BLOCK_RUNS),
        columns=("", "runs", "RSS [MiB]"),
        rows=tuple(rows),
        goals=tuple(goals),
        load=(before, load_average()),
    )


def _row(name: str, runs: int, rss_bytes: int) -> tuple[Cell, ...]:
    return (name, runs, rss_bytes / 2**20)


async def _grow(
    bench: Bench, shape: Shape, steps: list[int], *, is_open: bool, **settings: str
) -> list[tuple[int, int]]:
    """Resident bytes after each of these numbers of runs."""
    write_suites(bench.home / "suites", shape)
    port = free_port()
    job = bench.job(
        f"memory-{shape.name}", settings={"web_port": str(port), **settings}
    )
    found = []
    async with bench.running(PATHGATE, job) as process:
        await process.ready(port, START_LIMIT_S)
        async with open_publisher(job.bootstrap) as publisher:
            loader = Loader(job, publisher)
            done, before = 0, Ends()
            for step in steps:
                while done < step:
                    count = min(_BLOCK_RUNS, step - done)
                    part = msgspec.structs.replace(shape, first=done, runs=count)
                    await loader.load(_open_part(part) if is_open else events_of(part))
                    done += count
                    # One block is read while the next is written.
                    await await_commits(job, before, START_LIMIT_S)
                    before = await log_ends(job)
                    process.check()
                await await_commits(job, before, START_LIMIT_S)
                found.append((step, process.rss_bytes()))
                bench.say(f"  {job.group}: {step:,} runs, {found[-1][1] >> 20} MiB")
    return found


def _open_part(shape: Shape) -> Iterator[Event]:
    """The same runs as far as their first trial's calls."""
    return (
        event
        for event in events_of(shape)
        if event.kind in {"eval_started", "tool_called"}
    )
