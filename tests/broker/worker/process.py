"""A worker as a process of its own: ``python -m streams.cli worker``."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[3]

# Long enough for a start on a busy machine; a test that waits this long fails.
PATIENCE_S = 60.0


async def until(true: Callable[[], bool], what: str, limit_s: float = 0) -> None:
    """Waits for a condition that something else brings about."""
    limit_s = limit_s or PATIENCE_S
    try:
        async with asyncio.timeout(limit_s):
            while not true():
                await asyncio.sleep(0.03)
    except TimeoutError:
        raise AssertionError(f"waited {limit_s:.0f} s in vain: {what}") from None


class WorkerProcess:
    """One worker, with what it logged.

    Args:
        settings: Setting -> value, as strings.
        log: File of its stderr; appended to.
        command: What is run, without the interpreter.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        log: Path,
        command: tuple[str, ...] = ("-m", "streams.cli", "worker"),
    ) -> None:
        self.log = log
        self._seen = log.stat().st_size if log.exists() else 0
        variables = {
            f"PATHGATE_{name.upper()}": text for name, text in settings.items()
        }
        keep = {
            name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ
        }
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                stdout=out,
                stderr=out,
                cwd=ROOT,
                env={**keep, "PYTHONPATH": str(ROOT), **variables},
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def text(self) -> str:
        """All that it wrote since it was started."""
        with self.log.open("rb") as file:
            file.seek(self._seen)
            return file.read().decode()

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """Its log lines, of one event if one is named."""
        found = []
        for line in self.text().splitlines():
            try:
                facts = json.loads(line)
            except ValueError:
                continue
            if not event or facts.get("event") == event:
                found.append(facts)
        return found

    async def ready(self) -> None:
        """Waits until it reads its partitions.

        Raises:
            AssertionError: It ended, or took too long.
        """
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
            while not await self._is_ready(session):
                assert self.is_running, f"the worker ended:\n{self.text()[-3000:]}"
                await asyncio.sleep(0.05)

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        address = self.address
        if not address:
            return False
        try:
            async with session.get(f"http://{address}/readyz") as answer:
                return answer.status == 200
        except (aiohttp.ClientError, OSError):
            return False

    @property
    def address(self) -> str:
        """``host:port`` of its probes; empty until it listens."""
        started = self.lines("worker_starting")
        address = str(started[-1]["web"]) if started else ""
        return address.removeprefix("http://").rstrip("/")

    async def get(self, path: str) -> str:
        """What it answers on a path of its web server."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self.address}{path}") as answer,
        ):
            return await answer.text()

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that have these labels."""
        total = 0.0
        for family in text_string_to_metric_families(await self.get("/metrics")):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    total += sample.value
        return total

    async def shows(self, name: str, value: float, limit_s: float = 0) -> None:
        """Waits until a metric has a value."""
        await self.shows_that(name, lambda found: found == value, limit_s)

    async def shows_that(
        self, name: str, true: Callable[[float], bool], limit_s: float = 0
    ) -> None:
        """Waits until something is true of a metric."""
        limit_s = limit_s or PATIENCE_S
        found = -1.0
        try:
            async with asyncio.timeout(limit_s):
                while not true(found := await self.metric(name)):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{name} is {found} after {limit_s:.0f} s") from None

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        if self.is_running:
            self._process.send_signal(number)

    async def ended(self, limit_s: float = 0) -> int:
        """Waits until it has ended; its exit code."""
        await until(lambda: not self.is_running, "the end of the worker", limit_s)
        return self._process.wait()

    async def kill(self) -> None:
        """Ends it without any warning."""
        self.send(signal.SIGKILL)
        await self.ended()

    async def stop(self, limit_s: float = 0) -> int:
        """Tells it to stop; its exit code."""
        self.send(signal.SIGTERM)
        return await self.ended(limit_s)

    def end(self) -> None:
        """Makes sure that nothing of it is left."""
        if self.is_running:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()
