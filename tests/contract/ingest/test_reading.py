"""Reading without a broker: what is taken, in which turn, and what becomes of it."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import faust
import pytest
import pytest_asyncio
from aiokafka.consumer.fetcher import (
    FetchError,
    FetchResult,
)
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import CorruptRecordException, RecordTooLargeError
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition
from faust.types import TP, EventT, TopicT

from streams import ingest
from streams.ingest.ledger import Ledger
from streams.ingest.tap import BatchConsumerThread, Demand, Taken
from tests.contract.kafka.batches import batch, fetched

A0, A1, B0 = TP("a", 0), TP("a", 1), TP("b", 0)


class Fetcher:
    """What ``BatchConsumerThread`` sees of aiokafka's fetcher, with real parts."""

    def __init__(self, tps: list[TP]) -> None:
        self._records: OrderedDict[TopicPartition, Any] = OrderedDict()
        self._subscriptions = SubscriptionState()
        self._subscriptions.subscribe({tp.topic for tp in tps})
        self._subscriptions.assign_from_subscribed([TopicPartition(*t) for t in tps])
        self._wait_consume_future = None
        self._closed = False
        self.notified = 0

    def _create_fetch_waiter(self) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    def _notify(self, _: object) -> None:
        self.notified += 1

    async def _proc_fetch_request(self, tp: TP, raw: bytes) -> bool:
        self.answer(tp, raw)
        return True

    def answer(self, tp: TP, raw: bytes, at: int = 0) -> None:
        """A response for the partition, fetched at ``at``."""
        key = TopicPartition(*tp)
        assignment = self._subscriptions.subscription.assignment
        assignment.state_value(key).seek(at)
        records = fetched(raw, at, tp=key)
        self._records[key] = FetchResult(
            key, assignment=assignment, partition_records=records, backoff=0
        )


@pytest_asyncio.fixture
async def app(tmp_path: Path) -> faust.App:
    """An app with chunks of two records, of which three may wait. Never started."""
    made = faust.App(
        "ingest-reading",
        broker="kafka://nowhere",
        datadir=str(tmp_path),
        topic_disable_leader=True,
    )
    ingest.install(made, ["a", "b"], chunk_records=2, chunks_waiting=3)
    return made


@pytest_asyncio.fixture
async def consumer(app: faust.App) -> AsyncIterator[ingest.BatchConsumer]:
    """The app's consumer as it is after a rebalance: ``a`` and ``b`` are ours."""
    made = cast(ingest.BatchConsumer, app.consumer)
    for tp in (A0, A1, B0):
        made._ledgers[tp] = Ledger(1, 0, None)
        made._thread._stamps[tp] = 1
    made._set_active_tps({A0, A1, B0})
    app.flow_control.resume()
    made.resume_flow()
    app.consumer_generation_id = 5
    topics = {name: app.topic(name).clone(is_iterator=True) for name in "ab"}
    for topic in topics.values():
        app.topics.add(cast(TopicT, topic))
    await app.topics.on_partitions_assigned({A0, A1, B0})
    yield made
    made._thread.thread_loop.close()


@pytest.fixture
def thread(consumer: ingest.BatchConsumer) -> BatchConsumerThread:
    """The side that reads."""
    return consumer._thread


def queue(consumer: ingest.BatchConsumer, tp: TP) -> asyncio.Queue[EventT[Any]]:
    """Where the partition's events go."""
    (only,) = consumer._queues(tp)
    return only


def chunk_of(event: EventT[Any]) -> ingest.Chunk:
    """The event's value, which Faust holds to be bytes or a model."""
    return cast(ingest.Chunk, event.value)


def part(tp: TP, start: int, upto: int, *, stamp: int = 1) -> Taken:
    """A chunk as the thread takes it."""
    response = MemoryRecords(batch(start, range(upto - start)))
    return Taken(tp, stamp, start, list(response.next_batch()), upto)


