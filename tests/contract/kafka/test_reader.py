"""Reading stretches without a broker: what is given out, and where it ends."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.fetcher import (
    FetchError,
    FetchResult,
    OffsetResetStrategy,
)
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import TopicAuthorizationFailedError
from aiokafka.structs import TopicPartition

from streams.kafka import LogReader
from tests.contract.kafka.batches import COMMIT, batch, fetched

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Log:
    """A consumer and its fetcher, whose answers are given; the rest is real.

    Args:
        answers: Partition -> responses in their order; a number is the answer that
            the offset asked for is gone, and where the log begins now.
    """

    def __init__(
        self, answers: dict[TopicPartition, Iterable[bytes | int | Exception]]
    ) -> None:
        self._fetcher = self
        self._records: OrderedDict[TopicPartition, Any] = OrderedDict()
        self._wait_consume_future = None
        self._answers = {tp: list(each) for tp, each in answers.items()}
        self._state = SubscriptionState()

    def assign(self, tps: list[TopicPartition]) -> None:
        """As the consumer."""
        self._state.assign_from_user(tps)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """As the consumer."""
        self._state.seek(tp, offset)

    def pause(self, *tps: TopicPartition) -> None:
        """As the consumer."""
        for tp in tps:
            self._state.subscription.assignment.state_value(tp).pause()

    async def position(self, tp: TopicPartition) -> int:
        """As the consumer."""
        at: int = self._state.subscription.assignment.state_value(tp).position
        return at

    def _create_fetch_waiter(self) -> asyncio.Future[None]:
        waiter = asyncio.get_running_loop().create_future()
        self._notify(None)
        waiter.set_result(None)
        return waiter

    def _notify(self, _: object) -> None:
        """Answers the next request, also for what was paused meanwhile."""
        assignment = self._state.subscription.assignment
        for tp, left in self._answers.items():
            if not left or tp in self._records:
                continue
            raw = left.pop(0)
            if isinstance(raw, Exception):
                self._records[tp] = FetchError(error=raw, backoff=0)
                continue
            state = assignment.state_value(tp)
            if isinstance(raw, int):
                state.await_reset(OffsetResetStrategy.EARLIEST)
                state.reset_to(raw)
                continue
            records = fetched(raw, state.position, tp=tp)
            self._records[tp] = FetchResult(
                tp, assignment=assignment, partition_records=records, backoff=0
            )


async def read(
    log: Log, spans: dict[TopicPartition, tuple[int, int]]
) -> dict[int, list[int]]:
    """Partition -> offsets that were given out, in their order."""
    found: dict[int, list[int]] = {}
    places = {(tp.topic, tp.partition): span for tp, span in spans.items()}
    reader = LogReader(cast(AIOKafkaConsumer, log))
    async with asyncio.timeout(5):
        async for (_, partition), records in reader.read(places):
            assert records
            found.setdefault(partition, []).extend(one.offset for one in records)
    return found


@pytest.mark.asyncio
async def test_every_record_of_each_stretch_is_given_out_once() -> None:
    """From the first offset to the end; what was appended meanwhile is not."""
    log = Log(
        {
            A0: [batch(0, range(4)), batch(4, range(4)) + batch(8, range(4))],
            A1: [batch(5, range(3)), batch(8, range(2))],
        }
    )
    found = await read(log, {A0: (2, 10), A1: (5, 8)})
    assert {0: [2, 3, 4, 5, 6, 7, 8, 9], 1: [5, 6, 7]} == found


@pytest.mark.asyncio
async def test_an_end_without_records_is_reached() -> None:
    """Compaction took the last offsets, or a transaction's marker has the last."""
    tail = batch(2, (), last_delta=1)
    marker = batch(2, [0, 1], marker=COMMIT, producer=7)
    for end in (tail, marker):
        log = Log({A0: [batch(0, range(2)), end]})
        assert {0: [0, 1]} == await read(log, {A0: (0, 4)})


@pytest.mark.asyncio
async def test_an_end_that_was_deleted_meanwhile_is_reached() -> None:
    """Retention took the rest: no response will ever come of it."""
    log = Log({A0: [batch(0, range(2)), 8], A1: [6, batch(6, range(4))]})
    assert {0: [0, 1], 1: [6, 7]} == await read(log, {A0: (0, 8), A1: (0, 8)})


@pytest.mark.asyncio
async def test_a_stretch_without_offsets_is_not_read() -> None:
    """There is nothing to wait for: no response is asked for."""
    log = Log({A0: [batch(3, range(1))]})
    assert {} == await read(log, {A0: (3, 3)})
    assert log._answers[A0]


@pytest.mark.asyncio
async def test_a_partition_that_cannot_be_read_is_told() -> None:
    """As aiokafka tells it; the recovery must not end without these rows."""
    log = Log({A0: [batch(0, range(2)), TopicAuthorizationFailedError("a")]})
    with pytest.raises(TopicAuthorizationFailedError, match="a"):
        await read(log, {A0: (0, 4)})
