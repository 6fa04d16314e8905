"""Wires the worker: settings in, a Faust app and its services out."""

import asyncio
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import faust
import mode
import structlog
from faust.types import TP
from prometheus_client import CollectorRegistry

from streams import ingest
from streams.agents.committer import Committer
from streams.agents.hub import Hub
from streams.agents.lookup import Baselines, LateStarts, Rebuilder
from streams.agents.records import Recorder
from streams.agents.services import Services
from streams.agents.shard import Options, Shard
from streams.clock import Clock, SystemClock
from streams.core.compiled import CompiledSuite
from streams.core.context import Context
from streams.kafka import client_options
from streams.kafka.faust_auth import faust_credentials
from streams.metrics import Build, KnownLabels, Metrics
from streams.publish import Publisher
from streams.recovery import table_manager
from streams.settings import Settings, policy_from
from streams.suites import add_suite, digester_from
from streams.tables import RunTable
from streams.topics import TABLE_NAME, names_from, partition_for

logger = structlog.get_logger()


class Worker:
    """The parts of a worker, wired and not started.

    Args:
        settings: Everything an operator may choose.
        suites: ``suiteId@version`` -> suite, known at start; grows.
        registry: Where metrics are registered.
        clock: Seconds since the epoch; the machine's if None.
        fail: Called with what no retry mends; has the process end.

    Attributes:
        app: The Faust app.
        hub: The partitions.
        metrics: The recorder.
        publishers: Write outputs, and changelogs.
    """

    def __init__(
        self,
        settings: Settings,
        suites: dict[str, CompiledSuite],
        registry: CollectorRegistry,
        fail: Callable[[BaseException], None],
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self.names = names_from(settings)
        self.clock = clock or SystemClock()
        self.suites = suites
        self.fail = fail
        self.digester = digester_from(settings)
        self.policy = policy_from(settings)
        self.context = Context(
            policy=self.policy, digester=self.digester, suites=suites
        )
        self.metrics = Metrics(
            registry,
            KnownLabels(
                topics=self.names.sources,
                tables=(TABLE_NAME,),
                suites={
                    suite.suite_id: self.bar_of(suite) for suite in suites.values()
                },
            ),
            Build(version=version("pathgate"), revision="unknown"),
        )
        publisher = Publisher(client_options(settings))
        changelog = Publisher(client_options(settings))
        self.publishers = (publisher, changelog)
        baselines = Baselines(settings, self.names)
        rebuilder = Rebuilder(settings, self.names, self.context)
        self.services = Services(
            settings=settings,
            names=self.names,
            metrics=self.metrics,
            clock=self.clock,
            recorder=Recorder(
                self.names, self.policy, settings.severity_of, f"/{settings.app_id}"
            ),
            publisher=publisher,
            changelog=changelog,
            baseline=baselines.aggregate_of,
            rebuild=rebuilder.rebuild,
        )
        self.late_starts = LateStarts(
            settings, self.names, self.clock, self._resumed_at
        )
        self.app = create_app(settings, self._recovery_left)
        self.table = RunTable(
            self.app,
            name=TABLE_NAME,
            partitions=settings.partitions,
            key_type=bytes,
            value_type=bytes,
        )
        self.app.tables.add(self.table)
        self.hub = Hub(self.services, lambda: self.consumer, self._build, fail)
        self._declare_agents()
        self._follow_assignment()

    @property
    def consumer(self) -> ingest.BatchConsumer:
        """The running app's consumer."""
        return cast(ingest.BatchConsumer, self.app.consumer)

    def bar_of(self, suite: CompiledSuite) -> float | None:
        """The bar a suite is held to."""
        declared = suite.thresholds.pass_score
        return self.policy.default_pass_score if declared is None else declared

    def learn_suite(self, suite: CompiledSuite) -> None:
        """Takes a suite that was published.

        Raises:
            SuiteConflictError: It is known with another content.
        """
        if not add_suite(self.suites, suite):
            return
        self.metrics.declare_suite(suite.suite_id, self.bar_of(suite))
        self.hub.learn_suite(suite)

    def _declare_agents(self) -> None:
        sources = (*self.names.sources, self.names.control)
        for topic in sources:
            channel = self.app.topic(
                topic,
                key_type=bytes,
                value_type=bytes,
                key_serializer="raw",
                value_serializer="raw",
            )
            self.app.agent(channel, name=f"read-{topic}", concurrency=1)(self.hub.read)
        ingest.install(
            self.app,
            sources,
            chunk_records=self.settings.chunk_records,
        )

    def _follow_assignment(self) -> None:
        async def on_revoked(*_: Any, **__: Any) -> None:
            await self.hub.revoke()
            self.late_starts.revoke()
            # Nothing of ours may follow what the next owner writes.
            await asyncio.gather(*(one.settle() for one in self.publishers))

        async def on_ready(*_: Any, **__: Any) -> None:
            self.metrics.rebalanced()
            await self.hub.revoke()
            partitions = self._active_partitions()
            await self.hub.assign(partitions)
            logger.info("partitions_assigned", partitions=partitions)
            shards = {p: one.shard for p, one in self.hub.assigned.items()}
            self.late_starts.assign(shards, self.fail)

        self.app.on_partitions_revoked.connect(on_revoked, weak=False)
        self.app.on_rebalance_complete.connect(on_ready, weak=False)

    def _active_partitions(self) -> list[int]:
        source = self.names.sources[0]
        actives = self.app.assignor.assigned_actives()
        return sorted(tp.partition for tp in actives if tp.topic == source)

    def _resumed_at(self, tp: TP) -> int | None:
        return self.consumer.resumed_at(tp)

    def _recovery_left(self, _topic: str, records: int) -> None:
        self.metrics.set_recovery_remaining(TABLE_NAME, records)

    def _build(self, partition: int) -> tuple[Shard, Committer]:
        settings = self.settings

        def belongs(run_id: str, where: int) -> bool:
            home = partition_for(
                run_id.encode(), settings.partitions, settings.partitioner
            )
            return home == where

        share = max(1, len(self._active_partitions()))
        shard = Shard(
            partition,
            self.table.partition(partition),
            self.context,
            Options(
                hold=len(self.names.sources) > 1,
                belongs=belongs,
                host_verdict_grace_s=settings.host_verdict_grace_s,
                cache_runs=max(100, settings.cache_runs // share),
            ),
        )
        return shard, Committer(shard, self.services)


def create_app(
    settings: Settings, recovery_left: Callable[[str, int], None]
) -> faust.App:
    """The Faust app of a worker, without tables and agents.

    Args:
        settings: Brokers, group, intervals, state directory.
        recovery_left: Told changelog topic and records left to recover.

    Source: FAUST.md's rules, as settings; each is pinned by a test.
    """
    return faust.App(
        settings.app_id,
        env_prefix="PATHGATE_FAUST",
        broker=[
            f"kafka://{server.strip()}"
            for server in settings.bootstrap_servers.split(",")
        ],
        broker_credentials=faust_credentials(settings),
        broker_client_id=settings.client_id,
        store="rocksdb://?driver=rocksdict",
        datadir=str(Path(settings.data_dir) / "tables"),
        processing_guarantee="at_least_once",
        agent_supervisor=mode.CrashingSupervisor,
        TableManager=table_manager(settings, recovery_left),
        broker_commit_interval=settings.commit_interval_s,
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=min(3.0, settings.session_timeout_s / 3),
        broker_rebalance_timeout=60.0,
        broker_request_timeout=max(90.0, settings.session_timeout_s + 10.0),
        # 0 or None would evict idle workers at once.
        broker_max_poll_interval=30 * 86_400.0,
        consumer_group_instance_id=settings.group_instance_id or None,
        consumer_auto_offset_reset="earliest",
        # Chunks that wait for the barrier are read again by the next owner.
        stream_wait_empty=False,
        stream_publish_on_commit=False,
        stream_buffer_maxsize=4,
        producer_acks=-1,
        producer_request_timeout=120.0,
        producer_threaded=False,
        table_standby_replicas=settings.standby_replicas,
        recovery_consistency_check=True,
        topic_allow_declare=False,
        topic_disable_leader=True,
        topic_partitions=settings.partitions,
        topic_replication_factor=settings.replication_factor,
        web_enabled=False,
        web_tables_enabled=False,
        web_router_enabled=False,
        key_serializer="raw",
        value_serializer="raw",
        cython_optimizations=False,
        loghandlers=[],
    )


def versions() -> dict[str, str]:
    """Versions of what a worker rests on, for logs and bug reports."""
    names = ("pathgate", "faust-streaming", "aiokafka", "rocksdict", "msgspec")
    return {name: version(name) for name in names} | {
        "python": platform.python_version()
    }
