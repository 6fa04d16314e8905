"""The benchmark: one command, every measure, one table.

::

    python -m tests.benchmarks --out /tmp/bench             # everything, an hour
    python -m tests.benchmarks --short --out /tmp/bench     # tries the code, no figures
    python -m tests.benchmarks --only throughput,latency --events 200000 --out DIR

It starts brokers of its own (Java 17 and Maven, see ``deploy/kafka/broker.py``) and
runs every contestant as a process of its own. The peers are needed by nothing else,
and what is not installed is left out. They install beside the project::

    pip install . -r tests/benchmarks/requirements.txt

or into an environment of their own, which ``--peers-python`` names (and which needs
the project's dependencies, since the peers grade with its core). Bytewax 0.21.1 and
Quix Streams 3.28.1 are the newest releases there are, and run on Python 3.11.

Ratios within one run are what counts. Where other work shares the machine, the
figures by CPU time are the steadier ones; the load average stands under each table.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from deploy.kafka.broker import KafkaCluster, kafka_version
from tests.benchmarks import (
    growth,
    latency,
    memory,
    mix,
    recovery,
    replay,
    throughput,
    workers,
)
from tests.benchmarks.bench import Bench
from tests.benchmarks.report import Cell, Report, Table, machine, own_versions, write

MEASURES: dict[str, Callable[[Bench], Awaitable[Table]]] = {
    module.NAME: module.measure
    for module in (
        throughput,
        latency,
        recovery,
        memory,
        mix,
        growth,
        replay,
        workers,
    )
}
SHORT_EVENTS = 1_400
SHORT_AT_ONCE = 4


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="directory of benchmark.md and .json"
    )
    parser.add_argument(
        "--short", action="store_true", help="smallest sizes: tries the code only"
    )
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=list(MEASURES),
        help=f"some of: {','.join(MEASURES)}",
    )
    parser.add_argument(
        "--events", type=int, default=560_000, help="events of a full workload"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="turns of each contestant"
    )
    parser.add_argument(
        "--peers-python",
        default=os.environ.get("PATHGATE_BENCH_PYTHON", sys.executable),
        help="interpreter that has the peers (PATHGATE_BENCH_PYTHON)",
    )
    options = parser.parse_args(argv)
    unknown = set(options.only) - MEASURES.keys()
    if unknown:
        parser.error(f"--only: {sorted(unknown)} are none of {list(MEASURES)}")
    return options


def _versions(options: argparse.Namespace) -> dict[str, str]:
    found = {"kafka": kafka_version(), **own_versions()}
    if options.peers_python != sys.executable:
        code = (
            "import json; from tests.benchmarks.report import own_versions;"
            " print(json.dumps(own_versions()))"
        )
        said = subprocess.run(
            [options.peers_python, "-c", code],
            check=False,
            capture_output=True,
            cwd=Path(__file__).parents[2],
        )
        if said.returncode == 0:
            theirs: dict[str, str] = msgspec.json.decode(said.stdout)
            found = theirs | found
    return found


def _report(
    options: argparse.Namespace,
    bench: Bench,
    facts: tuple[dict[str, Cell], dict[str, str]],
    tables: Sequence[Table],
) -> Report:
    return Report(
        machine=facts[0],
        versions=facts[1],
        options={
            "short": str(options.short).lower(),
            "events": bench.events,
            "rounds": bench.rounds,
        },
        tables=tables,
    )


async def measure_all(
    bench: Bench,
    names: Sequence[str],
    note: Callable[[Sequence[Table]], None] = lambda _: None,
) -> list[Table]:
    """Runs measures.

    Args:
        bench: What they are given. In the short form, where no figure counts,
            they run side by side.
        names: Which, in the order of the tables.
        note: Told the tables there are whenever there is one more.
    """
    tables: dict[str, Table] = {}
    side_by_side = asyncio.Semaphore(SHORT_AT_ONCE if bench.is_short else 1)

    async def one(name: str) -> None:
        async with side_by_side:
            bench.say(f"{name}:")
            tables[name] = await MEASURES[name](bench)
            note([tables[name] for name in names if name in tables])

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))
    return [tables[name] for name in names]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for."""
    options = _options(argv)
    # On the disk that --out is on: /tmp may be memory.
    options.out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=options.out, prefix=".work-") as home,
        KafkaCluster(data_dir=Path(home) / "kafka", heap_mb=1024) as cluster,
    ):
        bench = Bench(
            cluster.bootstrap,
            Path(home).resolve(),
            is_short=options.short,
            events=SHORT_EVENTS if options.short else options.events,
            rounds=1 if options.short else options.rounds,
            peers_python=options.peers_python,
        )
        facts = machine(), _versions(options)

        def note(tables: Sequence[Table]) -> None:
            # After each, so that an hour's work outlives a failure.
            write(_report(options, bench, facts, tables), options.out)

        asyncio.run(measure_all(bench, options.only, note))
    sys.stdout.write(f"{options.out / 'benchmark.md'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
