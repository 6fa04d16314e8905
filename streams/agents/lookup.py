"""What a partition needs to look up in the topics, now and then.

Each look-up reads a bounded stretch with a consumer of its own, outside the
worker's group.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Self

import msgspec
import structlog
from faust.types import TP

from schemas.codec import decode_event, runs_of_rejected
from schemas.errors import DecodeError
from streams.agents.entry import Entry
from streams.agents.shard import Shard
from streams.clock import Clock
from streams.core.context import Context
from streams.core.evidence import Fact
from streams.core.run import RunState
from streams.kafka import Record, open_reader
from streams.settings import Settings
from streams.tables import Span, run_of_key
from streams.topics import TopicNames, partition_for

logger = structlog.get_logger()

_CACHED_BASELINES = 1_000


class _Aggregate(msgspec.Struct, rename="camel"):
    aggregate_score: float


class _Summary(msgspec.Struct, rename="camel"):
    summary: _Aggregate


_summary_decoder = msgspec.json.Decoder(_Summary)


class Baselines:
    """Looks ``aggregateScore`` of published runs up.

    Args:
        settings: How to reach the brokers.
        names: Topic names in effect.
    """

    def __init__(self, settings: Settings, names: TopicNames) -> None:
        self._settings = settings
        self._topic = names.suite_summary
        self._known: OrderedDict[str, float] = OrderedDict()

    async def aggregate_of(self, run_id: str) -> float | None:
        """The figure of the newest published record, or None if there is none."""
        if run_id in self._known:
            return self._known[run_id]
        settings = self._settings
        key = run_id.encode()
        partition = partition_for(key, settings.partitions, settings.partitioner)
        found: float | None = None
        async with open_reader(settings) as reader:
            spans = await reader.span([(self._topic, partition)])
            async for _, records in reader.read(spans):
                for record in records:
                    if record.key == key:
                        found = _aggregate(record.value)
        if found is not None:
            self._known[run_id] = found
            if len(self._known) > _CACHED_BASELINES:
                self._known.popitem(last=False)
        return found


def _aggregate(value: bytes | None) -> float | None:
    if value is None:
        return None
    try:
        return _summary_decoder.decode(value).summary.aggregate_score
    except msgspec.DecodeError:
        return None


async def runs_written(settings: Settings, span: Span) -> set[str]:
    """The runs that a stretch of the changelog holds rows of.

    Raises:
        BrokerUnavailableError: No broker answers.
    """
    found = set()
    async with open_reader(settings) as reader:
        place = (span.topic, span.partition)
        async for _, records in reader.read({place: (span.first, span.end)}):
            found |= {run_of_key(record.key) for record in records if record.key}
    return found


class Rebuilder:
    """Rebuilds runs of a partition from the event topics.

    Args:
        settings: How to reach the brokers.
        names: Topic names in effect.
        context: Policy, digester, suites.
    """

    def __init__(self, settings: Settings, names: TopicNames, context: Context) -> None:
        self._settings = settings
        self._sources = names.sources
        self._context = context

    async def rebuild(self, shard: Shard, run_ids: set[str]) -> None:
        """Reads the events of runs again and puts their state in place.

        Args:
            shard: The runs' partition.
            run_ids: The runs.

        What the topics no longer hold stays as it was. Where a run's start is
        not found, or a topic's beginning was deleted, nothing that is known is
        given up: a forbidden call would be forgiven when its topic forgets it.
        """
        fresh = {
            run_id: RunState(run_id, hold=shard.options.hold) for run_id in run_ids
        }
        async with open_reader(self._settings) as reader:
            places = [(topic, shard.partition) for topic in self._sources]
            spans = await reader.span(places)
            is_cut = any(start > 0 for start, _ in spans.values())
            known = {
                run_id: _Known.of(entry.state, is_cut=is_cut)
                for run_id in run_ids
                if (entry := shard.find(run_id)) is not None
            }
            async for _, records in reader.read(spans):
                for record in records:
                    self._fold(fresh, record)
                await asyncio.sleep(0)
        rebuilt = 0
        for run_id, state in fresh.items():
            before = known.get(run_id, _Known())
            if state.started is None:
                # The topics may no longer hold all of the run.
                before = _Known(before.facts, adds=True)
            if state.facts:
                self._replace(shard, run_id, state, before)
                rebuilt += 1
        logger.info(
            "runs_rebuilt",
            partition=shard.partition,
            runs=rebuilt,
            left_alone=len(run_ids) - rebuilt,
        )

    def _fold(self, fresh: Mapping[str, RunState], record: Record) -> None:
        value = record.value or b""
        try:
            envelope, payload = decode_event(value)
        except DecodeError:
            for run_id in runs_of_rejected(value, record.key):
                if run_id in fresh:
                    fresh[run_id].unreadable = True
            return
        state = fresh.get(envelope.run_id)
        if state is not None and payload is not None:
            state.apply(envelope, payload, self._context)

    def _replace(
        self, shard: Shard, run_id: str, state: RunState, before: "_Known"
    ) -> None:
        self._know_suite(state)
        entry = shard.find(run_id) or Entry(state)
        old, entry.state = entry.state, state
        if old is not state:
            # What the worker read meanwhile may lie beyond what was read here.
            state.merge(before.missing(old, state), self._context)
            state.conflict |= old.conflict and not before.conflict
            state.overflow |= old.overflow and not before.overflow
            state.latest_at = max(filter(None, (state.latest_at, old.latest_at)))
        state.misrouted = old.misrouted
        # The calls that were dropped had been read, so they stood in the topics.
        state.calls_dropped = False
        state.unreadable |= old.unreadable
        state.idle = old.idle
        state.rewritten = True
        state.unsealed -= old.facts.keys() - old.unsealed
        entry.waiting.clear()
        for published in entry.published.values():
            # What was published may not be what we think: write it again.
            published.digest = b""
        shard.runs[run_id] = entry
        shard.touch(entry)

    def _know_suite(self, state: RunState) -> None:
        """Takes a suite in that became known while the topics were read."""
        if state.started is not None and state.suite is None:
            suite = self._context.suites.get(state.started.suite_key)
            if suite is not None:
                state.know_suite(suite)


class _Known(msgspec.Struct):
    """What was known of a run when its rebuild began.

    Args:
        facts: Its facts.
        adds: Whether the topics add to what is known, and do not replace it:
            calls had been dropped, or the topics' beginning was deleted.
        conflict: As in ``RunState``; False where the topics add.
        overflow: Likewise.
    """

    facts: dict[int, Fact] = {}
    adds: bool = False
    conflict: bool = False
    overflow: bool = False

    @classmethod
    def of(cls, state: RunState, *, is_cut: bool) -> Self:
        """What is known of a run now.

        Args:
            state: Of the run.
            is_cut: Whether the beginning of a source topic was deleted.
        """
        adds = state.calls_dropped or is_cut
        return cls(
            dict(state.facts),
            adds=adds,
            conflict=state.conflict and not adds,
            overflow=state.overflow and not adds,
        )

    def missing(self, old: RunState, fresh: RunState) -> list[Fact]:
        """Facts of ``old`` that belong into ``fresh``."""
        return [
            fact
            for sequence, fact in old.facts.items()
            if self.facts.get(sequence) != fact
            or (self.adds and sequence not in fresh.facts)
        ]


class LateStarts:
    """Remembers over restarts which runs' calls were dropped as ordinary.

    After a partition is assigned, the calls of the last window that lie before
    the committed offset are read: those of runs without state were dropped.

    Args:
        settings: How to reach the brokers; the window.
        names: Topic names in effect.
        clock: Seconds since the epoch.
        resumed_at: Gives the offset a partition's reading began at, or None as
            long as that is unknown.
    """

    def __init__(
        self,
        settings: Settings,
        names: TopicNames,
        clock: Clock,
        resumed_at: Callable[[TP], int | None],
    ) -> None:
        self._settings = settings
        self._topic = names.tool_called
        self._clock = clock
        self._resumed_at = resumed_at
        self._task: asyncio.Task[None] | None = None

    def assign(
        self, shards: Mapping[int, Shard], fail: Callable[[BaseException], None]
    ) -> None:
        """Begins to fill the shards' memory of dropped runs."""
        if not shards:
            return

        async def fill() -> None:
            try:
                await self._fill(shards)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001  # names it and stops the worker
                fail(error)

        self._task = asyncio.create_task(fill())

    def revoke(self) -> None:
        """Stops filling."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _fill(self, shards: Mapping[int, Shard]) -> None:
        window_s = self._settings.late_start_window_s
        at_ms = int((self._clock.now_s() - window_s) * 1000)
        resumed = await self._resumed(shards)
        places = list(resumed)
        async with open_reader(self._settings) as reader:
            firsts = await reader.since(places, at_ms)
            spans = {
                place: (first, resumed[place])
                for place, first in firsts.items()
                if first is not None
            }
            async for (_, partition), records in reader.read(spans):
                shard = shards[partition]
                for run_id in _run_ids(records):
                    shard.remember_dropped(run_id)
                await asyncio.sleep(0)
        for shard in shards.values():
            shard.remembers_all()

    async def _resumed(self, shards: Mapping[int, Shard]) -> dict[tuple[str, int], int]:
        resumed: dict[tuple[str, int], int] = {}
        while len(resumed) < len(shards):
            for partition in shards:
                offset = self._resumed_at(TP(self._topic, partition))
                if offset is not None:
                    resumed[self._topic, partition] = offset
            await asyncio.sleep(_RECHECK_S)
        return resumed


_RECHECK_S = 0.1


def _run_ids(records: Iterable[Record]) -> set[str]:
    found = set()
    for record in records:
        value = record.value or b""
        try:
            envelope, _ = decode_event(value)
            found.add(envelope.run_id)
        except DecodeError:
            found.update(runs_of_rejected(value, record.key))
    return found
