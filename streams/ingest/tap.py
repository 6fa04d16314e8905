"""The side of the consumer that runs in aiokafka's thread: reads chunks, positions.

Faust keeps aiokafka in a thread with an event loop of its own. What is taken from a
partition here moves its position for good, so it goes into ``taken``, a queue that no
cancellation empties, together with the stamp of the positioning under which it was
read. The other side drops what bears an old stamp, and nothing else.
"""

# ruff: noqa: SLF001 - leans on internals, which tests/contract/ingest pins

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, TypeVar, cast

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.errors import ConsumerStoppedError, IllegalStateError
from aiokafka.structs import TopicPartition
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Transport
from faust.types import TP
from mode.threads import ServiceThread, WorkerThread

from streams.kafka.unpack import Record, Unpacker

_T = TypeVar("_T")

# Faust asks brokers to hold a fetch for up to 1.5 s when they have nothing. As long
# as such a request is out, aiokafka asks that broker for no other partition: one
# whose data is used up only after it was sent waits behind the idle ones. What that
# did to the latency stands in tests/benchmarks/README.md.
_FETCH_WAIT_MS = 20
# How soon the position of a partition without a committed offset is looked for
# again; it is only known once aiokafka has asked the broker.
_PLACING_WAIT_S = 0.05

# How long leaving the group may take.
_CLOSE_S = 10.0


class Taken(NamedTuple):
    """Part of a partition that was taken, or found to hold no records."""

    tp: TP
    stamp: int
    start: int
    records: list[Record]
    next_offset: int


@dataclass(slots=True)
class Demand:
    """Partitions that feed one agent, and how many chunks it has room for."""

    room: int
    tps: list[TP]


class Placed(NamedTuple):
    """Where a partition was positioned: committed offset (or None) and stamp."""

    stamp: int
    committed: int | None
    position: int | None


class _Thread(WorkerThread):
    """A thread that does not keep the process alive when it cannot be stopped."""

    def __init__(self, service: ServiceThread, **kwargs: Any) -> None:
        super().__init__(service, **kwargs)
        self.daemon = True