def places(taken: Iterator[Taken] | Any) -> list[tuple[TP, int, int]]:
    """Where each taken part lies."""
    return [(one.tp, one.start, one.next_offset) for one in taken]


# -- the thread's side


@pytest.mark.asyncio
async def test_topics_take_turns_and_in_a_topic_its_partitions(
    thread: BatchConsumerThread,
) -> None:
    """One agent with room for six reads ``a`` twice as its partitions do once."""
    fetcher = Fetcher([A0, A1, B0])
    for tp in (A0, A1, B0):
        fetcher.answer(tp, batch(0, range(8)))
    thread._sweep(fetcher, [Demand(6, [A0, A1, B0])])
    turns = [A0, B0, A1, B0, A0, B0]
    starts = [0, 0, 0, 2, 2, 4]
    assert [(tp, at, at + 2) for tp, at in zip(turns, starts, strict=True)] == places(
        thread.taken
    )
    # The next sweep goes on where this one ended.
    thread._sweep(fetcher, [Demand(1, [A0, A1, B0])])
    assert (A1, 2, 4) == places(thread.taken)[-1]


@pytest.mark.asyncio
async def test_only_what_is_demanded_and_positioned_is_read(
    thread: BatchConsumerThread,
) -> None:
    """A partition between a rebalance and its seek is left where it is."""
    fetcher = Fetcher([A0, A1, B0])
    for tp in (A0, A1, B0):
        fetcher.answer(tp, batch(0, range(8)))
    del thread._stamps[A0]
    thread._sweep(fetcher, [Demand(9, [A0, A1])])
    assert {A1} == {one.tp for one in thread.taken}
    state = fetcher._subscriptions.subscription.assignment.state_value
    assert [0, 8, 0] == [state(TopicPartition(*t)).position for t in (A0, A1, B0)]
    # Used up, it may be fetched again; the others wait.
    assert {A0, B0} == set(fetcher._records)
    assert fetcher.notified == 1


@pytest.mark.asyncio
async def test_a_response_of_another_position_is_dropped(
    thread: BatchConsumerThread,
) -> None:
    """What was on its way when a seek came does not move the partition."""
    fetcher = Fetcher([A0])
    fetcher.answer(A0, batch(0, range(4)))
    fetcher._subscriptions.seek(TopicPartition(*A0), 2)
    thread._sweep(fetcher, [Demand(9, [A0])])
    assert not thread.taken
    assert not fetcher._records


@pytest.mark.asyncio
async def test_markers_are_told_as_a_part_without_records(
    thread: BatchConsumerThread,
) -> None:
    """They use no room: the records behind them come in the same sweep."""
    fetcher = Fetcher([A0, A1])
    fetcher.answer(A0, batch(0, [], last_delta=3))
    fetcher.answer(A1, batch(0, range(2)))
    thread._sweep(fetcher, [Demand(1, [A0, A1])])
    assert [(A0, 0, 4), (A1, 0, 2)] == places(thread.taken)


@pytest.mark.asyncio
async def test_an_error_of_a_partition_is_raised_and_costs_no_chunk(
    thread: BatchConsumerThread,
) -> None:
    """What was taken before stays taken."""
    fetcher = Fetcher([A0, B0])
    fetcher.answer(A0, batch(0, range(2)))
    error = RecordTooLargeError("b is too large")
    fetcher._records[TopicPartition(*B0)] = FetchError(error=error, backoff=0)
    with pytest.raises(RecordTooLargeError, match="b is too large"):
        thread._sweep(fetcher, [Demand(9, [A0]), Demand(9, [B0])])
    assert [(A0, 0, 2)] == places(thread.taken)
    assert B0 not in fetcher._records


@pytest.mark.asyncio
async def test_a_broken_batch_is_not_skipped_by_a_second_try(
    thread: BatchConsumerThread,
) -> None:
    """The records before it are out, the position is before it, a fetch follows."""
    fetcher = Fetcher([A0])
    broken = bytearray(batch(2, range(2)))
    broken[-1] ^= 1
    fetcher.answer(A0, batch(0, range(2)) + bytes(broken))
    with pytest.raises(CorruptRecordException):
        thread._sweep(fetcher, [Demand(9, [A0])])
    assert [(A0, 0, 2)] == places(thread.taken)
    assert not fetcher._records
    state = fetcher._subscriptions.subscription.assignment.state_value
    assert 2 == state(TopicPartition(*A0)).position


