"""One deployment on the broker: topics of its own, hosts, workers, what they publish."""

import asyncio
import itertools
import json
import signal
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from streams.core.context import Context
from streams.kafka import connect
from streams.settings import Partitioner, Settings, policy_from
from streams.suites import compile_suites, digester_from, load_directory
from streams.topics import TopicNames, names_from, partition_for, table_from
from streams.verify import Verified, verify
from tests.broker.worker.oracle import Expected, differences, grade
from tests.broker.worker.process import PATIENCE_S, WorkerProcess
from tests.broker.worker.workload import (
    UNKNOWN_SUITE,
    Event,
    Json,
    Log,
    RunLog,
    topic_kind,
)

PARTITIONS = 3

# Quick everywhere; what a test is about it sets itself.
_SETTINGS: dict[str, object] = {
    "partitions": PARTITIONS,
    "replication_factor": 1,
    "min_insync_replicas": 1,
    "web_port": 0,
    "barrier_interval_s": 0.02,
    "tick_interval_s": 0.2,
    "commit_interval_s": 0.2,
    "session_timeout_s": 6.0,
    "host_verdict_grace_s": 0.3,
    "log_format": "json",
}

# Eval runs that a host tier works on at once.
_HOSTS = 48


class Site:
    """A deployment, from its topics to its workers.

    Args:
        bootstrap: The broker.
        name: Group, and prefix of every topic.
        home: Directory of everything on disk.
        settings: What differs from the quick defaults.
        suites: Documents of the suites; written to a directory.
    """

    def __init__(
        self,
        bootstrap: str,
        name: str,
        home: Path,
        *,
        suites: Sequence[Json] = (),
        **settings: object,
    ) -> None:
        self.home = home
        self.suites = list(suites)
        flags = {
            **_SETTINGS,
            "bootstrap_servers": bootstrap,
            "app_id": name,
            "topic_prefix": f"{name}.",
            "data_dir": str(home / "data"),
            **settings,
        }
        if self.suites:
            flags["suites_dir"] = str(home / "suites")
            write_suites(home / "suites", self.suites)
        self.flags = {key: _text(value) for key, value in flags.items()}
        self.settings = Settings.load(self.flags, {})
        self.names: TopicNames = names_from(self.settings)
        self.workers: list[WorkerProcess] = []
        self.published = Published(self)
        self._fences = itertools.count()

    @property
    def bootstrap(self) -> str:
        """The broker."""
        return self.settings.bootstrap_servers

    # -- life

    async def __aenter__(self) -> Self:
        """Creates the topics."""
        async with connect(self.settings) as cluster:
            for made in await cluster.create(table_from(self.settings)):
                assert made.outcome != "refused", made
        await self.published.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends what was started, and removes the topics."""
        for worker in self.workers:
            worker.end()
        await self.published.close()
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            await admin.delete_topics([one.name for one in table_from(self.settings)])
        finally:
            await admin.close()

    def start_worker(self, name: str = "w1", **settings: object) -> WorkerProcess:
        """Starts a worker; one name, one state directory and log."""
        own = {"data_dir": str(self.home / name), **settings}
        flags = self.flags | {key: _text(value) for key, value in own.items()}
        worker = WorkerProcess(flags, self.home / f"{name}.log")
        self.workers.append(worker)
        return worker

    async def worker(self, name: str = "w1", **settings: object) -> WorkerProcess:
        """Starts a worker and waits until it reads."""
        worker = self.start_worker(name, **settings)
        await worker.ready()
        return worker

    # -- hosts

    def topic_of(self, event: Event) -> str:
        """The topic that an event goes to."""
        name: str = getattr(self.names, topic_kind(event.type))
        return name

    def home_of(self, run_id: str) -> int:
        """The partition a run belongs to."""
        return partition_for(run_id.encode(), PARTITIONS, self.settings.partitioner)

    @asynccontextmanager
    async def host(self) -> AsyncIterator["Host"]:
        """Somebody who publishes events."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, acks="all", linger_ms=1
        )
        async with producer:
            yield Host(self, producer)

    async def publish(self, *logs: Log) -> None:
        """Publishes runs as well-behaved hosts do."""
        async with self.host() as host:
            await host.run_all(logs)

    async def publish_suite(self, suite: Json) -> None:
        """Writes a suite to the topic of suites."""
        key = f"{suite['suiteId']}@{suite['version']}".encode()
        async with self.host() as host:
            await host.producer.send_and_wait(
                self.names.suite_definition, json.dumps(suite).encode(), key
            )

    # -- what is published

    def expected(self, events: Iterable[Event | bytes]) -> Expected:
        """What the file grader makes of events."""
        return grade(events, self.suites, self.settings)

    async def settles(
        self, expected: Expected, limit_s: float = 0, *, fence: bool = True
    ) -> None:
        """Waits until the newest records are exactly these, and stay so.

        Args:
            expected: All there should be.
            limit_s: Longest wait, seconds.
            fence: Whether to make sure that nothing else is on its way: what was
                read before further runs were graded is graded too.
        """
        try:
            await self.published.wait_for(
                lambda seen: not _wrong(expected, seen),
                limit_s,
                lambda seen: _wrong(expected, seen),
            )
        except AssertionError as late:
            late.add_note(f"not committed: {await self.uncommitted()}")
            raise
        if fence:
            await self.fence()
            wrong = _wrong(expected, self.published)
            assert not wrong, "\n".join(wrong[:5])

    async def fence(self) -> None:
        """Waits until everything published before is read, on all partitions."""
        numbers = itertools.count()
        runs = []
        for partition in range(PARTITIONS):
            stem = f"{_FENCE}{next(self._fences):08d}-"
            run_id = next(
                run_id
                for number in numbers
                if self.home_of(run_id := f"{stem}{number:08d}") == partition
            )
            run = RunLog(run_id)
            run.start(UNKNOWN_SUITE)
            run.end()
            runs.append(run)
        await self.publish(*(run.log for run in runs))
        wanted = {run.run_id for run in runs}
        await self.published.wait_for(lambda seen: wanted <= seen.fences)

    async def verified(self, *, repair: bool = False) -> Verified:
        """What ``verify`` says of it."""
        digester = digester_from(self.settings)
        context = Context(
            policy=policy_from(self.settings),
            digester=digester,
            suites=compile_suites(load_directory(self.home / "suites"), digester),
        )
        return await verify(self.settings, context, repair=repair)

    async def commits_all(self) -> None:
        """Waits until the group has committed all that the sources hold."""
        wanted = await self._source_ends()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not wanted.items() <= (await self.group_offsets()).items():
                    await asyncio.sleep(0.1)
        except TimeoutError:
            left = await self.uncommitted()
            raise AssertionError(f"never committed: {left}") from None

    async def uncommitted(self) -> dict[tuple[str, int], tuple[int | None, int]]:
        """Source partitions whose (committed offset, end) differ."""
        committed = await self.group_offsets()
        return {
            tp: (committed.get(tp), end)
            for tp, end in (await self._source_ends()).items()
            if committed.get(tp) != end
        }

    async def _source_ends(self) -> dict[tuple[str, int], int]:
        tps = [
            TopicPartition(topic, number)
            for topic in self.names.sources
            for number in range(PARTITIONS)
        ]
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap)
        await consumer.start()
        try:
            ends = await consumer.end_offsets(tps)
        finally:
            await consumer.stop()
        return {(tp.topic, tp.partition): end for tp, end in ends.items() if end}

    async def group_offsets(self) -> dict[tuple[str, int], int]:
        """The group's committed offsets."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            found = await admin.list_consumer_group_offsets(self.settings.app_id)
        finally:
            await admin.close()
        return {(tp.topic, tp.partition): meta.offset for tp, meta in found.items()}

    async def read(self, topic: str) -> list[ConsumerRecord]:
        """Every record that a topic holds now."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            partitions = range(
                1 if topic == self.names.suite_definition else PARTITIONS
            )
            tps = [TopicPartition(topic, number) for number in partitions]
            consumer.assign(tps)
            return [one async for one in _up_to_end(consumer, tps)]
        finally:
            await consumer.stop()


