"""Whether an event costs more in long trials and in large suites."""

from statistics import median

from tests.benchmarks.bench import PATHGATE, Bench, Turn
from tests.benchmarks.report import Cell, Goal, Table, load_average
from tests.benchmarks.workload import Shape

NAME = "growth"
SHAPES = (
    Shape(name="growth-10", runs=5_000, calls=10),
    Shape(name="growth-1000", runs=50, calls=1_000, window=10),
    Shape(name="growth-10000", runs=6, calls=10_000, window=3),
    Shape(name="growth-200x8", runs=16, tasks=200, trials=8, calls=10, window=8),
)
_SHORT_SHAPES = (
    Shape(name="growth-10", runs=20, calls=10),
    Shape(name="growth-200x8", runs=1, tasks=200, trials=8, calls=2),
)

_HOW = (
    "The worker on about {events:,} events each, {rounds} rounds in turns; clocks as in"
    " the throughput table. The first line, small trials of a small suite, is what the"
    " others are held to."
)


async def measure(bench: Bench) -> Table:
    """Runs the worker on each shape."""
    before = load_average()
    shapes = list(_SHORT_SHAPES)
    if not bench.is_short:
        shapes = [shape.sized(bench.events // 2) for shape in SHAPES]
    loads = [await bench.load(shape) for shape in shapes]
    turns: list[list[Turn]] = [[] for _ in shapes]
    for _ in range(bench.rounds):
        for loaded, found in zip(loads, turns, strict=True):
            found.append(await bench.turn(PATHGATE, loaded))
    costs = [median([1e6 / turn.rate_per_cpu for turn in found]) for found in turns]
    waits = [median([1e6 / turn.rate for turn in found]) for found in turns]
    rows: list[tuple[Cell, ...]] = []
    goals = []
    for shape, cost, wait, found in zip(shapes, costs, waits, turns, strict=True):
        rows.append(
            (
                f"{shape.tasks} x {shape.trials}, {shape.calls:,} calls a trial",
                shape.events,
                cost,
                wait,
                cost / costs[0],
                wait / waits[0],
                max(turn.wrong for turn in found),
            )
        )
        if shape is not shapes[0]:
            goals.append(
                Goal(
                    name=f"CPU of an event, {rows[-1][0]}, against {rows[0][0]}",
                    value=cost / costs[0],
                    bound="<=",
                    goal=1.3,
                )
            )
    return Table(
        name=NAME,
        title="Growth",
        how=_HOW.format(events=shapes[0].events, rounds=bench.rounds),
        columns=(
            "suite and trials",
            "events",
            "CPU [us/event]",
            "clock [us/event]",
            "CPU, times the first",
            "clock, times the first",
            "wrong",
        ),
        rows=tuple(rows),
        goals=tuple(goals),
        load=(before, load_average()),
    )
