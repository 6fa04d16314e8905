"""The worker's partitions: who is assigned, what is read, when it is written."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, cast

import structlog
from faust.types import TP, EventT

from schemas.errors import DecodeError
from streams.agents.committer import Committer
from streams.agents.control import ControlKind, decode_control
from streams.agents.services import Services
from streams.agents.shard import Counts, Shard, Unknown, Unsealed
from streams.agents.sweep import Sweeper
from streams.barrier import Barrier
from streams.core.compiled import CompiledSuite
from streams.ingest import BatchConsumer, Chunk
from streams.metrics import TooLate

logger = structlog.get_logger()


class Taken(NamedTuple):
    """How far a source partition was read.

    Args:
        next_offset: Where the last chunk that was read ends.
        timestamp_ms: Of its last record.
    """

    next_offset: int
    timestamp_ms: int


class Seals(NamedTuple):
    """What waits for a cut of all source topics.

    Args:
        asked_at_s: When the log ends were asked for, seconds since the epoch.
        unsealed: Scores and endings.
    """

    asked_at_s: float
    unsealed: list[Unsealed]


class Assigned:
    """One assigned partition, with all that works on it."""

    def __init__(
        self,
        shard: Shard,
        committer: Committer,
        reached: Callable[[TP], int | None],
        sweeper: Sweeper,
    ) -> None:
        self.shard = shard
        self.committer = committer
        self.seals: Barrier[Seals] = Barrier(reached)
        self.starts: Barrier[Unknown] = Barrier(reached)
        self.sweeper = sweeper
        self.tasks: list[asyncio.Task[None]] = []
        self.has_ticked = True

    @property
    def wants_cut(self) -> bool:
        """Whether scores wait for a cut, or time does and none is under way."""
        return bool(self.shard.unsealed) or (self.has_ticked and not self.seals.depth)

    def take_seals(self) -> list[Unsealed]:
        """What waits for the next cut of all source topics."""
        self.has_ticked = False
        return self.shard.take_unsealed()

    @property
    def waits(self) -> bool:
        """Whether anything waits for the barrier."""
        shard = self.shard
        return bool(
            shard.unsealed or shard.unknown or self.seals.depth or self.starts.depth
        )


class Hub:
    """Hands chunks to shards, takes cuts, and runs a committer a partition.

    Args:
        services: Settings, names, metrics, clock.
        consumer: Gives the worker's consumer, once it runs.
        build: Makes the shard and committer of a partition.
        fail: Called with what no retry mends; stops the worker.
    """

    def __init__(
        self,
        services: Services,
        consumer: Callable[[], BatchConsumer],
        build: Callable[[int], tuple[Shard, Committer]],
        fail: Callable[[BaseException], None],
    ) -> None:
        names = services.names
        self._settings = services.settings
        self._sources = names.sources
        self._control = names.control
        self._start_topic = names.eval_started
        self._metrics = services.metrics
        self._clock = services.clock
        self._consumer = consumer
        self._build = build
        self._fail = fail
        self._assigned: dict[int, Assigned] = {}
        self._changed = asyncio.Condition()
        self._taken: dict[TP, Taken] = {}
        # Outlives an assignment, else nothing would be known to be read again.
        self._furthest: dict[TP, int] = {}
        self._held: dict[str, int] = {}
        self._stepped = asyncio.Event()
        self._cut_wanted = asyncio.Event()
        self._barrier_task: asyncio.Task[None] | None = None
        self.draining = False
        self.processed_count = 0

    @property
    def assigned(self) -> dict[int, Assigned]:
        """Partition -> what works on it."""
        return self._assigned

    def lag_of(self, topic: str) -> tuple[int, int | None]:
        """How far behind the reading of a topic is.

        Returns:
            Records not looked at, as far as fetches told, and the time of the
            last one that was, in milliseconds since the epoch; None if nothing
            is left or nothing was read yet.
        """
        records, oldest_ms = 0, None
        for partition in self._assigned:
            tp = TP(topic, partition)
            taken = self._taken.get(tp)
            left = self._left(tp)
            records += left
            if left and taken is not None:
                oldest_ms = min(oldest_ms or taken.timestamp_ms, taken.timestamp_ms)
        return records, oldest_ms

    def oldest_unsealed_s(self) -> float | None:
        """When the score that waits longest for its seal was read; None if none."""
        waiting = [
            unsealed[0].seen_at_s
            for one in self._assigned.values()
            for _, unsealed in (*one.seals.waiting, (0.0, one.shard.unsealed))
            if unsealed
        ]
        return min(waiting, default=None)

    # -- assignment

    async def assign(self, partitions: Iterable[int]) -> None:
        """Begins with these partitions, whose tables are recovered."""
        for partition in partitions:
            shard, committer = self._build(partition)
            sweeper = Sweeper(shard, committer, self._settings, self._clock)
            one = Assigned(shard, committer, self._reached, sweeper)
            one.tasks = [
                self._watch(committer.publish(partial(self._is_far_behind, partition))),
                self._watch(committer.store()),
                self._watch(self._tick(one)),
            ]
            self._assigned[partition] = one
        if self._barrier_task is None:
            self._barrier_task = self._watch(self._cut())
        async with self._changed:
            self._changed.notify_all()

    async def revoke(self) -> None:
        """Gives all partitions up: what is not acknowledged is read again."""
        assigned, self._assigned = self._assigned, {}
        self._taken.clear()
        tasks = [task for one in assigned.values() for task in one.tasks]
        if self._barrier_task is not None:
            tasks.append(self._barrier_task)
            self._barrier_task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def drain(self) -> None:
        """Waits until everything that was read is written."""
        self.draining = True
        await asyncio.gather(
            *(one.committer.drained() for one in self._assigned.values())
        )
        if self._barrier_task is not None:
            self._barrier_task.cancel()

    def learn_suite(self, suite: CompiledSuite) -> None:
        """Has runs graded anew that waited for this suite."""
        for one in self._assigned.values():
            one.sweeper.learn_suite(suite)

    @property
    def _hold(self) -> bool:
        return len(self._sources) > 1

    # -- reading

    async def read(self, stream: Any) -> None:
        """The agent of a source topic: folds each chunk in.

        Args:
            stream: Of ``noack().events()``, whose values are chunks.
        """
        async for event in stream.noack().events():
            await self._read_chunk(event)

    async def _read_chunk(self, event: EventT[Any]) -> None:
        chunk = cast(Chunk, event.value)
        one = await self._shard_of(chunk)
        if one is None:
            return
        tp = chunk.tp
        if tp.topic == self._control:
            self._read_control(one, chunk)
            waits = False
        else:
            if self._hold and tp.topic != self._start_topic:
                await self._keep_step(chunk)
                if self._assigned.get(tp.partition) is not one:
                    # Given up meanwhile, or assigned anew: it is read once more.
                    return
            counts = one.shard.read(tp.topic, chunk.records)
            waits = counts.unknown > 0
            self._count(tp.topic, counts)
            self._count_reread(chunk)
            self._taken[tp] = Taken(chunk.next_offset, chunk.records[-1].timestamp)
            self.processed_count += len(chunk)
        # The chunk waits to be acknowledged; its records need not.
        chunk.records = ()
        if waits:
            one.shard.unknown.chunks.append(event)
        else:
            one.committer.acknowledge(event)
        one.committer.wake()
        self._note_step()
        self._pass_cuts(one)
        self._cut_wanted.set()
        await self._make_room(one)

    async def _shard_of(self, chunk: Chunk) -> Assigned | None:
        """The chunk's partition; None if the chunk is not ours any more."""
        consumer = self._consumer()
        async with self._changed:
            while consumer.is_current(chunk):
                one = self._assigned.get(chunk.tp.partition)
                if one is not None and not self.draining:
                    return one
                try:
                    await asyncio.wait_for(self._changed.wait(), _RECHECK_S)
                except TimeoutError:
                    continue
        return None

    async def _keep_step(self, chunk: Chunk) -> None:
        """Lets topics that are behind in time catch up first, for a while.

        Reading topics at their own pace, a backlog's scores would be held in
        memory long before their calls are reached. Only a matter of economy:
        order is the barrier's. The topic whose chunk is the oldest never waits.
        """
        topic, first_ms = chunk.tp.topic, chunk.records[0].timestamp
        self._held[topic] = first_ms
        self._note_step()
        try:
            while self._is_ahead(topic, first_ms):
                seen = self.processed_count
                if not await self._step() and seen == self.processed_count:
                    return
        finally:
            del self._held[topic]

    async def _step(self) -> bool:
        """Waits for a chunk to be read or a cut to be passed; False if none was."""
        try:
            async with asyncio.timeout(_MAX_STEP_S):
                await self._stepped.wait()
        except TimeoutError:
            return False
        return True

    def _note_step(self) -> None:
        """Wakes whoever waits for a step."""
        stepped, self._stepped = self._stepped, asyncio.Event()
        # Its own, never cleared: a step between a look and the wait is not missed.
        stepped.set()

    def _is_ahead(self, topic: str, first_ms: int) -> bool:
        return any(
            self._is_behind(other, first_ms)
            for other in self._sources
            if other not in {topic, self._start_topic}
        )

    def _is_behind(self, topic: str, first_ms: int) -> bool:
        held_ms = self._held.get(topic)
        if held_ms is not None:
            return held_ms < first_ms
        for partition in self._assigned:
            tp = TP(topic, partition)
            taken = self._taken.get(tp)
            if taken is not None and taken.timestamp_ms >= first_ms:
                continue
            # At the end of the log topics may come as they come: no waiting there.
            if self._left(tp) > self._settings.chunk_records:
                return True
        return False

    async def _make_room(self, one: Assigned) -> None:
        """Holds the reader back while too much waits to be looked at."""
        await asyncio.sleep(0)
        while (
            one.shard.unknown_count > _MAX_UNKNOWN_RUNS
            and self._assigned.get(one.shard.partition) is one
        ):
            await self._step()

    def _is_far_behind(self, partition: int) -> bool:
        """Whether a whole chunk of a topic waits on this partition."""
        most = self._settings.chunk_records
        return any(self._left(TP(topic, partition)) > most for topic in self._sources)

    def _left(self, tp: TP) -> int:
        """Records of the partition that were not looked at, as far as is known."""
        taken = self._taken.get(tp)
        next_offset = None if taken is None else taken.next_offset
        return self._consumer().left(tp, next_offset)

    def _read_control(self, one: Assigned, chunk: Chunk) -> None:
        for record in chunk.records:
            try:
                control = decode_control(record.value)
            except DecodeError:
                logger.warning(
                    "control_note_unreadable",
                    partition=chunk.tp.partition,
                    offset=record.offset,
                )
                continue
            if not one.shard.options.belongs(control.run_id, chunk.tp.partition):
                continue
            if control.kind is ControlKind.MISROUTED:
                entry = one.shard.open(control.run_id)
                if entry is not None:
                    entry.state.misrouted = True
                    one.shard.touch(entry)
            else:
                one.shard.rebuilds.add(control.run_id)
        one.committer.wake()

    def _count(self, topic: str, counts: Counts) -> None:
        metrics = self._metrics
        metrics.events_in(topic, counts.events)
        for value, count in (
            (counts.duplicates, metrics.duplicates),
            (counts.late, metrics.late),
            (counts.off_grammar, metrics.ids_outside_grammar),
            (counts.ordinary_calls, metrics.ordinary_calls_dropped),
            (counts.late_starts, metrics.late_starts),
            (counts.misrouted, metrics.misrouted_runs),
        ):
            if value:
                count(value)
        forbidden = counts.too_late_forbidden
        if forbidden:
            metrics.too_late(TooLate.FORBIDDEN_CALL, forbidden)
        if counts.too_late > forbidden:
            metrics.too_late(TooLate.OTHER, counts.too_late - forbidden)

    def _count_reread(self, chunk: Chunk) -> None:
        furthest = self._furthest.get(chunk.tp, 0)
        if chunk.first_offset < furthest:
            self._metrics.redelivered(chunk.count_below(furthest))
        self._furthest[chunk.tp] = max(furthest, chunk.next_offset)

    # -- the barrier

    def _reached(self, tp: TP) -> int | None:
        taken = self._taken.get(tp)
        return self._consumer().reached(
            tp, None if taken is None else taken.next_offset
        )

    async def _cut(self) -> None:
        """Asks for the log ends of all partitions that wait, once a tick."""
        interval_s = self._settings.barrier_interval_s
        while True:
            await self._cut_wanted.wait()
            self._cut_wanted.clear()
            seals = {
                partition: one.take_seals()
                for partition, one in self._assigned.items()
                if one.wants_cut and one.seals.depth < _MAX_CUTS
            }
            starts = {
                partition: one.shard.take_unknown()
                for partition, one in self._assigned.items()
                if one.shard.unknown and one.starts.depth < _MAX_CUTS
            }
            if seals or starts:
                await self._ask(seals, starts)
            await asyncio.sleep(interval_s)
            for one in list(self._assigned.values()):
                self._pass_cuts(one)
            if any(one.waits for one in self._assigned.values()):
                self._cut_wanted.set()

    async def _ask(
        self, seals: dict[int, list[Unsealed]], starts: dict[int, Unknown]
    ) -> None:
        tps = {TP(topic, p) for topic in self._sources for p in seals}
        tps |= {TP(self._start_topic, p) for p in starts}
        asked_at_s = self._clock.now_s()
        ends: dict[TP, int] | None = None
        while ends is None:
            try:
                ends = await self._consumer().end_offsets(tps)
            except TimeoutError:
                logger.warning("log_ends_unanswered", partitions=len(tps))
        for partition, unsealed in seals.items():
            one = self._assigned.get(partition)
            if one is not None:
                places = [TP(topic, partition) for topic in self._sources]
                cut = {tp: ends[tp] for tp in places}
                one.seals.add(cut, Seals(asked_at_s, unsealed))
        for partition, unknown in starts.items():
            one = self._assigned.get(partition)
            if one is not None:
                tp = TP(self._start_topic, partition)
                one.starts.add({tp: ends[tp]}, unknown)
        for one in list(self._assigned.values()):
            self._pass_cuts(one)

    def _pass_cuts(self, one: Assigned) -> None:
        for unknown in one.starts.passed():
            one.committer.drop_unknown(unknown)
            self._note_step()
        for asked_at_s, unsealed in one.seals.passed():
            one.shard.read_up_to_s = asked_at_s
            if unsealed:
                one.committer.seal(unsealed)
            one.committer.end_grace()

    # -- time

    async def _tick(self, one: Assigned) -> None:
        while True:
            await asyncio.sleep(self._settings.tick_interval_s)
            one.sweeper.sweep()
            one.has_ticked = True
            self._cut_wanted.set()
            one.committer.wake()

    def _watch(self, work: Awaitable[None]) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001  # the outermost frame: counts, names, stops
                self._fail(error)

        return asyncio.create_task(guarded())


_RECHECK_S = 0.2
_MAX_STEP_S = 1.0
_MAX_CUTS = 64
_MAX_UNKNOWN_RUNS = 50_000