_FENCE = "fence/run-"


class Host:
    """Publishes events.

    Args:
        site: Where to.
        producer: How; Java's partitioner.
    """

    def __init__(self, site: Site, producer: AIOKafkaProducer) -> None:
        self.site = site
        self.producer = producer

    async def run_all(self, logs: Iterable[Log], hosts: int = _HOSTS) -> None:
        """Publishes runs side by side, each as a well-behaved host does."""
        rest = iter(logs)

        async def work() -> None:
            for log in rest:
                await self.run(log)

        await asyncio.gather(*(work() for _ in range(hosts)))

    async def run(self, log: Log) -> None:
        """Publishes a run: what went to one topic is acknowledged before the next."""
        topic = ""
        sent: list[asyncio.Future[Any]] = []
        for event in log:
            to = self.site.topic_of(event)
            if to != topic:
                await asyncio.gather(*sent)
                topic, sent = to, []
            sent.append(await self.send(event))
        await asyncio.gather(*sent)

    async def send(
        self,
        event: Event,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> "asyncio.Future[Any]":
        """Hands an event over; what is returned is done when it is acknowledged."""
        topic = self.site.topic_of(event)
        key = event.run_id.encode()
        sent: asyncio.Future[Any] = await self.producer.send(
            topic, event.data, key, partition, timestamp_ms
        )
        return sent

    async def abort_transaction(self, partition: int) -> None:
        """Leaves a record that no reader may see, and a marker, on every source."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self.site.bootstrap,
            transactional_id=f"{self.site.settings.app_id}-t",
        )
        async with producer:
            await producer.begin_transaction()
            for topic in self.site.names.sources:
                await producer.send_and_wait(topic, b"{}", b"key", partition)
            await producer.abort_transaction()

    async def send_all(self, events: Iterable[Event]) -> None:
        """Publishes events in this order, waiting for nothing in between."""
        await asyncio.gather(*[await self.send(event) for event in events])


class Published:
    """Everything the workers published, in order.

    Attributes:
        records: Topic -> records, ordered within a partition.
        fences: Ids of the runs that only mark a place.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._names = site.names
        self.records: dict[str, list[ConsumerRecord]] = defaultdict(list)
        self.fences: set[str] = set()

    async def open(self) -> None:
        """Begins to read."""
        names = self._names
        topics = (
            names.task_summary,
            names.suite_summary,
            names.gate_alert,
            names.dead_letter,
        )
        self._tps = [
            TopicPartition(topic, number)
            for topic in topics
            for number in range(PARTITIONS)
        ]
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._site.bootstrap,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
        )
        await self._consumer.start()
        self._consumer.assign(self._tps)

    async def close(self) -> None:
        """Stops reading."""
        await self._consumer.stop()

    async def refresh(self) -> None:
        """Reads what is there now."""
        async for record in _up_to_end(self._consumer, self._tps):
            run_id = (record.key or b"").decode(errors="replace")
            if run_id.startswith(_FENCE):
                if record.topic == self._names.suite_summary:
                    self.fences.add(run_id)
                continue
            self.records[record.topic].append(record)

    async def wait_for(
        self,
        true: Callable[["Published"], bool],
        limit_s: float = 0,
        why: Callable[["Published"], object] = lambda _: "what was waited for",
    ) -> None:
        """Reads until a condition holds."""
        limit_s = limit_s or PATIENCE_S
        try:
            async with asyncio.timeout(limit_s):
                await self.refresh()
                while not true(self):
                    self._check_workers()
                    await asyncio.sleep(0.05)
                    await self.refresh()
        except TimeoutError:
            reasons = why(self)
            if isinstance(reasons, list):
                reasons = f"{len(reasons)} wrong:\n" + "\n".join(reasons[:3])
            raise AssertionError(f"waited {limit_s:.0f} s in vain: {reasons}") from None

    def _check_workers(self) -> None:
        """Workers that fell are no reason to wait: tests that fell them say so."""
        workers = self._site.workers
        if workers and not any(worker.is_running for worker in workers):
            raise AssertionError(f"no worker is left:\n{workers[-1].text()[-3000:]}")

    def newest(self, topic: str) -> dict[str, bytes | None]:
        """Key -> newest value."""
        return {one.key.decode(): one.value for one in self.records[topic]}

    @property
    def suites(self) -> dict[str, bytes | None]:
        """Run id -> newest suite summary."""
        return self.newest(self._names.suite_summary)

    @property
    def tasks(self) -> dict[str, bytes | None]:
        """``runId#taskId`` -> newest task summary."""
        return self.newest(self._names.task_summary)

    def history(self, key: str) -> list[ConsumerRecord]:
        """All revisions of a key's summary, oldest first."""
        topic = self._names.task_summary if "#" in key else self._names.suite_summary
        return [one for one in self.records[topic] if one.key == key.encode()]

    def summaries(self, run_id: str) -> list[Json]:
        """All revisions of a run's suite summary, oldest first."""
        return [json.loads(one.value) for one in self.history(run_id)]

    def alerts(self, run_id: str) -> list[Json]:
        """The alerts about a run, oldest first."""
        key = run_id.encode()
        found = self.records[self._names.gate_alert]
        return [json.loads(one.value) for one in found if one.key == key]

    def alert_kinds(self, run_id: str) -> list[str]:
        """The kinds of the alerts about a run, oldest first."""
        return [alert["kind"] for alert in self.alerts(run_id)]


