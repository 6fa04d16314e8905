"""What the hub counts of the chunks that it is handed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from faust.types import TP
from prometheus_client import CollectorRegistry

from streams.agents import hub as hub_module
from streams.agents.committer import Committer
from streams.agents.hub import Hub
from streams.agents.services import Services
from streams.agents.shard import Counts, Shard, Unknown
from streams.clock import SystemClock
from streams.ingest import BatchConsumer, Chunk
from streams.kafka import Record
from streams.metrics import Build, KnownLabels, Metrics
from streams.settings import Settings
from streams.topics import names_from

SCORED, CALLED = TP("eval.scored", 0), TP("agent.tool-called", 0)
WAIT_S = 5.0


@dataclass
class Read:
    """One record, of which only its place matters."""

    offset: int
    timestamp: int = 0


class Reader:
    """A consumer whose log ends are where it stands.

    Attributes:
        behind: Topics of which more than a chunk is left.
    """

    def __init__(self) -> None:
        self.behind: set[str] = set()

    def is_current(self, _chunk: Chunk) -> bool:
        return True

    def left(self, tp: TP, _next_offset: int | None) -> int:
        return 1_000_000 if tp.topic in self.behind else 0

    def reached(self, _tp: TP, next_offset: int | None) -> int | None:
        return next_offset

    async def end_offsets(self, tps: set[TP]) -> dict[TP, int]:
        return dict.fromkeys(tps, 0)


class Runs:
    """A shard that knows no run."""

    partition = 0
    unknown_count = 0
    read_up_to_s = 0.0

    def __init__(self) -> None:
        self.unknown = Unknown()
        self.unsealed: list[Any] = []

    def read(self, _topic: str, records: Sequence[Record]) -> Counts:
        return Counts(events=len(records))

    def take_unsealed(self) -> list[Any]:
        return []


class Writer:
    """A committer that has nothing to write."""

    async def publish(self, _is_far_behind: Any) -> None:
        return None

    async def store(self) -> None:
        return None

    def acknowledge(self, _chunk: Any) -> None:
        return None

    def wake(self) -> None:
        return None

    def end_grace(self) -> None:
        return None


def hub_with(registry: CollectorRegistry, reader: Reader | None = None) -> Hub:
    """A hub on a consumer, a shard and a committer that do nothing."""
    settings = Settings.load({"bootstrap_servers": "nobody:1"}, {})
    names = names_from(settings)
    labels = KnownLabels(topics=names.sources, tables=("runs",), suites={})
    services = SimpleNamespace(
        settings=settings,
        names=names,
        metrics=Metrics(registry, labels, Build(version="0", revision="0")),
        clock=SystemClock(),
    )
    consumer = cast(BatchConsumer, reader or Reader())

    def stop(error: BaseException) -> None:
        raise error

    return Hub(
        cast(Services, services),
        lambda: consumer,
        lambda _partition: (cast(Shard, Runs()), cast(Committer, Writer())),
        stop,
    )


async def read(
    hub: Hub, *chunks: Sequence[int], tp: TP = SCORED, timestamp: int = 0
) -> None:
    """Has the hub read chunks of these offsets, all of one time."""

    class Stream:
        def noack(self) -> "Stream":
            return self

        async def events(self) -> AsyncIterator[Any]:
            for offsets in chunks:
                held = [Read(offset, timestamp) for offset in offsets]
                records = cast(Sequence[Record], held)
                chunk = Chunk(tp, records, offsets[0], offsets[-1] + 1)
                yield SimpleNamespace(value=chunk)

    await hub.read(Stream())


def test_records_read_again_after_a_rebalance_are_counted() -> None:
    """What lies below the furthest that this worker has read, by the record."""

    async def scenario() -> list[float | None]:
        registry = CollectorRegistry()
        hub = hub_with(registry)
        seen = []
        # Offsets 3, 6 and 9 were never there.
        for chunks in ([[0, 1, 2], [4, 5]], [[2, 4, 5], [7, 8]], [[5, 7, 8, 10]]):
            await hub.assign([0])
            await read(hub, *chunks)
            await hub.revoke()
            name = "pathgate_events_redelivered_total"
            seen.append(registry.get_sample_value(name))
        return seen

    # None; then 2, 4 and 5; then 5, 7 and 8 as well.
    assert asyncio.run(scenario()) == [0, 3, 6]


def test_what_waited_over_a_rebalance_is_not_read_for_the_next_assignment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its offsets would count as looked at, and trials be sealed without them."""
    monkeypatch.setattr(hub_module, "_MAX_STEP_S", 0.05)

    async def scenario(*, rebalances: bool) -> tuple[int, int | None]:
        reader = Reader()
        reader.behind = {"agent.tool-called", SCORED.topic}
        hub = hub_with(CollectorRegistry(), reader)
        await hub.assign([0])
        reading = asyncio.create_task(read(hub, [7, 8]))
        # The scores wait for the calls, which never come.
        await asyncio.sleep(0.01)
        assert not reading.done()
        if rebalances:
            await hub.revoke()
            await hub.assign([0])
        await reading
        # The time of the last record that was looked at, None for none.
        seen = hub.processed_count, hub.lag_of(SCORED.topic)[1]
        await hub.revoke()
        return seen

    assert asyncio.run(scenario(rebalances=False)) == (2, 0)
    assert asyncio.run(scenario(rebalances=True)) == (0, None)


def test_topics_that_wait_for_one_another_wake_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scores wait for calls that are behind, until those are found to be ahead."""
    monkeypatch.setattr(hub_module, "_MAX_STEP_S", 3600.0)

    async def scenario() -> int:
        reader = Reader()
        reader.behind = {CALLED.topic}
        hub = hub_with(CollectorRegistry(), reader)
        await hub.assign([0])
        async with asyncio.timeout(WAIT_S):
            # The second comes between the look of the first and its waiting.
            await asyncio.gather(
                read(hub, [7], tp=SCORED, timestamp=10),
                read(hub, [3], tp=CALLED, timestamp=20),
            )
        await hub.revoke()
        return hub.processed_count

    assert asyncio.run(scenario()) == 2
