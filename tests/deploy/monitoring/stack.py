"""Prometheus, Alertmanager and a webhook on free loopback ports, for one test."""

import asyncio
import re
import runpy
import socket
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from aiohttp import ClientError, ClientSession, web

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
DEADLINE_S = 60.0
SAMPLE_WEBHOOK = "http://127.0.0.1:8099"

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Notified:
    """One alert as a receiver got it.

    Args:
        receiver: Last part of the webhook's path, one for each receiver.
        status: ``firing`` or ``resolved``.
        labels: The alert's labels.
        annotations: The alert's annotations.
    """

    receiver: str
    status: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def name(self) -> str:
        """The alert's name."""
        return self.labels["alertname"]


@dataclass(slots=True)
class Webhook:
    """Collects what Alertmanager sends."""

    notified: list[Notified] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def application(self) -> web.Application:
        """The HTTP side: any path; its last part names the receiver."""
        app = web.Application()
        app.router.add_post("/{receiver}", self._take)
        return app

    async def _take(self, request: web.Request) -> web.Response:
        body: Json = await request.json()
        async with self.changed:
            self.notified.extend(
                Notified(
                    receiver=request.match_info["receiver"],
                    status=alert["status"],
                    labels=alert["labels"],
                    annotations=alert["annotations"],
                )
                for alert in body["alerts"]
            )
            self.changed.notify_all()
        return web.Response()

    async def until(
        self, name: str, receiver: str, within_s: float = DEADLINE_S
    ) -> Notified:
        """The first firing alert of this name at this receiver.

        Raises:
            AssertionError: It did not come in time; says what did.
        """

        def found() -> Notified | None:
            for alert in self.notified:
                if (alert.name, alert.receiver) == (name, receiver):
                    return alert if alert.status == "firing" else None
            return None

        async with self.changed:
            try:
                async with asyncio.timeout(within_s):
                    await self.changed.wait_for(lambda: found() is not None)
            except TimeoutError:
                came = sorted({(alert.name, alert.receiver) for alert in self.notified})
                raise AssertionError(
                    f"no {name} at {receiver} within {within_s} s; came: {came}"
                ) from None
        alert = found()
        assert alert is not None
        return alert


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """A running stack.

    Args:
        prometheus_url: Base URL of Prometheus.
        alertmanager_url: Base URL of Alertmanager.
        webhook: What the receivers got.
        session: For requests to them.
    """

    prometheus_url: str
    alertmanager_url: str
    webhook: Webhook
    session: ClientSession

    async def query(self, expr: str) -> list[Json]:
        """The samples an instant query gives now."""
        url = f"{self.prometheus_url}/api/v1/query"
        async with self.session.get(url, params={"query": expr}) as response:
            body = await response.json()
        return cast("list[Json]", body["data"]["result"])

    async def until_query(self, expr: str, within_s: float = DEADLINE_S) -> list[Json]:
        """The samples of a query, once there are any.

        Raises:
            AssertionError: There were none in time.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while loop.time() < until_s:
            if found := await self.query(expr):
                return found
            await asyncio.sleep(0.2)
        raise AssertionError(f"{expr} gave nothing within {within_s} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _rules() -> str:
    """Our rules with every wait cut to a second; expressions as shipped."""
    folder = DEPLOY / "prometheus"
    config = tomllib.loads((folder / "config.toml").read_text("utf-8"))
    config["for"] = dict.fromkeys(config["for"], "1s")
    config["keep_firing_for"] = dict.fromkeys(config["keep_firing_for"], "1s")
    config["evaluation_interval"] = "1s"
    render = cast(
        "Callable[[str, Json], str]",
        runpy.run_path(str(folder / "render.py"))["render"],
    )
    return render((folder / "rules.yml.in").read_text("utf-8"), config)


def _alertmanager_config(webhook_url: str) -> str:
    """Our routes and inhibitions, towards the test's webhook, without waits."""
    text = (DEPLOY / "alertmanager" / "alertmanager.yml").read_text("utf-8")
    assert SAMPLE_WEBHOOK in text
    text = text.replace(SAMPLE_WEBHOOK, webhook_url)
    return re.sub(r"(group_wait|group_interval): \w+", r"\1: 1s", text)


def _prometheus_config(targets: Sequence[str], alertmanager_port: int) -> str:
    """The shape of our sample, towards the test's ports, every second."""
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text("utf-8")
    replaced = {
        r"scrape_interval: \w+": "scrape_interval: 1s",
        r"evaluation_interval: \w+": "evaluation_interval: 1s",
        r"127\.0\.0\.1:9093": f"127.0.0.1:{alertmanager_port}",
        r'\["127\.0\.0\.1:8321"\]': "["
        + ", ".join(f'"{one}"' for one in targets)
        + "]",
    }
    for pattern, by in replaced.items():
        text, count = re.subn(pattern, by, text)
        assert count == 1, pattern
    return text


def _tail(log: Path) -> str:
    return log.read_text("utf-8", errors="replace")[-2000:]


@asynccontextmanager
async def _process(
    log: Path, *command: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process whose output goes to a log; ended on the way out."""
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=out, stderr=asyncio.subprocess.STDOUT, cwd=log.parent
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _is_ready(session: ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/-/ready") as response:
            return response.status == 200
    except ClientError:
        return False


async def _until_ready(
    session: ClientSession, url: str, process: asyncio.subprocess.Process
) -> bool:
    """Whether the process became ready; at once False where it ended."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + DEADLINE_S
    while process.returncode is None and loop.time() < until_s:
        if await _is_ready(session, url):
            return True
        await asyncio.sleep(0.1)
    return False


@asynccontextmanager
async def running_stack(
    tools: Path, directory: Path, targets: Sequence[str]
) -> AsyncIterator[Stack]:
    """Prometheus and Alertmanager over our files, scraping ``targets``.

    Args:
        tools: Directory of the executables.
        directory: Where configurations, data and logs go.
        targets: ``host:port`` of each ``/metrics`` to scrape, as job ``pathgate``.

    Raises:
        AssertionError: One of them did not start; ends with its log.
    """
    webhook = Webhook()
    ports = {"prometheus": _free_port(), "alertmanager": _free_port()}
    urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    async with AsyncExitStack() as exits:
        session = await exits.enter_async_context(ClientSession())
        runner = web.AppRunner(webhook.application(), access_log=None)
        await runner.setup()
        exits.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        webhook_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        files = {
            "rules.yml": _rules(),
            "alertmanager.yml": _alertmanager_config(webhook_url),
            "prometheus.yml": _prometheus_config(targets, ports["alertmanager"]),
        }
        for name, text in files.items():
            (directory / name).write_text(text, "utf-8")
        commands = {
            "alertmanager": (
                "--config.file=alertmanager.yml",
                "--storage.path=alertmanager",
                "--cluster.listen-address=",
            ),
            "prometheus": (
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=prometheus",
                "--log.level=warn",
            ),
        }
        for name, options in commands.items():
            listen = f"--web.listen-address=127.0.0.1:{ports[name]}"
            log = directory / f"{name}.log"
            process = await exits.enter_async_context(
                _process(log, str(tools / name), *options, listen)
            )
            if not await _until_ready(session, urls[name], process):
                raise AssertionError(f"{name} did not start: {_tail(log)}")
        yield Stack(
            prometheus_url=urls["prometheus"],
            alertmanager_url=urls["alertmanager"],
            webhook=webhook,
            session=session,
        )
