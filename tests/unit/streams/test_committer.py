"""What is written when: records, then state, then offsets; flush by flush."""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from streams.agents import committer
from streams.agents.committer import Committer
from streams.agents.records import Recorder
from streams.agents.services import Services
from streams.agents.shard import Options, Shard
from streams.agents.sweep import Sweeper
from streams.clock import SystemClock
from streams.core.context import Context
from streams.kafka import Record
from streams.metrics import Build, KnownLabels, Metrics
from streams.publish import Outgoing, Publisher, PublishError
from streams.settings import Settings, policy_from
from streams.suites import compile_suites, digester_from, load_directory
from streams.tables import PartitionRows, Span, run_key
from streams.topics import names_from
from tests.benchmarks.workload import Shape, eval_run_id, events_of, write_suites

SHAPE = Shape(name="unit", runs=2, tasks=1, calls=2, window=1)
WAIT_S = 5.0


class Broker:
    """Takes what one producer sends, and acknowledges it when it is told to."""

    def __init__(self) -> None:
        self.sent: list[list[Outgoing]] = []
        self.may_acknowledge = asyncio.Event()
        self.may_acknowledge.set()
        self.refuses = False

    async def hand_over(self, records: Iterable[Outgoing]) -> "Broker":
        self.sent.append(list(records))
        return self

    async def acknowledged(self) -> dict[tuple[str, int], int]:
        if self.batches:
            await self.may_acknowledge.wait()
            if self.refuses:
                raise PublishError("refused")
        return {}

    async def send(self, records: Iterable[Outgoing]) -> dict[tuple[str, int], int]:
        return await (await self.hand_over(records)).acknowledged()

    @property
    def batches(self) -> list[list[Outgoing]]:
        return [batch for batch in self.sent if batch]