class BatchConsumerThread(AIOKafkaConsumerThread):
    """Faust's consumer thread that can also hand out chunks of source topics."""

    Worker: type[WorkerThread] = _Thread

    def __post_init__(self) -> None:
        """Sets up what the two threads share."""
        super().__post_init__()
        transport = cast(Any, self.transport)
        self._sources: frozenset[str] = transport.source_topics
        self._chunk_records: int = transport.chunk_records
        self.taken: deque[Taken] = deque()
        # A partition without a stamp is not read: between a rebalance and the seek
        # that follows it there is no offset that we may read from.
        self._stamps: dict[TP, int] = {}
        self._unplaced: set[TP] = set()
        self._next_stamp = count(1)
        self._turns = count(1)
        self._last_turn: dict[object, int] = {}
        self._calls = 0
        self._waiter: asyncio.Future[None] | None = None
        self._standing: list[Demand] = []
        self._followed: Fetcher | None = None
        self._fault: Exception | None = None

    def _create_worker_consumer(self, transport: Transport) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = _FETCH_WAIT_MS
        consumer._isolation_level = "read_committed"
        return consumer

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Stops reading source partitions until they are positioned again."""
        self._forget()
        await super().on_partitions_revoked(revoked)

    async def on_thread_stop(self) -> None:
        """Closes aiokafka, in bounded time also where no broker answers.

        aiokafka's fetcher, closed while it waits to try again, ends in a
        cancellation that leaves the rest open and Faust waiting for this thread.
        """
        try:
            async with asyncio.timeout(_CLOSE_S):
                await super().on_thread_stop()
        except (TimeoutError, asyncio.CancelledError):
            if self._consumer is not None:
                await self._consumer._client.close()

    # -- called from the other thread

    async def run(self, call: Coroutine[Any, Any, _T]) -> _T:
        """Runs a coroutine in this thread's loop and waits for it in the caller's.

        Not through the method queue: its two workers are all busy while a commit
        waits for a broker, and a call that was given up keeps one for ever.
        """
        future = asyncio.run_coroutine_threadsafe(call, self.thread_loop)
        return await asyncio.wrap_future(future)

    def call_off(self) -> None:
        """Makes a waiting ``take`` return: what was demanded is out of date."""
        self._calls += 1
        if not self.thread_loop.is_closed():
            self.thread_loop.call_soon_threadsafe(self._wake)

    @property
    def calls(self) -> int:
        """How often ``call_off`` was called; handed to ``take`` to lose none."""
        return self._calls

    def end_known(self, tp: TP) -> int | None:
        """The partition's end as of its last fetch; None if there was none."""
        consumer = self._consumer
        subscription = consumer and consumer._subscription.subscription
        assignment = subscription and subscription.assignment
        state = assignment and assignment.state_value(tp)
        return state.lso if state else None

    # -- in this thread

    async def take(self, demands: list[Demand], calls: int, timeout_s: float) -> None:
        """Puts chunks into ``taken``; waits for some if there are none.

        Between topics, and between the partitions of a topic, whichever waited
        longest goes first. What is demanded goes on being taken as it comes,
        also after the return, until the next call.

        Args:
            demands: What is wanted now, beyond all that was in ``taken`` when the
                last call returned.
            calls: ``calls`` at the time when ``demands`` was drawn up.
            timeout_s: Longest wait, seconds. It may end earlier with nothing taken.

        Raises:
            ConsumerStoppedError: The consumer is closed.
            KafkaError: aiokafka's coordinator or a partition's fetch failed for good.
        """
        consumer = self._ensure_consumer()
        fetcher = consumer._fetcher
        if consumer._closed or fetcher._closed:
            raise ConsumerStoppedError
        consumer._coordinator.check_errors()
        self._follow(fetcher)
        # What was taken since the demands were drawn up.
        for demand in demands:
            demand.room -= sum([part.tp in demand.tps for part in self.taken])
        self._standing = demands
        with _fetching(fetcher):
            self._note_positions(fetcher)
            self._sweep(fetcher, demands)
            if not self.taken:
                await self._data(fetcher, calls, timeout_s)
                self._note_positions(fetcher)
                self._sweep(fetcher, demands)
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    async def rewind(self, starts: Mapping[TP, int]) -> dict[TP, Placed]:
        """Positions every assigned partition where the group left off.

        Args:
            starts: Where source partitions without a committed offset began under
                this assignment, if they did.

        Returns:
            Each assigned partition. Partitions of other topics are moved only if
            there is a committed offset above 0, as Faust does.

        Raises:
            IllegalStateError: The assignment changed meanwhile.
        """
        consumer = self._ensure_consumer()
        subscription = consumer._subscription.subscription
        assignment = subscription and subscription.assignment
        if not assignment or not assignment.active:
            raise IllegalStateError("no assignment to position")
        self._forget()
        offsets = await consumer._coordinator.fetch_committed_offsets(
            list(assignment.tps)
        )
        if not assignment.active:
            raise IllegalStateError("the assignment changed during a seek")
        placed = {}
        for aiokafka_tp in assignment.tps:
            tp = TP(*aiokafka_tp)
            found = offsets.get(aiokafka_tp)
            committed = None if found is None or found.offset < 0 else found.offset
            placed[tp] = self._place(tp, committed, starts.get(tp))
        return placed

    async def place(self, tp: TP, offset: int) -> int:
        """Positions one source partition; returns the new stamp."""
        self._ensure_consumer()._fetcher.seek_to(TopicPartition(*tp), offset)
        self._unplaced.discard(tp)
        self._stamps[tp] = next(self._next_stamp)
        return self._stamps[tp]

    async def ends(self, tps: Iterable[TP], timeout_s: float) -> dict[TP, int]:
        """Asks the brokers for log ends: one request for each broker."""
        wanted = [TopicPartition(*tp) for tp in tps]
        fetcher = self._ensure_consumer()._fetcher
        found = await fetcher.end_offsets(wanted, timeout_s * 1000)
        return {TP(*tp): offset for tp, offset in found.items()}

    def _forget(self) -> None:
        self._stamps.clear()
        self._unplaced.clear()

    def _place(self, tp: TP, committed: int | None, start: int | None) -> Placed:
        fetcher = self._ensure_consumer()._fetcher
        aiokafka_tp = TopicPartition(*tp)
        position = start if committed is None else committed
        if tp.topic not in self._sources:
            if committed:
                fetcher.seek_to(aiokafka_tp, committed)
            return Placed(0, committed, position)
        if position is not None:
            fetcher.seek_to(aiokafka_tp, position)
        else:
            # aiokafka is about to ask the broker where to begin.
            self._unplaced.add(tp)
        stamp = self._stamps[tp] = next(self._next_stamp)
        return Placed(stamp, committed, position)

    def _note_positions(self, fetcher: Fetcher) -> None:
        """Tells positions that were unknown: an empty partition has no chunk to."""
        if not self._unplaced:
            return
        assignment = fetcher._subscriptions.subscription.assignment
        for tp in list(self._unplaced):
            state = assignment and assignment.state_value(tp)
            if state and state.has_valid_position:
                self._unplaced.discard(tp)
                at = state.position
                self.taken.append(Taken(tp, self._stamps[tp], at, [], at))

    def _follow(self, fetcher: Fetcher) -> None:
        """Has what a fetch brings taken before the next fetch is sent.

        aiokafka asks for no partition of which something waits to be taken, and
        sends its next request as soon as the last is answered. Taken any later,
        the busiest partitions would miss every other request, and wait for the
        data of the idle ones.
        """
        if self._followed is fetcher:
            return
        self._followed = fetcher
        fetch = fetcher._proc_fetch_request

        async def fetch_and_take(*args: Any) -> bool:
            has_data: bool = await fetch(*args)
            if has_data:
                try:
                    self._sweep(fetcher, self._standing)
                except Exception as error:  # noqa: BLE001  # ``take`` raises it
                    self._fault = error
            return has_data

        fetcher._proc_fetch_request = fetch_and_take

    def _sweep(self, fetcher: Fetcher, demands: list[Demand]) -> None:
        """Takes what is there and wanted."""
        ready = fetcher._records
        for demand in demands:
            waiting = [tp for tp in demand.tps if tp in ready and tp in self._stamps]
            while demand.room > 0 and waiting:
                tp = min(waiting, key=self._turn)
                if self._take_chunk(fetcher, tp):
                    demand.room -= 1
                if tp not in ready:
                    waiting.remove(tp)

    def _turn(self, tp: TP) -> tuple[int, int]:
        """Sorts first whose topic, then which partition, waited longest."""
        last = self._last_turn
        return last.get(tp.topic, 0), last.get(tp, 0)

    def _take_chunk(self, fetcher: Fetcher, tp: TP) -> bool:
        """Takes one chunk of a ready partition; False if it held no records."""
        result = fetcher._records[tp]
        if not isinstance(result, FetchResult):
            self._drop(fetcher, tp)
            result.check_raise()
            return False
        if not result.has_more() or not result.check_assignment(tp):
            self._drop(fetcher, tp)
            return False
        fetched = result._partition_records
        unpacker = getattr(result, "unpacker", None)
        if unpacker is None:
            unpacker = result.unpacker = Unpacker(fetched)
        start = fetched.next_fetch_offset
        try:
            records, is_used_up = unpacker.take(self._chunk_records)
        except Exception:
            # A second try must fetch again, not go on behind the broken batch.
            self._drop(fetcher, tp)
            raise
        result._update_position()
        if is_used_up:
            self._drop(fetcher, tp)
        self._last_turn[tp] = self._last_turn[tp.topic] = next(self._turns)
        if records or fetched.next_fetch_offset > start:
            self.taken.append(
                Taken(tp, self._stamps[tp], start, records, fetched.next_fetch_offset)
            )
        return bool(records)

    def _drop(self, fetcher: Fetcher, tp: TP) -> None:
        """Lets the partition be fetched again."""
        del fetcher._records[tp]
        fetcher._notify(fetcher._wait_consume_future)

    async def _data(self, fetcher: Fetcher, calls: int, timeout_s: float) -> None:
        """Waits for a fetch to bring something, or for ``call_off``."""
        if self._unplaced:
            timeout_s = min(timeout_s, _PLACING_WAIT_S)
        waiter = self._waiter = fetcher._create_fetch_waiter()
        try:
            if self._calls == calls:
                async with asyncio.timeout(timeout_s):
                    # Raises what aiokafka holds to be beyond repair.
                    await waiter
        except TimeoutError:
            pass
        finally:
            self._waiter = None
            waiter.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


@contextmanager
def _fetching(fetcher: Fetcher) -> Iterator[None]:
    """Counts as fetching while inside; unlike aiokafka's own, after an error too."""
    context = fetcher._subscriptions.fetch_context()
    context.__enter__()
    try:
        yield
    finally:
        context.__exit__(None, None, None)
