"""A contestant as a process: what it says, what it uses, how it is ended."""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.benchmarks.job import Job, Mark, job_argument

ROOT = Path(__file__).parents[2]
STOP_LIMIT_S = 20.0
POLL_S = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")


class ContestantError(Exception):
    """A contestant ended, or did not do its job in time; holds what it logged."""


class Process:
    """A running contestant; see ``start``."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._marks: dict[str, asyncio.Future[Mark]] = {}
        self._reading = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    async def mark(self, name: str, limit_s: float) -> Mark:
        """Waits for what the contestant says.

        Raises:
            ContestantError: It ended before, or said nothing in time.
        """
        said = self._future(name)
        ended = asyncio.create_task(self._process.wait())
        try:
            async with asyncio.timeout(limit_s):
                either: set[asyncio.Future[Any]] = {said, ended}
                await asyncio.wait(either, return_when="FIRST_COMPLETED")
                if not said.done():
                    # Its last line may still be in the pipe.
                    await self._reading
        except TimeoutError:
            pass
        finally:
            ended.cancel()
        if not said.done():
            raise ContestantError(f"no {name!r} within {limit_s} s\n{self.log_tail()}")
        return said.result()

    async def ready(self, port: int, limit_s: float) -> float:
        """Waits until a worker says that it reads.

        Args:
            port: Of its probes.
            limit_s: Longest wait, seconds.

        Returns:
            When it was so, seconds since the epoch.

        Raises:
            ContestantError: It ended, or took too long.
        """
        deadline_s = time.monotonic() + limit_s
        async with aiohttp.ClientSession() as session:
            while time.monotonic() < deadline_s:
                self.check()
                with suppress(aiohttp.ClientError, OSError):
                    async with session.get(f"http://127.0.0.1:{port}/readyz") as got:
                        if got.status == HTTPStatus.OK:
                            return time.time()
                await asyncio.sleep(POLL_S)
        raise ContestantError(f"not ready within {limit_s} s\n{self.log_tail()}")

    def check(self) -> None:
        """Makes sure that it runs.

        Raises:
            ContestantError: It ended.
        """
        if not self.is_running:
            raise ContestantError(
                f"ended with {self._process.returncode}\n{self.log_tail()}"
            )

    def cpu_s(self) -> float:
        """User and system time it used so far, seconds, all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def rss_bytes(self) -> int:
        """Resident memory now."""
        return _status_bytes(self.pid, "VmRSS")

    def peak_rss_bytes(self) -> int:
        """Resident memory at its highest."""
        return _status_bytes(self.pid, "VmHWM")

    def log_tail(self) -> str:
        """The end of what it logged."""
        return self._log.read_text(errors="replace")[-2000:]

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends it: with a signal, and without mercy after a while."""
        if self.is_running:
            self._process.send_signal(number)
            try:
                async with asyncio.timeout(STOP_LIMIT_S):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        await self._reading

    def _future(self, name: str) -> asyncio.Future[Mark]:
        if name not in self._marks:
            self._marks[name] = asyncio.get_running_loop().create_future()
        return self._marks[name]

    async def _read(self) -> None:
        stream = self._process.stdout
        while stream is not None and (line := await stream.readline()):
            try:
                mark = msgspec.json.decode(line, type=Mark)
            except msgspec.DecodeError:
                continue
            said = self._future(mark.name)
            if not said.done():
                said.set_result(mark)


def _status_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _log_of(home: Path) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    return home / "log"


async def start_command(
    module: str, argument: str, home: Path, python: str = sys.executable
) -> Process:
    """Starts a module with one argument.

    Args:
        module: Its full name.
        argument: On its command line.
        home: Directory of its log; created.
        python: The interpreter.
    """
    log = _log_of(home)
    keep = {n: os.environ[n] for n in ("PATH", "HOME", "LANG") if n in os.environ}
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            python,
            "-m",
            module,
            argument,
            cwd=ROOT,
            env={**keep, "PYTHONPATH": str(ROOT)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    return Process(process, log)


async def start(module: str, job: Job, python: str) -> Process:
    """Starts a contestant.

    Args:
        module: Its module, within this package.
        job: What it is told; its ``home`` is created.
        python: The interpreter.
    """
    return await start_command(
        f"tests.benchmarks.{module}", job_argument(job), Path(job.home), python
    )