@pytest.mark.asyncio
async def test_an_unknown_position_is_told_before_anything_is_read(
    thread: BatchConsumerThread,
) -> None:
    """Else an empty partition would never be known to be at its end."""
    fetcher = Fetcher([A0, A1])
    thread._unplaced.update({A0, A1})
    state = fetcher._subscriptions.subscription.assignment.state_value
    state(TopicPartition(*A0)).seek(3)
    thread._note_positions(cast(Any, fetcher))
    assert [Taken(A0, 1, 3, [], 3)] == list(thread.taken)
    assert {A1} == thread._unplaced


@pytest.mark.asyncio
async def test_what_a_fetch_brings_is_taken_before_the_next_is_sent(
    thread: BatchConsumerThread,
) -> None:
    """Room for one: the first answer is taken at once, the second has to wait."""
    fetcher = Fetcher([A0, A1])
    thread._standing = [Demand(1, [A0, A1])]
    thread._follow(fetcher)
    followed = fetcher._proc_fetch_request
    thread._follow(fetcher)
    assert fetcher._proc_fetch_request is followed
    assert await fetcher._proc_fetch_request(A0, batch(0, range(1)))
    assert [(A0, 0, 1)] == places(thread.taken)
    assert TopicPartition(*A0) not in fetcher._records
    assert await fetcher._proc_fetch_request(A1, batch(0, range(1)))
    assert [(A0, 0, 1)] == places(thread.taken)
    assert TopicPartition(*A1) in fetcher._records


