"""The consumer that gives the agents of source topics chunks instead of records."""

# ruff: noqa: SLF001 - leans on internals, which tests/contract/ingest pins

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, cast

from faust.transport.consumer import RecordMap
from faust.types import TP, ConsumerMessage, Message
from faust.types.transports import TransportT
from mode import ServiceT
from mode.utils.queues import ThrowableQueue

from streams.ingest.chunk import Chunk
from streams.ingest.ledger import Ledger
from streams.ingest.offsets import LedgerConsumer
from streams.ingest.tap import Demand, Taken

# How long a wait lasts that something else usually ends: a bound on the cost of a
# signal that never came, and on how late a stop is noticed.
_IDLE_S = 1.0


class BatchConsumer(LedgerConsumer):
    """Faust's consumer, except that source topics are read in chunks.

    A source topic's agent must iterate ``stream.noack().events()``; an event's value
    is a ``Chunk``, and ``event.ack()`` may come late and in any order. All methods
    are for the app's own event loop.
    """

    def __init__(self, transport: TransportT, *args: Any, **kwargs: Any) -> None:
        self._chunks_waiting: int = cast(Any, transport).chunks_waiting
        self._held: deque[Taken] = deque()
        self._changed = asyncio.Event()
        self._resumed = asyncio.Event()
        super().__init__(transport, *args, **kwargs)

    # -- flow

    def resume_flow(self) -> None:
        """Allows messages to be handed out."""
        super().resume_flow()
        self._kick()

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        """Lets the partitions be read again."""
        super().resume_partitions(tps)
        self._kick()

    async def _seek(self, partition: TP, offset: int) -> None:
        await super()._seek(partition, offset)
        self._kick()

    def _kick(self) -> None:
        """Says that more may be read than was demanded last."""
        self._changed.set()
        self._resumed.set()
        self._thread.call_off()

    async def _getmany(
        self,
        active_partitions: set[TP] | None,
        timeout: float,  # noqa: ASYNC109 - Faust's signature
    ) -> RecordMap:
        """Faust's own reading, for all topics but the sources."""
        if active_partitions is None:
            return await super()._getmany(None, timeout)
        # A copy, as Faust's set changes while the other thread reads it, and aiokafka
        # takes an empty one to mean every partition.
        others = {tp for tp in active_partitions if tp.topic not in self._sources}
        if others:
            return await super()._getmany(others, timeout)
        await _until(self._resumed, timeout)
        return {}

    async def _drain_messages(self, fetcher: ServiceT) -> None:
        """Reads until the fetcher stops: chunks and, beside them, all other topics."""
        halves = {
            asyncio.ensure_future(super()._drain_messages(fetcher)),
            asyncio.ensure_future(self._drain_chunks(fetcher)),
        }
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not self.app.should_stop:
                raise
        finally:
            for half in halves:
                half.cancel()
            ends = await asyncio.gather(*halves, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception) and not self._ends_quietly(end):
                raise end

    def _ends_quietly(self, error: Exception) -> bool:
        return self.app.should_stop and isinstance(error, self.consumer_stopped_errors)

    async def _drain_chunks(self, fetcher: ServiceT) -> None:
        app = self.app
        while not (self.should_stop or fetcher.should_stop):
            if not self.flow_active:
                await _until(self._changed, _IDLE_S)
                continue
            await app.flow_control.acquire()
            await app.producer.buffer.wait_until_ebb()
            calls = self._thread.calls
            self._hand_out_taken()
            demands = self._demands()
            if demands:
                await self._thread.run(self._thread.take(demands, calls, _IDLE_S))
            else:
                await _until(self._changed, _IDLE_S)

    def _demands(self) -> list[Demand]:
        """What may be read now, by the queue that it would go to."""
        held = {taken.tp for taken in self._held}
        demands: dict[int, Demand] = {}
        for tp in self._active_partitions:
            queues = self._queues(tp)
            if not queues or tp in held or tp not in self._ledgers:
                continue
            fullest = max(queues, key=_size)
            room = self._limit(fullest) - fullest.qsize()
            if room > 0:
                demands.setdefault(id(fullest), Demand(room, [])).tps.append(tp)
        return list(demands.values())

    def _queues(self, tp: TP) -> list[ThrowableQueue[Any]]:
        if tp.topic not in self._sources:
            return []
        channels = cast(Any, self.app.topics)._tp_index.get(tp, ())
        return [channel.queue for channel in channels]

    def _limit(self, queue: ThrowableQueue[Any]) -> int:
        """Chunks that may wait in the queue, and makes it tell us when it drains."""
        limit = min(self._chunks_waiting, queue.maxsize or self._chunks_waiting)
        if queue.pressure_high_size > limit:
            queue.pressure_high_size = limit
            queue.pressure_drop_size = limit // 2
        return limit

    def _hand_out_taken(self) -> None:
        """Gives agents what was taken; keeps what flow or a pause holds back."""
        taken, held = self._thread.taken, self._held
        while taken:
            held.append(taken.popleft())
        if not (self.flow_active and self.app.flow_control.is_active()):
            return
        for _ in range(len(held)):
            part = held.popleft()
            ledger = self._ledgers.get(part.tp)
            if ledger is None or ledger.stamp != part.stamp:
                continue
            if part.tp in self._active_partitions:
                self._hand_out(part, ledger)
            else:
                held.append(part)

    def _hand_out(self, part: Taken, ledger: Ledger) -> None:
        ledger = self._join(part, ledger)
        if not part.records:
            ledger.skip_to(part.next_offset)
            return
        app, tp = self.app, part.tp
        chunk = Chunk(tp, part.records, part.records[0].offset, part.next_offset)
        message = _message(chunk, app.consumer_generation_id)
        queues = self._queues(tp)
        message.incref(len(queues))
        ledger.add(message)
        for queue in queues:
            queue.force_put_nowait(app.create_event(None, chunk, None, message))
            queue.in_pressure_high_state(self._kick)
        app.monitor.track_tp_end_offset(tp, self._thread.end_known(tp) or 0)

    def _join(self, part: Taken, ledger: Ledger) -> Ledger:
        """The ledger that the part continues: a new one where the log was cut."""
        ledger.begin(part.start)
        expected = cast(int, ledger.position)
        if part.start > expected:
            self.log.warning(
                "%s: offsets %s to %s are gone from the log",
                part.tp,
                expected,
                part.start,
            )
        elif part.start < expected:
            self.log.warning(
                "%s: the log was cut from %s back to %s", part.tp, expected, part.start
            )
            self._close(part.tp)
            ledger = self._ledgers[part.tp] = Ledger(part.stamp, part.start)
        return ledger


def _message(chunk: Chunk, generation_id: int) -> Message:
    last = chunk.records[-1]
    return ConsumerMessage(
        chunk.tp.topic,
        chunk.tp.partition,
        chunk.first_offset,
        last.timestamp / 1000.0,
        last.timestamp_type or 0,
        None,
        None,
        cast(Any, chunk),
        None,
        tp=chunk.tp,
        generation_id=generation_id,
    )


def _size(queue: ThrowableQueue[Any]) -> int:
    return queue.qsize()


async def _until(event: asyncio.Event, timeout_s: float) -> None:
    """Waits for the event, which is reset, or for the time to pass."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass
    event.clear()
