"""Two and three workers against one."""

import asyncio
from contextlib import AsyncExitStack, nullcontext
from statistics import median

import msgspec

from deploy.kafka.broker import KafkaCluster
from tests.benchmarks.bench import PATHGATE, START_LIMIT_S, Bench, Loaded, Turn
from tests.benchmarks.loading import create_topics
from tests.benchmarks.outputs import await_outputs
from tests.benchmarks.process import ContestantError, start
from tests.benchmarks.quota import Quota, open_quota
from tests.benchmarks.report import Cell, Goal, Table, load_average
from tests.benchmarks.workload import Shape

NAME = "workers"
SHAPE = Shape(name="shared", runs=20_000)
# Three workers, and two, have as many partitions each.
PARTITIONS = 6
_COUNTS = (1, 2, 3)
# All members are there when the group is first balanced.
_BALANCE_DELAY_MS = 8_000

_HOW = (
    "{events:,} events on {partitions} partitions; one, two and three workers of one"
    " group, {rounds} rounds in turns, on a broker of their own that waits for all"
    " members before it shares the partitions out. The clock starts with the first"
    " event that any of them holds and stops with the last record due. CPU: of all"
    " workers together. Everything, the broker too, runs on {cores} cores. {bound}"
)
_BOUND = (
    "Each worker is bound to {share} of a processor, as by an orchestrator's limit, so"
    " that they do not fight for the machine."
)
_UNBOUND = (
    "No control group could be made, so the workers fight for them: where the clock"
    " cannot show it, the CPU column shows what sharing costs."
)
# Three of them leave the broker more than half of a small machine.
_SHARE = 0.3


async def measure(bench: Bench) -> Table:
    """Runs groups of workers on a cluster of their own."""
    before = load_average()
    cluster = KafkaCluster(
        config={"group.initial.rebalance.delay.ms": str(_BALANCE_DELAY_MS)}
    )
    await asyncio.to_thread(cluster.start)
    try:
        own = bench.on(cluster.bootstrap)
        loaded = await own.load(SHAPE.sized(bench.events), partitions=PARTITIONS)
        counts = _COUNTS[:2] if bench.is_short else _COUNTS
        turns: dict[int, list[Turn]] = {count: [] for count in counts}
        # Bound, a worker starts slowly; the short form has no figures to protect.
        with nullcontext() if bench.is_short else open_quota(_SHARE) as quota:
            for _ in range(bench.rounds):
                for count in counts:
                    turns[count].append(await _turn(own, loaded, count, quota))
    finally:
        await asyncio.to_thread(cluster.stop)
    bound = _UNBOUND if quota is None else _BOUND.format(share=_SHARE)
    return _table(bench, loaded, turns, (before, bound))


async def _turn(bench: Bench, loaded: Loaded, count: int, quota: Quota | None) -> Turn:
    job = bench.turn_job(PATHGATE, loaded)
    await create_topics(job)
    jobs = [
        msgspec.structs.replace(job, home=f"{job.home}/w{number}")
        for number in range(count)
    ]
    async with AsyncExitStack() as stack:
        processes = []
        for one in jobs:
            process = await start(PATHGATE.module, one, bench.own_python)
            stack.push_async_callback(process.stop)
            if quota is not None:
                quota.bind(process.pid)
            processes.append(process)
        firsts = await asyncio.gather(
            *(process.mark("first", START_LIMIT_S) for process in processes)
        )
        done = await await_outputs(
            job, loaded.expected, processes, 120 + loaded.shape.events / 400
        )
        begun_s = min(first.at_s for first in firsts)
        if max(first.at_s for first in firsts) > done.at_s:
            raise ContestantError("a worker had nothing to do")
        turn = Turn(
            wall_s=done.at_s - begun_s,
            cpu_s=max(0.01, done.cpu_s - sum(first.cpu_s for first in firsts)),
            events=loaded.shape.events,
            records=done.records,
            wrong=done.wrong,
            peak_rss_bytes=max(process.peak_rss_bytes() for process in processes),
        )
    bench.turns.append((f"{count} workers", turn))
    bench.say(f"  {count} workers: {turn.rate:,.0f} events/s, {turn.wrong} wrong")
    return turn


def _table(
    bench: Bench,
    loaded: Loaded,
    turns: dict[int, list[Turn]],
    circumstances: tuple[float, str],
) -> Table:
    before, bound = circumstances
    rows: list[tuple[Cell, ...]] = []
    goals = []
    for count, found in turns.items():
        pairs = list(zip(found, turns[1], strict=True))
        by_clock = median([a.rate / b.rate for a, b in pairs])
        by_cpu = median([a.rate_per_cpu / b.rate_per_cpu for a, b in pairs])
        rows.append(
            (
                f"{count} worker" + "s" * (count > 1),
                median([turn.rate for turn in found]),
                median([turn.rate_per_cpu for turn in found]),
                by_clock,
                by_cpu,
                max(turn.wrong for turn in found),
            )
        )
        if count > 1:
            goals.append(
                Goal(
                    name=f"events/s, {count} workers against one",
                    value=by_clock,
                    bound=">=",
                    goal={2: 1.7, 3: 2.4}[count],
                )
            )
    return Table(
        name=NAME,
        title="Several workers",
        how=_HOW.format(
            events=loaded.shape.events,
            partitions=PARTITIONS,
            rounds=bench.rounds,
            cores=bench.cores,
            bound=bound,
        ),
        columns=(
            "",
            "events/s",
            "events/CPU s",
            "times one, by clock",
            "times one, by CPU",
            "wrong",
        ),
        rows=tuple(rows),
        goals=tuple(goals),
        load=(before, load_average()),
    )
