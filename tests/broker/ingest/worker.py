"""A Faust worker over the batched consumer, in this process, driven by a test.

Its agent notes each chunk and, as the worker was told, acknowledges it at once,
keeps it, or waits. Run as a script it is a process of its own, to be killed.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Self, cast

import faust
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from faust.types import TP, EventT
from mode import CrashingSupervisor

from streams import ingest

# Long enough for a rebalance on a busy machine; a test that waits this long fails.
PATIENCE_S = 40.0


async def until(true: Callable[[], bool], what: str) -> None:
    """Waits for a condition that other tasks bring about."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE_S:.0f} s in vain: {what}") from None


def create_app(bootstrap: str, group: str, datadir: Path, **settings: Any) -> faust.App:
    """An app that touches nothing outside ``datadir`` and opens no port."""
    defaults: dict[str, Any] = {
        "broker": "kafka://" + bootstrap,
        "store": "memory://",
        "datadir": str(datadir),
        "web_enabled": False,
        "topic_allow_declare": False,
        "topic_disable_leader": True,
        "topic_replication_factor": 1,
        "consumer_auto_offset_reset": "earliest",
        "stream_wait_empty": False,
        "broker_commit_interval": 0.2,
        "broker_session_timeout": 10.0,
        "broker_heartbeat_interval": 0.5,
        "agent_supervisor": CrashingSupervisor,
        "table_standby_replicas": 0,
    }
    return faust.App(group, **{**defaults, **settings})


def chunk_of(event: EventT[Any]) -> ingest.Chunk:
    """The event's value, which Faust holds to be bytes or a model."""
    return cast(ingest.Chunk, event.value)


def _nothing(_: ingest.Chunk) -> None:
    pass


class Worker:
    """One worker whose agents keep what they are given.

    Attributes:
        seen: Every event, in the order in which the agents got them.
        acks: Whether the agents acknowledge at once.
        open: While this is not set, the agents wait after each chunk.
        on_chunk: Called in the agent with each chunk.
    """

    def __init__(
        self,
        app: faust.App,
        topics: Collection[str],
        *,
        acks: bool = True,
        others: Collection[str] = (),
        one_agent: bool = False,
        **options: Any,
    ) -> None:
        self.app = app
        self.bootstrap = str(app.conf.broker[0]).removeprefix("kafka://")
        self.acks = acks
        self.seen: list[EventT[Any]] = []
        self.singles: list[EventT[bytes]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.on_chunk: Callable[[ingest.Chunk], None] = _nothing
        ingest.install(app, topics, **options)
        for agents_topics in [topics] if one_agent else [[topic] for topic in topics]:
            self._agent(agents_topics, self._note_chunks)
        for topic in others:
            self._agent([topic], self._note_singles)

    def _agent(
        self,
        topics: Collection[str],
        body: Callable[[Any], Awaitable[None]],
    ) -> None:
        channel = self.app.topic(
            *topics,
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",
            value_serializer="raw",
        )
        self.app.agent(channel, name="agent-" + "-".join(topics))(body)

    async def _note_chunks(self, stream: Any) -> None:
        async for event in stream.noack().events():
            self.seen.append(event)
            self.on_chunk(chunk_of(event))
            if self.acks:
                event.ack()
            await self.open.wait()

    async def _note_singles(self, stream: Any) -> None:
        async for event in stream.noack().events():
            self.singles.append(event)
            event.ack()

    @property
    def consumer(self) -> ingest.BatchConsumer:
        """The app's consumer."""
        return cast(ingest.BatchConsumer, self.app.consumer)

    async def __aenter__(self) -> Self:
        """Starts the worker; partitions come later."""
        await self.app.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stops it in good order."""
        self.open.set()
        await self.app.stop()

    def chunks(self, tp: TP | None = None) -> list[ingest.Chunk]:
        """The chunks seen, of one partition or of all."""
        return [chunk_of(e) for e in self.seen if tp is None or e.message.tp == tp]

    def offsets(self, tp: TP) -> list[int]:
        """Offsets of the records seen of a partition, in the order of arrival."""
        return [r.offset for chunk in self.chunks(tp) for r in chunk.records]

    async def has_seen(self, tp: TP, count: int) -> None:
        """Waits until ``count`` records of the partition were handed out."""
        await until(lambda: len(self.offsets(tp)) >= count, f"{count} records of {tp}")

    async def owns(self, tps: Collection[TP]) -> None:
        """Waits until these are the partitions that are being read."""
        ledgers = self.consumer._ledgers
        await until(
            lambda: set(ledgers) == set(tps) and not self.app.rebalancing, f"own {tps}"
        )

    async def commits(self, tp: TP, offset: int) -> None:
        """Waits until the group's committed offset is ``offset``."""
        await commits(self.bootstrap, self.app.conf.id, tp, offset)


async def commits(bootstrap: str, group: str, tp: TP, offset: int) -> None:
    """Waits until the group's committed offset is ``offset``."""
    async with asyncio.timeout(PATIENCE_S):
        while (await committed(bootstrap, group)).get(tp) != offset:
            await asyncio.sleep(0.05)


async def committed(bootstrap: str, group: str) -> dict[TP, int]:
    """The group's offsets as the broker has them."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        found = await admin.list_consumer_group_offsets(group)
    finally:
        await admin.close()
    return {TP(*tp): meta.offset for tp, meta in found.items()}


async def produce(
    bootstrap: str,
    topic: str,
    values: Collection[bytes | None],
    *,
    partition: int = 0,
    **options: Any,
) -> None:
    """Writes the values to one partition, in few batches, and waits for the acks."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=5, **options
    )
    async with producer:
        # The client insists on a key for a tombstone; all else goes without one.
        sent = [
            await producer.send(
                topic, value, b"gone" if value is None else None, partition
            )
            for value in values
        ]
        await asyncio.gather(*sent)


async def _main(told: Mapping[str, Any]) -> None:
    """Prints a line for each chunk; keeps the ``hang_at``-th half done, for ever."""
    app = create_app(told["bootstrap"], told["group"], Path(told["datadir"]))
    seen = 0

    @app.agent(app.topic(told["topic"], value_type=bytes, value_serializer="raw"))
    async def note(stream: Any) -> None:
        nonlocal seen
        async for event in stream.noack().events():
            records = event.value.records
            half = records[: len(records) // 2]
            for part in (half, records[len(half) :]):
                for record in part:
                    sys.stdout.write(f"{record.offset}\n")
                sys.stdout.flush()
                if seen == told["hang_at"]:
                    sys.stdout.write("hanging\n")
                    sys.stdout.flush()
                    await asyncio.Event().wait()
            seen += 1
            event.ack()

    # After the agents, unlike above: either order will do.
    ingest.install(app, [told["topic"]], chunk_records=told["chunk_records"])
    await app.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
