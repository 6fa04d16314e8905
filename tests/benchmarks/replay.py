"""The file grader against the loop that only decodes."""

import asyncio
import shutil
from pathlib import Path
from statistics import median

from tests.benchmarks.bench import START_LIMIT_S, Bench
from tests.benchmarks.process import start
from tests.benchmarks.report import Goal, Table, load_average
from tests.benchmarks.workload import Shape, events_of, write_suites

NAME = "replay"
SHAPE = Shape(name="replay", runs=10_000)

_HOW = (
    "{events:,} events in a plain NDJSON file, one process, {rounds} rounds in turns."
    " Bare loop: the same reading of lines, envelope and payload decoded to the same"
    " types by msgspec, nothing else. Replay: FileGrader from the first line to the"
    " last record, task records included. CPU: user and system time."
)


async def measure(bench: Bench) -> Table:
    """Runs both loops in one process."""
    before = load_average()
    shape = SHAPE.sized(bench.events)
    suites = write_suites(bench.home / "suites", shape)
    job = bench.job(
        "replay",
        events=shape.events,
        suites_dir=str(suites),
        settings={"rounds": str(bench.rounds)},
    )
    await asyncio.to_thread(_write_log, Path(job.home), shape)
    process = await start("contestant_replay", job, bench.own_python)
    spent: dict[str, list[tuple[float, float]]] = {"bare": [], "replay": []}
    limit_s = START_LIMIT_S + shape.events / 1000
    try:
        order = [f"{k}-{n}" for n in range(bench.rounds) for k in spent]
        begun = await process.mark(order[0], limit_s)
        for name, next_name in zip(order, [*order[1:], "end"], strict=True):
            ended = await process.mark(next_name, limit_s)
            spent[name.partition("-")[0]].append(
                (ended.at_s - begun.at_s, ended.cpu_s - begun.cpu_s)
            )
            begun = ended
    finally:
        await process.stop()
        shutil.rmtree(job.home, ignore_errors=True)
    rows = tuple(
        (
            name,
            shape.events / median([wall_s for wall_s, _ in found]),
            shape.events / median([cpu_s for _, cpu_s in found]),
        )
        for name, found in spent.items()
    )
    bare, replay = spent["bare"], spent["replay"]
    ratios = [b[1] / r[1] for b, r in zip(bare, replay, strict=True)]
    bench.say(f"  {NAME}: {rows}")
    return Table(
        name=NAME,
        title="Replay",
        how=_HOW.format(events=shape.events, rounds=bench.rounds),
        columns=("", "events/s", "events/CPU s"),
        rows=rows,
        goals=(
            Goal(
                name="replay against the bare decode loop, by CPU",
                value=median(ratios),
                bound=">=",
                goal=0.5,
            ),
        ),
        load=(before, load_average()),
    )


def _write_log(home: Path, shape: Shape) -> None:
    home.mkdir(parents=True, exist_ok=True)
    with (home / "log.ndjson").open("wb") as file:
        file.writelines(event.data + b"\n" for event in events_of(shape))