@pytest.mark.asyncio
async def test_what_was_taken_meanwhile_uses_up_room(
    consumer: ingest.BatchConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Demands drawn up before a chunk came are for one less when they arrive."""
    thread, fetcher = consumer._thread, Fetcher([A0, A1])
    _give_consumer(monkeypatch, thread, fetcher)
    thread._standing = [Demand(3, [A0, A1])]
    thread._follow(fetcher)
    demands = consumer._demands()
    assert {3} == {demand.room for demand in demands}
    await fetcher._proc_fetch_request(A0, batch(0, range(2)))
    await thread.take(demands, thread.calls, 0)
    (ours,) = [demand for demand in demands if A0 in demand.tps]
    assert 2 == ours.room


@pytest.mark.asyncio
async def test_what_breaks_between_two_calls_is_raised_by_the_next(
    thread: BatchConsumerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that cannot be unpacked: the fetcher goes on, the reader is told."""
    fetcher = Fetcher([A0])
    _give_consumer(monkeypatch, thread, fetcher)
    thread._standing = [Demand(1, [A0])]
    thread._follow(fetcher)
    damaged = bytearray(batch(0, range(2)))
    damaged[-1] ^= 0xFF
    assert await fetcher._proc_fetch_request(A0, bytes(damaged))
    assert not thread.taken
    with pytest.raises(CorruptRecordException):
        await thread.take([], thread.calls, 0)


def _give_consumer(
    monkeypatch: pytest.MonkeyPatch, thread: BatchConsumerThread, fetcher: Fetcher
) -> None:
    """Has the thread hold a consumer with this fetcher."""
    aiokafka = SimpleNamespace(
        _fetcher=fetcher,
        _closed=False,
        _coordinator=SimpleNamespace(check_errors=lambda: None),
    )
    monkeypatch.setattr(thread, "_ensure_consumer", lambda: aiokafka)


# -- the app's side


@pytest.mark.asyncio
async def test_what_was_read_before_a_seek_is_dropped(
    consumer: ingest.BatchConsumer,
) -> None:
    """Stamps tell; delivering it would skip what the seek went back to."""
    consumer._thread.taken += [part(A0, 0, 2, stamp=0), part(A1, 0, 2)]
    consumer._hand_out_taken()
    assert [A1] == [queue(consumer, A0).get_nowait().message.tp]
    assert queue(consumer, A0).empty()
    assert 0 == consumer.processed(A0)


@pytest.mark.asyncio
async def test_a_pause_holds_back_what_was_taken_already(
    consumer: ingest.BatchConsumer,
) -> None:
    """In order, with no new demand meanwhile; later it is handed out."""
    consumer.pause_partitions([A0])
    consumer._thread.taken += [part(A0, 0, 2), part(A0, 2, 4), part(A1, 0, 2)]
    consumer._hand_out_taken()
    assert [A1] == [queue(consumer, A0).get_nowait().message.tp]
    assert 0 == consumer.processed(A0)
    consumer.resume_partitions([A0])
    assert not any(A0 in demand.tps for demand in consumer._demands())
    consumer._hand_out_taken()
    handed = [chunk_of(queue(consumer, A0).get_nowait()) for _ in range(2)]
    assert [(0, 2), (2, 4)] == [(c.first_offset, c.next_offset) for c in handed]


@pytest.mark.asyncio
async def test_a_stopped_flow_holds_back_everything(
    app: faust.App, consumer: ingest.BatchConsumer
) -> None:
    """Faust's stream would drop an event that comes while the flow is stopped."""
    consumer._thread.taken.append(part(A0, 0, 2))
    app.flow_control.suspend()
    consumer._hand_out_taken()
    assert queue(consumer, A0).empty()
    app.flow_control.resume()
    consumer.stop_flow()
    consumer._hand_out_taken()
    assert queue(consumer, A0).empty()
    consumer.resume_flow()
    consumer._hand_out_taken()
    assert 1 == queue(consumer, A0).qsize()


@pytest.mark.asyncio
async def test_room_is_counted_by_queue_and_its_return_is_told(
    consumer: ingest.BatchConsumer,
) -> None:
    """Three may wait. Full, nothing is demanded; half empty, demand is renewed."""
    assert {3} == {demand.room for demand in consumer._demands()}
    consumer._thread.taken += [part(A0, 0, 2), part(A1, 0, 2), part(A0, 2, 4)]
    consumer._hand_out_taken()
    assert [Demand(3, [B0])] == consumer._demands()
    calls = consumer._thread.calls
    waiting = queue(consumer, A0)
    waiting.get_nowait()
    (room,) = {d.room for d in consumer._demands() if B0 not in d.tps}
    assert room == 1
    assert consumer._thread.calls == calls
    waiting.get_nowait()
    waiting.get_nowait()
    assert consumer._thread.calls > calls


@pytest.mark.asyncio
async def test_offsets_that_are_gone_are_told_and_passed(
    consumer: ingest.BatchConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """Retention took 0 to 9: aiokafka went on at 10, and so does the commit."""
    with caplog.at_level(logging.WARNING):
        consumer._thread.taken.append(part(A0, 10, 12))
        consumer._hand_out_taken()
    assert "offsets 0 to 10 are gone" in caplog.text
    queue(consumer, A0).get_nowait().ack()
    assert 12 == consumer._new_offset(A0)


@pytest.mark.asyncio
async def test_a_log_that_was_cut_is_told_and_starts_anew(
    consumer: ingest.BatchConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """A topic made anew: old chunks are void, and commits may go back."""
    consumer._ledgers[A0] = Ledger(1, 100, 100)
    consumer._thread.taken.append(part(A0, 100, 102))
    consumer._hand_out_taken()
    old = queue(consumer, A0).get_nowait()
    with caplog.at_level(logging.WARNING):
        consumer._thread.taken.append(part(A0, 0, 2))
        consumer._hand_out_taken()
    assert "cut from 102 back to 0" in caplog.text
    assert old.ack() is False
    queue(consumer, A0).get_nowait().ack()
    assert 2 == consumer._new_offset(A0)


@pytest.mark.asyncio
async def test_a_revoked_partition_takes_its_chunks_along(
    consumer: ingest.BatchConsumer,
) -> None:
    """They are void at once, count as nothing to wait for, and commit nothing."""
    consumer._thread.taken.append(part(A0, 0, 2))
    consumer._hand_out_taken()
    event = queue(consumer, A0).get_nowait()
    consumer.track_message(event.message)
    assert consumer.is_current(chunk_of(event))
    consumer._close(A0)
    assert not consumer.is_current(chunk_of(event))
    assert not consumer.unacked
    assert event.ack() is False
    assert consumer.processed(A0) is None
    assert consumer._new_offset(A0) is None


@pytest.mark.asyncio
async def test_each_stream_of_a_topic_must_acknowledge(
    app: faust.App, consumer: ingest.BatchConsumer
) -> None:
    """Two agents read ``b``: the chunk is done when both are."""
    second = app.topic("b").clone(is_iterator=True)
    app.topics.add(cast(TopicT, second))
    await app.topics.on_partitions_assigned({A0, A1, B0})
    consumer._thread.taken.append(part(B0, 0, 2))
    consumer._hand_out_taken()
    first, other = (q.get_nowait() for q in consumer._queues(B0))
    assert first.value is other.value
    first.ack()
    assert 0 == consumer.processed(B0)
    other.ack()
    assert 2 == consumer.processed(B0)


@pytest.mark.asyncio
async def test_a_commit_is_dropped_where_a_rebalance_came_in_between(
    consumer: ingest.BatchConsumer,
) -> None:
    """Offsets drawn up under the last ledger must not pass the new one's holes."""
    consumer._thread.taken.append(part(A0, 0, 2))
    consumer._hand_out_taken()
    queue(consumer, A0).get_nowait().ack()
    drawn_up = consumer._filter_committable_offsets([A0])
    assert {A0: 2} == drawn_up
    consumer._ledgers[A0] = Ledger(2, 0, None)
    # There is no broker: a commit that was not dropped would fail.
    assert await consumer._commit_offsets(drawn_up) is False


@pytest.mark.asyncio
async def test_reached_follows_the_agent_and_then_the_log(
    consumer: ingest.BatchConsumer,
) -> None:
    """What waits in the queue is not reached; past the last chunk, markers are."""
    consumer._ledgers[A0] = Ledger(1, 10, 10)
    assert consumer.resumed_at(A0) == 10
    assert consumer.reached(A0, None) == 10
    consumer._thread.taken += [part(A0, 10, 12), part(A0, 12, 14)]
    consumer._thread.taken.append(Taken(A0, 1, 14, [], 15))
    consumer._hand_out_taken()
    assert consumer.reached(A0, None) == 10
    assert consumer.reached(A0, 12) == 12
    # The last chunk was looked at, and offset 14 is a marker.
    assert consumer.reached(A0, 14) == 15
    assert consumer.processed(A0) == 10
    assert consumer.reached(TP("elsewhere", 0), None) is None
    assert consumer.resumed_at(TP("elsewhere", 0)) is None


@pytest.mark.asyncio
async def test_what_is_left_ends_with_the_last_fetch(
    consumer: ingest.BatchConsumer, thread: BatchConsumerThread
) -> None:
    """The end is what the last fetch told; without one, nothing is known."""
    assert consumer.left(A0, None) == 0
    fetcher = Fetcher([A0])
    thread._consumer = cast(Any, fetcher)
    cast(Any, fetcher)._subscription = fetcher._subscriptions
    state = fetcher._subscriptions.subscription.assignment.state_value
    state(TopicPartition(*A0)).lso = 4
    consumer._thread.taken += [part(A0, 0, 2), part(A0, 2, 4)]
    consumer._hand_out_taken()
    assert [4, 2, 0] == [consumer.left(A0, at) for at in (None, 2, 4)]
    assert consumer.committed_lag() == {A0: 4}