class Rows:
    """A partition's rows in a dictionary."""

    def __init__(self) -> None:
        self.held: dict[bytes, bytes | None] = {}
        self.foreign: Span | None = None

    def get(self, key: bytes) -> bytes | None:
        return self.held.get(key)

    def scan(self, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        rows = ((k, v) for k, v in sorted(self.held.items()) if v and k >= start)
        return list(islice(rows, limit))

    def put(self, rows: Mapping[bytes, bytes | None]) -> None:
        self.held.update(rows)

    async def log(
        self, rows: Mapping[bytes, bytes | None], publisher: Publisher
    ) -> Span | None:
        rows_of = (Outgoing("log", 0, key, value) for key, value in rows.items())
        await (await publisher.hand_over(rows_of)).acknowledged()
        return self.foreign


class Event:
    """One record of the log, and the chunk that holds nothing else."""

    offset = 0
    timestamp = 0
    timestamp_type = 0
    key = None
    headers = ()

    def __init__(self, value: bytes) -> None:
        self.value = value
        self.acknowledged = False

    def ack(self) -> bool:
        self.acknowledged = True
        return True


class Bench:
    """A committer on brokers and rows of its own.

    Args:
        suites_dir: Of the suites.
        cache_runs: Runs kept decoded.
        hold: Whether scores wait to be sealed.
        knows_dropped: Whether it is known which runs lack calls.

    Attributes:
        outputs: Where records go.
        changelog: Where state goes.
        is_far_behind: What the committer is told.
    """

    def __init__(
        self,
        suites_dir: Path,
        cache_runs: int = 100,
        *,
        hold: bool = False,
        knows_dropped: bool = True,
    ) -> None:
        settings = Settings.load({"bootstrap_servers": "nobody:1"}, {})
        names = names_from(settings)
        policy, digester = policy_from(settings), digester_from(settings)
        suites = compile_suites(load_directory(suites_dir), digester)
        self.outputs, self.changelog, self.rows = Broker(), Broker(), Rows()
        self.is_far_behind = False
        self.shard = Shard(
            0,
            cast(PartitionRows, self.rows),
            Context(policy=policy, digester=digester, suites=suites),
            Options(
                hold=hold,
                belongs=lambda _run_id, _partition: True,
                host_verdict_grace_s=0.0,
                cache_runs=cache_runs,
            ),
        )
        if knows_dropped:
            self.shard.remembers_all()

        async def no_baseline(_run_id: str) -> None:
            return None

        async def no_rebuild(_shard: Shard, _run_ids: set[str]) -> None:
            return None

        labels = KnownLabels(topics=names.sources, tables=("runs",), suites={})
        self.registry = CollectorRegistry()
        self.committer = Committer(
            self.shard,
            Services(
                settings=settings,
                names=names,
                metrics=Metrics(
                    self.registry, labels, Build(version="0", revision="0")
                ),
                clock=SystemClock(),
                recorder=Recorder(names, policy, settings.severity_of, "/unit"),
                publisher=cast(Publisher, self.outputs),
                changelog=cast(Publisher, self.changelog),
                baseline=no_baseline,
                rebuild=no_rebuild,
            ),
        )
        self.sweeper = Sweeper(self.shard, self.committer, settings, SystemClock())
        self.tasks: list[asyncio.Task[None]] = []

    def read(self, run: list[bytes]) -> list[Event]:
        """Has the shard read a run, each event a chunk of its own."""
        chunks = [Event(data) for data in run]
        self.shard.read("events", cast("list[Record]", chunks))
        for chunk in chunks:
            self.committer.acknowledge(chunk)
        return chunks

    @asynccontextmanager
    async def running(self) -> Any:
        """Both loops of the committer at work."""
        loops: tuple[Coroutine[Any, Any, None], ...] = (
            self.committer.publish(lambda: self.is_far_behind),
            self.committer.store(),
        )
        self.tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            yield
        finally:
            for task in self.tasks:
                task.cancel()
                with suppress(asyncio.CancelledError, PublishError):
                    await task


@pytest.fixture
def runs() -> list[list[bytes]]:
    """The events of two runs, each with a verdict of its own."""
    by_run: dict[str, list[bytes]] = {}
    for event in events_of(SHAPE):
        by_run.setdefault(event.run_id, []).append(event.data)
    return list(by_run.values())


@pytest.fixture
def suites_dir(tmp_path: Path) -> Path:
    """The suite of those runs."""
    return write_suites(tmp_path, SHAPE)


async def _until(what: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        while not what():
            await asyncio.sleep(0)


def test_records_of_a_flush_do_not_wait_for_the_state_of_the_last(
    suites_dir: Path, runs: list[list[bytes]]
) -> None:
    async def scenario() -> None:
        bench = Bench(suites_dir)
        bench.changelog.may_acknowledge.clear()
        async with bench.running():
            first = bench.read(runs[0])
            await _until(lambda: len(bench.changelog.batches) == 1)
            second = bench.read(runs[1])
            # Task and suite record of the second, while the first's state hangs.
            await _until(lambda: len(bench.outputs.batches) == 2)
            assert not any(chunk.acknowledged for chunk in first + second)
            bench.changelog.may_acknowledge.set()
            await bench.committer.drained()
            assert all(chunk.acknowledged for chunk in first + second)
        # The rows of the first run, then those of the second.
        keys = [[row.key for row in batch] for batch in bench.changelog.batches]
        assert keys == [[run_key(eval_run_id(0))], [run_key(eval_run_id(1))]]

    asyncio.run(scenario())


def test_nothing_is_stored_or_acknowledged_before_its_records_are(
    suites_dir: Path, runs: list[list[bytes]]
) -> None:
    async def scenario() -> None:
        bench = Bench(suites_dir)
        bench.outputs.may_acknowledge.clear()
        async with bench.running():
            chunks = bench.read(runs[0])
            await _until(lambda: bench.outputs.batches)
            for _ in range(20):
                await asyncio.sleep(0)
            assert not bench.rows.held
            assert not bench.changelog.sent
            assert not any(chunk.acknowledged for chunk in chunks)
            bench.outputs.may_acknowledge.set()
            await bench.committer.drained()
            assert list(bench.rows.held) == [run_key(eval_run_id(0))]
            assert all(chunk.acknowledged for chunk in chunks)

    asyncio.run(scenario())


def test_rows_wait_for_their_time_and_their_chunks_with_them(
    suites_dir: Path, runs: list[list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        bench = Bench(suites_dir)
        async with bench.running():
            bench.read(runs[0][:1])
            await bench.committer.drained()
            assert len(bench.changelog.batches) == 1
            monkeypatch.setattr(committer, "_WRITE_S", 3600.0)
            bench.read(runs[0][1:2])
            await _until(lambda: len(bench.changelog.batches) == 2)
            chunks = bench.read(runs[0][2:])
            # Task and suite record: they do not wait.
            await _until(lambda: bench.outputs.batches)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(bench.changelog.batches) == 2
            assert not any(chunk.acknowledged for chunk in chunks)
            bench.committer._write_at_s = 0.0
            bench.committer.wake()
            await bench.committer.drained()
            assert len(bench.changelog.batches) == 3
            assert all(chunk.acknowledged for chunk in chunks)

    asyncio.run(scenario())


def test_what_waits_to_be_written_is_written_without_a_further_event(
    suites_dir: Path, runs: list[list[bytes]]
) -> None:
    async def scenario() -> None:
        bench = Bench(suites_dir)
        async with bench.running():
            for data in runs[0]:
                bench.read([data])
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            last = bench.read(runs[1])
            await asyncio.wait_for(bench.committer.drained(), WAIT_S)
            assert all(chunk.acknowledged for chunk in last)

    asyncio.run(scenario())


def test_a_run_is_held_until_its_rows_can_be_read_back(
    suites_dir: Path, runs: list[list[bytes]]
) -> None:
    async def scenario() -> None:
        bench = Bench(suites_dir, cache_runs=0)
        bench.outputs.may_acknowledge.clear()
        bench.changelog.may_acknowledge.clear()
        async with bench.running():
            bench.read(runs[0])
            await _until(lambda: len(bench.outputs.batches) == 1)
            bench.read(runs[1])
            await _until(lambda: len(bench.outputs.batches) == 2)
            bench.outputs.may_acknowledge.set()
            await _until(lambda: bench.changelog.batches)
            # The first is stored and let go of; the second waits for its turn.
            assert list(bench.shard.runs) == [eval_run_id(1)]
            bench.changelog.may_acknowledge.set()
            await bench.committer.drained()
            assert not bench.shard.runs

    asyncio.run(scenario())


def test_a_run_that_comes_back_to_life_is_not_removed(
    suites_dir: Path, runs: list[list[bytes]]
) -> None:
    async def scenario() -> None:
        bench = Bench(suites_dir, cache_runs=0)
        key = run_key(eval_run_id(0))
        async with bench.running():
            bench.read(runs[0][:-1])
            await bench.committer.drained()
            bench.outputs.may_acknowledge.clear()
            bench.read(runs[1])
            await _until(lambda: len(bench.outputs.batches) == 2)
            bench.committer.remove(eval_run_id(0), {key: None})
            bench.committer.wake()
            # The removal waits for the other run; the ending comes meanwhile.
            await _until(lambda: len(bench.outputs.sent) == 3)
            bench.read(runs[0][-1:])
            bench.outputs.may_acknowledge.set()
            await bench.committer.drained()
        # Nor for a moment: its blocks would be gone.
        written = [row for batch in bench.changelog.batches for row in batch]
        assert [row.key for row in written].count(key) == 2
        assert all(row.value is not None for row in written)

    asyncio.run(scenario())


def test_a_run_is_not_swept_by_a_row_that_is_out_of_date(
    suites_dir: Path, runs: list[list[bytes]]
) -> None:
    async def scenario() -> None:
        bench = Bench(suites_dir)
        async with bench.running():
            # Score and verdict are still to come.
            bench.read(runs[0][:3])
            await bench.committer.drained()
            bench.outputs.may_acknowledge.clear()
            bench.read(runs[0][3:4])
            await _until(lambda: bench.outputs.batches)
            (entry,) = bench.shard.runs.values()
            # By its row the run is silent for days; its score came just now.
            bench.shard.read_up_to_s = time.time() + 7 * 86_400
            bench.sweeper.sweep()
            assert not entry.state.idle
            bench.outputs.may_acknowledge.set()
            await bench.committer.drained()
            bench.sweeper.sweep()
            assert entry.state.idle

    asyncio.run(scenario())


@pytest.mark.parametrize("refusing", ["outputs", "changelog"])
def test_what_is_refused_ends_the_loop_and_acknowledges_nothing(
    suites_dir: Path, runs: list[list[bytes]], refusing: str
) -> None:
    async def scenario() -> None:
        bench = Bench(suites_dir)
        getattr(bench, refusing).refuses = True
        async with bench.running():
            chunks = bench.read(runs[0])
            with pytest.raises(PublishError):
                await asyncio.wait_for(bench.tasks[1], WAIT_S)
            assert not any(chunk.acknowledged for chunk in chunks)

    asyncio.run(scenario())


def test_in_a_backlog_chunks_are_gathered_and_a_run_is_stored_once(
    suites_dir: Path, runs: list[list[bytes]]
) -> None:
    async def scenario(*, is_far_behind: bool) -> int:
        bench = Bench(suites_dir)
        bench.is_far_behind = is_far_behind
        async with bench.running():
            for data in runs[0]:
                bench.read([data])
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            bench.is_far_behind = False
            await bench.committer.drained()
        return sum(map(len, bench.changelog.batches))

    assert asyncio.run(scenario(is_far_behind=True)) == 1
    assert asyncio.run(scenario(is_far_behind=False)) > 1


def test_a_backlog_waits_until_it_is_known_which_runs_lack_calls(
    suites_dir: Path, runs: list[list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing could be graded before, and each run would be stored twice.

    Not for ever: what is read has to be written, to be committed.
    """
    monkeypatch.setattr(committer, "_GATHER_S", 0.0)

    async def scenario(*, learns: bool) -> list[int]:
        bench = Bench(suites_dir, knows_dropped=False)
        bench.is_far_behind = True
        async with bench.running():
            bench.read(runs[0])
            await asyncio.sleep(3 * committer._GATHER_STEP_S)
            written = [len(bench.changelog.batches)]
            if learns:
                bench.shard.remembers_all()
                bench.committer.wake()
            await asyncio.wait_for(bench.committer.drained(), WAIT_S)
            return [*written, len(bench.changelog.batches), len(bench.outputs.batches)]

    # Nothing at first; then a row, with the run's records.
    assert asyncio.run(scenario(learns=True)) == [0, 1, 1]
    monkeypatch.setattr(committer, "_GATHER_AT_START_S", 0.2)
    # Or a row alone.
    assert asyncio.run(scenario(learns=False)) == [0, 1, 0]


@pytest.mark.parametrize(
    ("refuses", "counted"),
    [(False, {"asked": 1, "failed": 0}), (True, {"asked": 0, "failed": 1})],
    ids=["taken", "refused"],
)
def test_a_changelog_written_by_another_is_counted(
    suites_dir: Path,
    runs: list[list[bytes]],
    refuses: bool,  # noqa: FBT001  # a parameter of the test
    counted: dict[str, int],
) -> None:
    """By whether its runs are to be rebuilt; what was read is committed anyway."""

    async def scenario() -> dict[str, float | None]:
        bench = Bench(suites_dir)
        bench.changelog.may_acknowledge.clear()
        # Longer than what is read back: the rows of the flush alone are rebuilt.
        bench.rows.foreign = Span("log", 0, 0, 1_000_000)
        async with bench.running():
            chunks = bench.read(runs[0])
            await _until(lambda: bench.changelog.batches)
            bench.outputs.refuses = refuses
            bench.changelog.may_acknowledge.set()
            await bench.committer.drained()
            # The records of the run, then the control note that has it rebuilt.
            await _until(lambda: len(bench.outputs.batches) == 2)
            await asyncio.sleep(0)
        assert all(chunk.acknowledged for chunk in chunks)
        name = "pathgate_changelog_conflicts_total"
        return {
            repair: bench.registry.get_sample_value(name, {"repair": repair})
            for repair in counted
        }

    assert asyncio.run(scenario()) == counted


def test_trials_are_counted_once_and_endings_are_none(
    suites_dir: Path, runs: list[list[bytes]]
) -> None:
    """One trial, eval.completed and run.completed; sealed by the call, not the cut."""

    async def scenario() -> None:
        bench = Bench(suites_dir, hold=True)
        started, call, *rest = runs[0]

        def value(name: str) -> float | None:
            return bench.registry.get_sample_value(name)

        async with bench.running():
            bench.read([started, *rest])
            await bench.committer.drained()
            waiting = bench.shard.take_unsealed()
            assert len(waiting) == 3
            assert value("pathgate_trials_sealed_total") == 0
            bench.read([call])
            await bench.committer.drained()
            assert value("pathgate_trials_sealed_total") == 1
            bench.committer.seal(waiting)
            await bench.committer.drained()
            assert value("pathgate_trials_sealed_total") == 1
            assert value("pathgate_sealing_wait_seconds_count") == 0
            # With a call missing, the cut seals the trial and the endings.
            bench.read([runs[1][0], *runs[1][2:]])
            await bench.committer.drained()
            waiting = bench.shard.take_unsealed()
            assert len(waiting) == 3
            bench.committer.seal(waiting)
            assert value("pathgate_trials_sealed_total") == 2
            assert value("pathgate_sealing_wait_seconds_count") == 1

    asyncio.run(scenario())
