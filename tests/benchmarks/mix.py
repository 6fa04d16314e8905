"""The mix of production: most calls are of runs that are no evals."""

from statistics import median

import msgspec

from tests.benchmarks.bench import PATHGATE, Bench, Turn
from tests.benchmarks.report import Goal, Table, load_average
from tests.benchmarks.workload import Shape

NAME = "mix"
PURE = Shape(name="mix-pure", runs=20_000)
# 19 ordinary runs to one eval run, with as many calls: 95% of the calls.
MIXED = msgspec.structs.replace(PURE, name="mix-95", ordinary=19, window=10)

_HOW = (
    "The worker on {events:,} events of eval runs, and on as many of which 95% of the"
    " calls are of ordinary runs (with their run.completed), {rounds} rounds in turns."
    " Clocks as in the throughput table; the last verdict comes with the last events."
)


async def measure(bench: Bench) -> Table:
    """Runs the worker on both."""
    before = load_average()
    loads = [await bench.load(shape.sized(bench.events)) for shape in (PURE, MIXED)]
    turns: list[list[Turn]] = [[], []]
    for _ in range(bench.rounds):
        for loaded, found in zip(loads, turns, strict=True):
            found.append(await bench.turn(PATHGATE, loaded))
    pure, mixed = turns
    rows = tuple(
        (
            name,
            median([turn.rate for turn in found]),
            median([turn.rate_per_cpu for turn in found]),
            found[-1].records,
            max(turn.wrong for turn in found),
        )
        for name, found in (("eval runs only", pure), ("95% ordinary calls", mixed))
    )
    pairs = list(zip(mixed, pure, strict=True))
    return Table(
        name=NAME,
        title="The mix of production",
        how=_HOW.format(events=loads[0].shape.events, rounds=bench.rounds),
        columns=("", "events/s", "events/CPU s", "records", "wrong"),
        rows=rows,
        goals=(
            Goal(
                name="events/s, the mix against eval runs only",
                value=median([a.rate / b.rate for a, b in pairs]),
                bound=">=",
                goal=1.0,
            ),
            Goal(
                name="events a CPU second, the mix against eval runs only",
                value=median([a.rate_per_cpu / b.rate_per_cpu for a, b in pairs]),
                bound=">=",
                goal=1.0,
            ),
        ),
        load=(before, load_average()),
    )
