"""Publishes events at a steady rate, one at a time as hosts do, and notes when.

A process of its own, so that the pace does not depend on who measures. Nothing waits
for acknowledgements, so a score may stand in its topic before its last calls stand
in theirs: the worker then waits for them, and that wait is measured too.
"""

import asyncio
import sys
import time
from pathlib import Path

import msgspec
from aiokafka import AIOKafkaProducer

from tests.benchmarks.job import Job, say
from tests.benchmarks.loading import Router
from tests.benchmarks.workload import Shape, events_of

_TICK_S = 0.004


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to publish.

    Args:
        job: Where to.
        shape: What.
        rate: Events a second.
        times: File for when each score was handed to the producer: seconds
            since the epoch, in the order of the events.
    """

    job: Job
    shape: Shape
    rate: int
    times: str


async def publish(order: Order) -> list[float]:
    """Publishes all of it; when each score was sent, seconds since the epoch."""
    sent_at_s: list[float] = []
    records = map(Router(order.job).outgoing, events_of(order.shape))
    scores = order.job.sources["eval_scored"]
    async with AIOKafkaProducer(
        bootstrap_servers=order.job.bootstrap, acks="all"
    ) as producer:
        began_s = time.monotonic()
        for number, record in enumerate(records):
            ahead_s = number / order.rate - (time.monotonic() - began_s)
            if ahead_s > _TICK_S:
                await asyncio.sleep(ahead_s)
            if record.topic == scores:
                sent_at_s.append(time.time())
            await producer.send(
                record.topic, record.value, record.key, record.partition
            )
        await producer.flush()
    return sent_at_s


if __name__ == "__main__":
    order = msgspec.json.decode(sys.argv[1], type=Order)
    sent_at_s = asyncio.run(publish(order))
    Path(order.times).write_bytes(msgspec.json.encode(sent_at_s))
    say("done")
