"""The HTTP side: ``/livez``, ``/healthz``, ``/readyz``, ``/metrics``; read-only."""

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web
from mode import Service
from prometheus_client import CollectorRegistry

from streams.metrics import expose
from streams.web.health import (
    Facts,
    Health,
    HealthSource,
    Limits,
    liveness,
    readiness,
)

DEFAULT_HOST = "127.0.0.1"

_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

_Handler = Callable[[web.Request], Awaitable[web.Response]]
_Probe = Callable[[Facts, Limits], Health]


def _nothing() -> None:
    """Do nothing before a scrape."""


def create_web(
    registry: CollectorRegistry,
    health: HealthSource,
    *,
    limits: Limits | None = None,
    before_scrape: Callable[[], None] = _nothing,
) -> web.Application:
    """The web application: probes and metrics, GET and HEAD only.

    Args:
        registry: What ``/metrics`` shows.
        health: Whoever observes the worker; asked once a probe.
        limits: How long a state may last; the defaults if None.
        before_scrape: Brings gauges up to date; called at each scrape, must be
            quick and ask no broker.

    Returns:
        An application with three endpoints. A probe answers 200 or 503 with
        ``{"status": "ok" | "unavailable", "reasons": [{"code", ...figures}]}``.
    """
    bounds = limits or Limits()
    app = web.Application()
    app.router.add_get("/livez", _probe(health, bounds, liveness))
    app.router.add_get("/healthz", _probe(health, bounds, liveness))
    app.router.add_get("/readyz", _probe(health, bounds, readiness))
    app.router.add_get("/metrics", _metrics(registry, before_scrape))
    return app


def _probe(source: HealthSource, limits: Limits, decide: _Probe) -> _Handler:
    async def answer(_request: web.Request) -> web.Response:
        health = decide(source.facts(), limits)
        body = {
            "status": "ok" if health.ok else "unavailable",
            "reasons": [
                {"code": code, **figures} for code, figures in health.reasons.items()
            ],
        }
        return web.Response(
            body=msgspec.json.encode(body),
            status=200 if health.ok else 503,
            content_type="application/json",
            headers=_HEADERS,
        )

    return answer


def _metrics(
    registry: CollectorRegistry, before_scrape: Callable[[], None]
) -> _Handler:
    async def answer(request: web.Request) -> web.Response:
        before_scrape()
        body, content_type = expose(registry, request.headers.get("Accept", ""))
        return web.Response(
            body=body, headers={**_HEADERS, "Content-Type": content_type}
        )

    return answer


class WebServer(Service):
    """Serves an application from the loop it is started in.

    A ``mode`` service, so that the worker can own it; requests are not logged.

    Args:
        app: The application.
        host: Address to bind; loopback unless set otherwise.
        port: Port to bind; 0 for any free one, see ``port`` once started.
    """

    def __init__(
        self,
        app: web.Application,
        host: str = DEFAULT_HOST,
        port: int = 0,
    ) -> None:
        super().__init__()
        self._runner = web.AppRunner(app, access_log=None)
        self._host = host
        self._port = port

    @property
    def port(self) -> int:
        """The port asked for; once started, the port bound."""
        addresses = self._runner.addresses
        return int(addresses[0][1]) if addresses else self._port

    @property
    def address(self) -> str:
        """The address asked for; once started, the address bound."""
        addresses = self._runner.addresses
        return str(addresses[0][0]) if addresses else self._host

    async def on_start(self) -> None:
        """Bind and serve.

        Raises:
            OSError: The address is taken or not ours.
        """
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()

    async def on_stop(self) -> None:
        """Close the listener and finish what is being answered."""
        await self._runner.cleanup()
