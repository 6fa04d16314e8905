"""The short form of the benchmark: its code runs, and everybody does the job.

No figure is looked at. Peers that are not installed are skipped.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from deploy.kafka.broker import (
    JarsUnavailable,
    JavaMissing,
    KafkaCluster,
    find_java,
    jars,
)
from tests.benchmarks.__main__ import MEASURES, SHORT_EVENTS, measure_all
from tests.benchmarks.bench import Bench, Contestant
from tests.benchmarks.report import Report, Table, machine, own_versions, write
from tests.benchmarks.throughput import CONTESTANTS
from tests.tiers import skip_or_fail

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def _broker_tier() -> None:
    """Skips, or on CI fails, where no broker can be run."""
    try:
        find_java()
        jars()
    except (JavaMissing, JarsUnavailable) as missing:
        skip_or_fail(str(missing))


@pytest.fixture(scope="module")
def short(
    _broker_tier: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Bench, list[Table]]]:
    """The benchmark after its short form, and its tables."""
    home = tmp_path_factory.mktemp("bench")
    with KafkaCluster() as cluster:
        bench = Bench(
            cluster.bootstrap,
            home,
            is_short=True,
            events=SHORT_EVENTS,
            rounds=1,
            peers_python=os.environ.get("PATHGATE_BENCH_PYTHON", sys.executable),
        )
        yield bench, asyncio.run(measure_all(bench, list(MEASURES)))


@pytest.mark.parametrize("contestant", CONTESTANTS, ids=lambda one: one.name)
def test_contestant_publishes_what_the_file_grader_gives(
    short: tuple[Bench, list[Table]], contestant: Contestant
) -> None:
    """A turn ends only when every run's records are there; all are right."""
    bench, _ = short
    if contestant.needs and not bench.is_installed(contestant.needs):
        pytest.skip(f"{contestant.needs} is not installed")
    turns = [turn for name, turn in bench.turns if name == contestant.name]
    assert turns
    assert [0] * len(turns) == [turn.wrong for turn in turns]


def test_every_turn_of_every_measure_agrees_with_the_file_grader(
    short: tuple[Bench, list[Table]],
) -> None:
    """Also with other shapes, ordinary runs in between, and several workers."""
    bench, _ = short
    assert {} == {name: turn.wrong for name, turn in bench.turns if turn.wrong}


def test_every_measure_gives_a_table_that_can_be_written(
    short: tuple[Bench, list[Table]], tmp_path: Path
) -> None:
    """Each has rows as wide as its headings; the report holds all of them."""
    _, tables = short
    assert list(MEASURES) == [table.name for table in tables]
    for table in tables:
        assert {len(table.columns)} == {len(row) for row in table.rows}
    report = Report(
        machine=machine(), versions=own_versions(), options={}, tables=tables
    )
    write(report, tmp_path)
    text = (tmp_path / "benchmark.md").read_text(encoding="utf-8")
    assert [] == [table.title for table in tables if f"## {table.title}" not in text]