async def _up_to_end(
    consumer: AIOKafkaConsumer, tps: Sequence[TopicPartition]
) -> AsyncIterator[ConsumerRecord]:
    """The records between the consumer's positions and the ends of the logs."""
    ends: Mapping[TopicPartition, int] = await consumer.end_offsets(tps)
    while any([await consumer.position(tp) < ends[tp] for tp in tps]):
        for records in (await consumer.getmany(timeout_ms=200)).values():
            for record in records:
                yield record


def _wrong(expected: Expected, seen: Published) -> list[str]:
    return [
        *differences(expected.suites, seen.suites),
        *differences(expected.tasks, seen.tasks),
    ]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_suites(path: Path, suites: Sequence[Json]) -> None:
    """Writes suites to a directory, one a file."""
    path.mkdir(parents=True, exist_ok=True)
    for one in suites:
        file = path / f"{one['suiteId']}-{one['version']}.json"
        file.write_text(json.dumps(one), encoding="utf-8")


def reason_codes(summary: Json) -> list[str]:
    """The codes of a record's reasons."""
    return [reason["code"] for reason in summary["reasons"]]


__all__ = [
    "PARTITIONS",
    "Host",
    "Partitioner",
    "Published",
    "Site",
    "reason_codes",
    "signal",
    "write_suites",
]
