"""Topics, and events in them before anybody reads."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import islice

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from streams.kafka import connect
from streams.publish import Outgoing, Publisher
from streams.settings import Settings
from streams.topics import Role, partition_for, table_from
from tests.benchmarks.contestant_pathgate import settings_of
from tests.benchmarks.job import Job
from tests.benchmarks.workload import Event

KINDS = (
    "tool_called",
    "eval_started",
    "eval_scored",
    "eval_completed",
    "run_terminal",
)
BATCH_EVENTS = 10_000
_POLL_S = 0.2


def sources_of(name: str) -> dict[str, str]:
    """Field of ``TopicNames`` -> topic, of a workload with this name."""
    return {kind: f"{name}.{kind.replace('_', '-')}" for kind in KINDS}


async def create_topics(job: Job) -> None:
    """Creates every topic of a job that is not there yet.

    What is published is stamped with the time of its appending, so that the
    broker's clock says when a record was there.
    """
    settings = settings_of(job)
    specs = [
        msgspec.structs.replace(
            spec, configs=spec.configs | {"message.timestamp.type": "LogAppendTime"}
        )
        if spec.role is Role.OUTPUT
        else spec
        for spec in table_from(settings)
    ]
    async with connect(settings) as cluster:
        for made in await cluster.create(specs):
            if made.outcome == "refused":
                raise RuntimeError(f"{made.topic}: {made.detail}")


@asynccontextmanager
async def open_publisher(bootstrap: str) -> AsyncIterator[Publisher]:
    """The project's own batched producer."""
    publisher = Publisher({"bootstrap_servers": bootstrap})
    await publisher.start()
    try:
        yield publisher
    finally:
        await publisher.stop()


class Router:
    """Makes records of events, each run's on its partition.

    Args:
        job: The topics.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._settings: Settings = settings_of(job)
        self._homes: dict[str, int] = {}

    def outgoing(self, event: Event) -> Outgoing:
        """The record of an event."""
        return Outgoing(
            self._job.sources[event.kind],
            self._home_of(event.run_id),
            event.run_id.encode(),
            event.data,
        )

    def _home_of(self, run_id: str) -> int:
        home = self._homes.get(run_id)
        if home is None:
            if len(self._homes) > BATCH_EVENTS:
                self._homes.clear()
            home = self._homes[run_id] = partition_for(
                run_id.encode(), self._job.partitions, self._settings.partitioner
            )
        return home


class Loader:
    """Puts events into the topics of a job.

    Args:
        job: The topics.
        publisher: Writes.
    """

    def __init__(self, job: Job, publisher: Publisher) -> None:
        self._router = Router(job)
        self._publisher = publisher

    async def load(self, events: Iterable[Event]) -> int:
        """Writes events, and waits until the brokers have them; how many."""
        records = map(self._router.outgoing, events)
        count = 0
        while batch := list(islice(records, BATCH_EVENTS)):
            await self._publisher.send(batch)
            count += len(batch)
        return count


async def load_all(job: Job, events: Iterable[Event]) -> int:
    """Creates a job's topics and puts events into them; how many."""
    await create_topics(job)
    async with open_publisher(job.bootstrap) as publisher:
        return await Loader(job, publisher).load(events)


def free_port() -> int:
    """A port on loopback that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


Ends = dict[TopicPartition, int]


async def log_ends(job: Job) -> Ends:
    """Where the job's sources end now; empty partitions are left out."""
    tps = [
        TopicPartition(topic, number)
        for topic in job.sources.values()
        for number in range(job.partitions)
    ]
    consumer = AIOKafkaConsumer(bootstrap_servers=job.bootstrap)
    async with consumer:
        return {tp: end for tp, end in (await consumer.end_offsets(tps)).items() if end}


async def await_commits(job: Job, ends: Ends, limit_s: float) -> None:
    """Waits until the job's group has committed these offsets.

    Raises:
        TimeoutError: It did not in time.
    """
    left = dict(ends)
    admin = AIOKafkaAdminClient(bootstrap_servers=job.bootstrap)
    await admin.start()
    try:
        async with asyncio.timeout(limit_s):
            while left:
                found = await admin.list_consumer_group_offsets(job.group)
                for tp, committed in found.items():
                    if tp in left and committed.offset >= left[tp]:
                        del left[tp]
                if left:
                    await asyncio.sleep(_POLL_S)
    finally:
        await admin.close()
