"""The worker end to end against peers that do the same job, and a bare reader."""

from statistics import median

from tests.benchmarks.bench import DRAIN, PATHGATE, Bench, Contestant, Loaded, Turn
from tests.benchmarks.report import Goal, Table, load_average
from tests.benchmarks.workload import Shape

NAME = "throughput"
SHAPE = Shape(name="pure", runs=20_000)

# Of the full workload's events, for contestants that would take all day.
_SLOW_SHARE = 0.15

CONTESTANTS = (
    PATHGATE,
    Contestant(
        name="bytewax, recovery store", module="contestant_bytewax", needs="bytewax"
    ),
    Contestant(
        name="bytewax", module="contestant_bytewax", needs="bytewax", is_durable=False
    ),
    Contestant(
        name="quix streams, changelog",
        module="contestant_quix",
        needs="quixstreams",
        is_slow=True,
    ),
    Contestant(
        name="quix streams",
        module="contestant_quix",
        needs="quixstreams",
        is_durable=False,
        is_slow=True,
    ),
    Contestant(name="plain faust", module="contestant_faust", is_slow=True),
    DRAIN,
)

_GOALS = {
    "bytewax, recovery store": 1.2,
    "bytewax": 0.9,
    "quix streams, changelog": 4.0,
    "plain faust": 20.0,
    "bare drain": 0.4,
}

_HOW = (
    "{events:,} events ({runs:,} runs of {tasks} tasks with {calls} calls each), in"
    " five topics of three partitions before anybody starts; one process each, one"
    " after the other, {rounds} rounds; Quix Streams and Faust get {slow:,} of them."
    " The clock starts when the first event reaches the contestant's own code, and"
    " stops when the last record that is due is in the broker's log (its own"
    " timestamp; acknowledged then, since there is one replica). The drain's stops"
    " with the last event read. CPU: user and system time of the process in between,"
    " all threads. All peers run with the worker's settings of Python's collector."
    " Rates are medians of the rounds, with lowest and highest in"
    " brackets; ratios are medians of the ratios within rounds. Wrong: keys whose"
    " newest record is not byte for byte what the file grader gives."
)


async def measure(bench: Bench) -> Table:
    """Runs every contestant that is installed, in turns."""
    before = load_average()
    full, small = await _load(bench)
    present = [one for one in CONTESTANTS if _takes_part(bench, one)]
    turns: dict[str, list[Turn]] = {one.name: [] for one in present}
    for number in range(bench.rounds):
        bench.say(f"{NAME}: round {number + 1} of {bench.rounds}")
        for contestant in present:
            loaded = small if contestant.is_slow else full
            turns[contestant.name].append(await bench.turn(contestant, loaded))
    return _table(bench, turns, full, small, (before, load_average()))


async def _load(bench: Bench) -> tuple[Loaded, Loaded]:
    full = await bench.load(SHAPE.sized(bench.events))
    if bench.is_short:
        return full, full
    return full, await bench.load(SHAPE.sized(int(bench.events * _SLOW_SHARE)))


def _takes_part(bench: Bench, contestant: Contestant) -> bool:
    if not contestant.needs or bench.is_installed(contestant.needs):
        return True
    bench.say(f"{NAME}: {contestant.needs} is not installed: {contestant.name} is out")
    return False


def _table(
    bench: Bench,
    turns: dict[str, list[Turn]],
    full: Loaded,
    small: Loaded,
    load: tuple[float, float],
) -> Table:
    ours = turns[PATHGATE.name]
    rows = []
    for name, theirs in turns.items():
        rates = [turn.rate for turn in theirs]
        rows.append(
            (
                name,
                f"{median(rates):,.0f} ({min(rates):,.0f}-{max(rates):,.0f})",
                median([turn.rate_per_cpu for turn in theirs]),
                _ratio(ours, theirs, per_cpu=False),
                _ratio(ours, theirs, per_cpu=True),
                round(max(turn.peak_rss_bytes for turn in theirs) / 2**20),
                theirs[-1].records,
                max(turn.wrong for turn in theirs),
            )
        )
    goals = [
        Goal(
            name=f"{kind}, pathgate against {name}",
            value=_ratio(ours, turns[name], per_cpu=kind != "events/s")
            if name in turns
            else None,
            bound=">=",
            goal=goal,
        )
        for name, goal in _GOALS.items()
        for kind in ("events/s", "events a CPU second")
    ]
    return Table(
        name=NAME,
        title="Throughput, end to end",
        how=_HOW.format(
            events=full.shape.events,
            runs=full.shape.runs,
            tasks=full.shape.tasks,
            calls=full.shape.calls,
            rounds=bench.rounds,
            slow=small.shape.events,
        ),
        columns=(
            "contestant",
            "events/s",
            "events/CPU s",
            "pathgate is x times, by clock",
            "by CPU",
            "peak RSS [MiB]",
            "records",
            "wrong",
        ),
        rows=tuple(rows),
        goals=tuple(goals),
        load=load,
    )


def _ratio(ours: list[Turn], theirs: list[Turn], *, per_cpu: bool) -> float:
    return median(
        a.rate_per_cpu / b.rate_per_cpu if per_cpu else a.rate / b.rate
        for a, b in zip(ours, theirs, strict=True)
    )
