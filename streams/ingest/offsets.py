"""The consumer's account: what is out, acknowledged, and committed."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from aiokafka.errors import KafkaTimeoutError
from faust.transport.drivers.aiokafka import Consumer
from faust.types import TP, Message
from faust.types.transports import TPorTopicSet, TransportT
from faust.types.tuples import ack_lock
from mode.utils.futures import notify

from streams.ingest.chunk import Chunk
from streams.ingest.errors import IngestError
from streams.ingest.ledger import Ledger
from streams.ingest.tap import BatchConsumerThread

# How long a stop waits for its commit. aiokafka tries for as long as the brokers are
# away; without the commit the next worker reads some chunks again.
_LAST_COMMIT_S = 10.0


class LedgerConsumer(Consumer):
    """Faust's consumer with a ledger for each assigned partition of a source topic.

    In place of Faust's lists of acknowledged offsets, which can be committed over a
    hole. All methods are for the app's own event loop.
    """

    _thread: BatchConsumerThread

    def __init__(self, transport: TransportT, *args: Any, **kwargs: Any) -> None:
        settings = cast(Any, transport)
        self._sources: frozenset[str] = settings.source_topics
        self._before_commit = settings.before_commit
        self._ledgers: dict[TP, Ledger] = {}
        super().__init__(transport, *args, **kwargs)

    def _new_consumer_thread(self) -> BatchConsumerThread:
        return BatchConsumerThread(self, loop=self.loop, beacon=self.beacon)

    # -- what agents ask

    def processed(self, tp: TP) -> int | None:
        """Every record of the partition below this offset was processed.

        That is: its chunk was acknowledged, or compaction or a transaction left no
        record there, so that it reaches the end of the log, markers included.

        Returns:
            None where the partition is not ours, is of no source topic, or was not
            positioned yet. Falls back to the committed offset in a rebalance.
        """
        ledger = self._ledgers.get(tp)
        return None if ledger is None else ledger.processed

    def resumed_at(self, tp: TP) -> int | None:
        """Offset where reading the partition began when it was last positioned."""
        ledger = self._ledgers.get(tp)
        return None if ledger is None else ledger.start

    def left(self, tp: TP, taken_up_to: int | None) -> int:
        """Offsets of the partition that are known and were not looked at.

        Args:
            tp: A source partition.
            taken_up_to: As in ``reached``.

        Returns:
            At least 0; 0 also as long as nothing is known.
        """
        end = self._thread.end_known(tp)
        reached = self.reached(tp, taken_up_to)
        return 0 if end is None or reached is None else max(0, end - reached)

    def reached(self, tp: TP, taken_up_to: int | None) -> int | None:
        """Every record of the partition below this offset was looked at.

        Like ``processed``, for an agent that looks at chunks in order and
        acknowledges them later.

        Args:
            tp: A source partition.
            taken_up_to: ``next_offset`` of the last chunk the agent looked at
                since the partition was positioned; None if none.

        Returns:
            None where the partition is not ours or was not positioned yet.
        """
        ledger = self._ledgers.get(tp)
        if ledger is None:
            return None
        if ledger.handed_up_to in {None, taken_up_to}:
            return ledger.position
        return ledger.start if taken_up_to is None else taken_up_to

    async def end_offsets(
        self, tps: Iterable[TP], *, timeout_s: float = 10.0
    ) -> dict[TP, int]:
        """Asks the brokers now for the log ends: one request for each broker.

        Args:
            tps: Existing partitions, assigned or not.
            timeout_s: Longest wait, retries included, seconds.

        Returns:
            For each partition the offset after the last committed record: what
            ``processed`` reaches once all that was readable now is processed.

        Raises:
            TimeoutError: No answer in time.
            KafkaError: An answer that trying again would not change.
        """
        try:
            return await self._thread.run(self._thread.ends(list(tps), timeout_s))
        except KafkaTimeoutError as slow:
            raise TimeoutError(f"no log ends in {timeout_s} s") from slow

    def is_current(self, chunk: Chunk) -> bool:
        """Whether acknowledging the chunk would still count.

        False once its partition was revoked or positioned anew, and once it is
        acknowledged. What is false stays false.
        """
        ledger = self._ledgers.get(chunk.tp)
        return ledger is not None and ledger.holds(chunk)

    def committed_lag(self) -> dict[TP, int]:
        """Offsets between the committed one and the log's end, by partition.

        Asks nobody: the end is that of the partition's last fetch, and while its
        agent has no room there is none. Source partitions of ours that were
        fetched from; where nothing is committed, counted from where reading began.
        """
        lags = {}
        for tp, ledger in self._ledgers.items():
            end = self._thread.end_known(tp)
            done = ledger.start if ledger.committed is None else ledger.committed
            if end is not None and done is not None:
                lags[tp] = max(0, end - done)
        return lags

    # -- acknowledging and committing

    def ack(self, message: Message) -> bool:
        """Acknowledges a message; for a chunk of an earlier positioning, nothing."""
        if message.topic not in self._sources:
            return super().ack(message)
        with ack_lock:
            if message.acked:
                return False
            message.acked = True
            self._unacked_messages.discard(message)
            ledger = self._ledgers.get(message.tp)
            counts = ledger is not None and ledger.ack(cast(Chunk, message.value))
        notify(self._waiting_for_ack)
        return counts

    def _filter_tps_with_pending_acks(
        self, topics: TPorTopicSet | None = None
    ) -> Iterator[TP]:
        for tp in self._acked:
            if tp.topic in self._sources:
                raise IngestError(
                    f"a stream acknowledged a chunk of {tp.topic} by itself: iterate "
                    "stream.noack().events() and call event.ack()"
                )
        yield from super()._filter_tps_with_pending_acks(topics)
        for tp in self._ledgers:
            if topics is None or tp in topics or tp.topic in topics:
                yield tp

    def _new_offset(self, tp: TP) -> int | None:
        if tp.topic not in self._sources:
            return super()._new_offset(tp)
        ledger = self._ledgers.get(tp)
        return None if ledger is None else ledger.committable

    def _should_commit(self, tp: TP, offset: int) -> bool:
        return tp.topic in self._sources or super()._should_commit(tp, offset)

    async def _handle_attached(self, commit_offsets: Mapping[TP, int]) -> None:
        await super()._handle_attached(commit_offsets)
        if self._before_commit is None:
            return
        if any(tp.topic in self._sources for tp in commit_offsets):
            await self._before_commit()

    async def _commit_offsets(
        self,
        offsets: Mapping[TP, int],
        start_new_transaction: bool = True,  # noqa: FBT001, FBT002 - Faust's signature
    ) -> bool:
        # A rebalance may have come since the offsets were drawn up.
        ledgers = {
            tp: ledger
            for tp, ledger in self._ledgers.items()
            if tp in offsets and offsets[tp] <= (ledger.processed or 0)
        }
        offsets = {
            tp: offset
            for tp, offset in offsets.items()
            if tp.topic not in self._sources or tp in ledgers
        }
        if not offsets:
            return False
        did_commit = await super()._commit_offsets(offsets, start_new_transaction)
        if did_commit:
            for tp, ledger in ledgers.items():
                ledger.committed = offsets[tp]
        return did_commit

    async def verify_all_partitions_active(self) -> None:
        """Does nothing: Faust's check crashes where a partition has no position."""

    async def on_stop(self) -> None:
        """Commits what may be; if it may not, the thread is stopped all the same."""
        try:
            async with asyncio.timeout(_LAST_COMMIT_S):
                await super().on_stop()
        except TimeoutError:
            self.log.warning("gave up the last commit: no answer from the brokers")
        except Exception as failed:  # noqa: BLE001 - crash() is what raises it again
            await self.crash(failed)

    # -- positions

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Gives up chunks that are out: the next owner reads them again."""
        for tp in revoked:
            self._close(tp)
        await super().on_partitions_revoked(revoked)

    async def perform_seek(self) -> None:
        """Goes back to the committed offsets, unless the app is about to stop.

        Faust also calls this where records arrive after the flow was stopped. In a
        shutdown that would only void the last acknowledgements.
        """
        if not self.app.should_stop:
            await super().perform_seek()

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seeks all assigned partitions to their committed offsets."""
        starts = {
            tp: ledger.start
            for tp, ledger in self._ledgers.items()
            if ledger.start is not None
        }
        placed = await self._thread.run(self._thread.rewind(starts))
        for tp, (stamp, committed, position) in placed.items():
            if tp.topic in self._sources:
                self._close(tp)
                self._ledgers[tp] = Ledger(stamp, position, committed)
        return {tp: cast(int, at.committed) for tp, at in placed.items()}

    async def _seek(self, partition: TP, offset: int) -> None:
        if partition.topic not in self._sources:
            await super()._seek(partition, offset)
            return
        stamp = await self._thread.run(self._thread.place(partition, offset))
        old = self._close(partition)
        committed = None if old is None else old.committed
        self._ledgers[partition] = Ledger(stamp, offset, committed)

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Seeks partitions to given offsets and waits until that is done."""
        others = {}
        for tp, offset in partitions.items():
            if tp.topic in self._sources:
                await self.seek(tp, offset)
            else:
                others[tp] = offset
        await super().seek_wait(others)

    def _close(self, tp: TP) -> Ledger | None:
        ledger = self._ledgers.pop(tp, None)
        if ledger is not None:
            for message in ledger.waiting:
                self._unacked_messages.discard(message)
        return ledger
