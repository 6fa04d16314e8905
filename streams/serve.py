"""Runs a worker from start to drain: checks, services, signals."""

import asyncio
import signal
import time
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from streams.app import Worker, versions
from streams.collector import tune_collector
from streams.core.arguments import ArgsDigester
from streams.core.compiled import CompiledSuite
from streams.datadir import LAYOUT_VERSION, DataDir, Mark
from streams.errors import AccessDeniedError
from streams.health import Observed
from streams.heap import bound_heap
from streams.kafka import Survey, connect
from streams.metrics import new_registry
from streams.settings import Settings
from streams.suites import compile_suites, digester_from, load_directory
from streams.suitetopic import follow_suites
from streams.topics import TopicsError, check, table_from
from streams.web import WebServer, create_web

logger = structlog.get_logger()

DRAIN_LIMIT_S = 20.0
STOP_LIMIT_S = 30.0
CLOSE_LIMIT_S = 5.0
SUITES_LIMIT_S = 30.0


async def serve(settings: Settings) -> int:
    """Runs a worker until it is told to stop.

    Args:
        settings: Everything an operator may choose.

    Returns:
        0 after SIGINT or SIGTERM and a clean drain.

    Raises:
        PathgateError: Brokers unreachable, topics wrong, rights missing, a
            state directory or suites that cannot be used; each says what to do.
        Exception: What stopped a running worker; nothing that rests on it was
            committed.
    """
    bound_heap()
    digester = digester_from(settings)
    suites = load_suites(settings, digester)
    cluster_id = await check_cluster(settings)
    mark = Mark(
        layout=LAYOUT_VERSION,
        cluster_id=cluster_id,
        app_id=settings.app_id,
        partitions=settings.partitions,
    )
    tune_collector()
    with DataDir(Path(settings.data_dir), mark):
        return await _Service(settings, suites, new_registry()).run()


def load_suites(settings: Settings, digester: ArgsDigester) -> dict[str, CompiledSuite]:
    """The suites of ``suites_dir``; none where that is not set.

    Raises:
        SuitesError: A suite that cannot be used.
    """
    if not settings.suites_dir:
        return {}
    return compile_suites(load_directory(Path(settings.suites_dir)), digester)


async def check_cluster(settings: Settings) -> str:
    """Makes sure that topics and rights are as they must be.

    Returns:
        The cluster's id.

    Raises:
        BrokerUnavailableError: No broker answers.
        AccessDeniedError: A right is missing; names it and its topic.
        TopicsError: A topic is missing or differs; names it and the remedy.
    """
    table = table_from(settings)
    async with connect(settings) as cluster:
        survey: Survey = await cluster.survey(spec.name for spec in table)
        if survey.denied:
            raise AccessDeniedError("\n".join(str(right) for right in survey.denied))
        problems = check(survey.found, table, settings)
        if problems:
            raise TopicsError(problems)
        missing = await cluster.probe_rights(table, settings.app_id)
        if missing:
            raise AccessDeniedError("\n".join(str(right) for right in missing))
        return await cluster.identify()


class _Service:
    """One run of a worker."""

    def __init__(
        self,
        settings: Settings,
        suites: dict[str, CompiledSuite],
        registry: CollectorRegistry,
    ) -> None:
        self._settings = settings
        self._failed: asyncio.Future[BaseException] = (
            asyncio.get_running_loop().create_future()
        )
        self._told_to_stop = asyncio.Event()
        self.worker = Worker(settings, suites, registry, self._fail)
        self.observed = Observed(self.worker)
        self._web = WebServer(
            create_web(
                registry, self.observed, before_scrape=self.observed.refresh_gauges
            ),
            settings.web_host,
            settings.web_port,
        )

    def _fail(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_result(error)

    async def run(self) -> int:
        """Starts everything, waits, drains, stops."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._told_to_stop.set)
        await self._web.start()
        web = f"{self._web.address}:{self._web.port}"
        logger.info("worker_starting", web=web, **versions())
        following = asyncio.create_task(self._follow_suites())
        watching = asyncio.create_task(self.observed.watch())
        try:
            for publisher in self.worker.publishers:
                await publisher.start()
            await self._wait_for_suites(following)
            await self.worker.app.start()
            await self._until_told()
        finally:
            watching.cancel()
            following.cancel()
            await self._stop()
        if self._failed.done():
            raise self._failed.result()
        return 0

    async def _follow_suites(self) -> None:
        self._suites_read = asyncio.Event()
        await follow_suites(
            self._settings,
            self.worker.digester,
            self.worker.learn_suite,
            self._suites_read,
        )

    async def _wait_for_suites(self, following: asyncio.Task[None]) -> None:
        """Runs are graded once the suites that were published are known."""
        await asyncio.sleep(0)
        waiting = asyncio.create_task(self._suites_read.wait())
        await asyncio.wait(
            {waiting, following},
            timeout=SUITES_LIMIT_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
        waiting.cancel()
        if following.done():
            following.result()
        following.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._fail(task.exception() or RuntimeError("suites"))

    async def _until_told(self) -> None:
        app = self.worker.app
        crashed = asyncio.create_task(_crash_of(app))
        told = asyncio.create_task(self._told_to_stop.wait())
        try:
            waited: set[asyncio.Future[Any]] = {crashed, told, self._failed}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if crashed.done() and not told.done():
                self._fail(crashed.result())
        finally:
            crashed.cancel()
            told.cancel()

    async def _stop(self) -> None:
        self.observed.draining = True
        began_s = time.monotonic()
        if not self._failed.done():
            await _within(DRAIN_LIMIT_S, self.worker.hub.drain())
        await _within(STOP_LIMIT_S, self.worker.app.stop())
        await _within(DRAIN_LIMIT_S, self.worker.hub.revoke())
        for publisher in self.worker.publishers:
            await _within(CLOSE_LIMIT_S, publisher.stop())
        await self._web.stop()
        logger.info("worker_stopped", took_s=round(time.monotonic() - began_s, 2))


async def _within(limit_s: float, work: Awaitable[object]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(work, limit_s)


async def _crash_of(app: object) -> BaseException:
    """Waits until the app crashes; what it crashed with."""
    crashed = app._crashed  # type: ignore[attr-defined]  # noqa: SLF001  # mode has no public wait
    await crashed.wait()
    reason: BaseException | None = getattr(app, "_crash_reason", None)
    return reason or RuntimeError("the stream processors crashed")
