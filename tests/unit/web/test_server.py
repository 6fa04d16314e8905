"""The probes and the scrape over HTTP."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import ClientSession
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from streams.metrics import Build, KnownLabels, Metrics, new_registry
from streams.web import Facts, WebServer, create_web

pytestmark = pytest.mark.asyncio

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@dataclass
class Observed:
    """A health source that says what the test last told it."""

    now: Facts = field(default_factory=Facts)

    def facts(self) -> Facts:
        return self.now


def _nothing() -> None:
    """Bring no gauge up to date."""


@asynccontextmanager
async def served(
    observed: Observed,
    registry: CollectorRegistry | None = None,
    before_scrape: Callable[[], None] = _nothing,
) -> AsyncIterator[ClientSession]:
    """A server on a free loopback port, and a session whose base is its URL."""
    app = create_web(
        registry or CollectorRegistry(), observed, before_scrape=before_scrape
    )
    server = WebServer(app)
    await server.start()
    try:
        async with ClientSession(f"http://127.0.0.1:{server.port}") as session:
            yield session
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("path", "status"), [("/livez", 200), ("/healthz", 200), ("/readyz", 503)]
)
async def test_recovering_worker_is_live_and_not_ready(path: str, status: int) -> None:
    """A worker that recovers is left alone and not used."""
    observed = Observed(Facts(started=True, recovery_remaining={"runs": 3}))
    async with served(observed) as session, session.get(path) as response:
        assert status == response.status


async def test_body_gives_reasons_with_figures() -> None:
    """A person reading the probe sees what is left, and no cache keeps it."""
    observed = Observed(Facts(started=True, recovery_remaining={"runs": 3}))
    async with served(observed) as session, session.get("/readyz") as response:
        assert {
            "status": "unavailable",
            "reasons": [{"code": "recovering", "records": 3, "tables": {"runs": 3}}],
        } == await response.json()
        assert "no-store" == response.headers["Cache-Control"]


async def test_probe_follows_the_facts() -> None:
    """The answer changes with the worker, from one request to the next."""
    observed = Observed(Facts(started=True))
    async with served(observed) as session:
        async with session.get("/readyz") as response:
            before = (response.status, await response.json())
        observed.now = Facts(started=True, draining=True)
        async with session.get("/readyz") as response:
            after = response.status
    assert ((200, {"status": "ok", "reasons": []}), 503) == (before, after)


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz", "/metrics"])
async def test_head_is_get_without_a_body(path: str) -> None:
    """HEAD gives the status and length that GET gives."""
    async with (
        served(Observed(Facts(started=True)), new_registry()) as session,
        session.get(path) as got,
        session.head(path) as headed,
    ):
        assert (got.status, 0) == (headed.status, len(await headed.read()))
        assert got.headers["Content-Type"] == headed.headers["Content-Type"]


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz", "/metrics"])
async def test_writing_methods_are_refused(path: str) -> None:
    """Nothing can be changed over HTTP."""
    async with served(Observed()) as session, session.post(path) as response:
        assert 405 == response.status


async def test_nothing_else_is_served() -> None:
    """No table, no page, no index."""
    async with served(Observed()) as session, session.get("/") as response:
        assert 404 == response.status


async def test_scrape_answers_in_the_format_asked_for() -> None:
    """OpenMetrics where asked for, else the text format; both parse."""
    registry = new_registry()
    Metrics(registry, KnownLabels(topics=("eval.scored",)), Build(version="1"))
    async with served(Observed(), registry) as session:
        async with session.get("/metrics", headers={"Accept": OPENMETRICS}) as response:
            assert "application/openmetrics-text" == response.content_type
            text_asked_for = await response.text()
        async with session.get("/metrics") as response:
            assert "text/plain" == response.content_type
            text = await response.text()
    openmetrics = parse_openmetrics(text_asked_for)  # type: ignore[no-untyped-call]  # the client's parser has no types
    assert {family.name for family in parse_text(text)} == {
        family.name for family in openmetrics
    }


async def test_scrape_brings_gauges_up_to_date_first() -> None:
    """What ``before_scrape`` sets is in the same scrape."""
    registry = CollectorRegistry()
    gauge = Gauge("pathgate_ready", "Ready.", registry=registry)
    async with (
        served(Observed(), registry, lambda: gauge.set(1)) as session,
        session.get("/metrics") as response,
    ):
        assert "pathgate_ready 1.0" in await response.text()


async def test_default_address_is_loopback() -> None:
    """Nothing listens beyond the machine unless someone says so."""
    server = WebServer(create_web(CollectorRegistry(), Observed()))
    await server.start()
    try:
        assert "127.0.0.1" == server.address
    finally:
        await server.stop()
