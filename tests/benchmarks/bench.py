"""What every measure is given, and one contestant's turn at a loaded workload."""

import asyncio
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.benchmarks.job import Job, Mark
from tests.benchmarks.loading import create_topics, load_all, sources_of
from tests.benchmarks.outputs import Expected, await_outputs, expected_of
from tests.benchmarks.process import ContestantError, Process, start
from tests.benchmarks.workload import Shape, events_of, write_suites

START_LIMIT_S = 120.0
PARTITIONS = 3


class Contestant(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes part.

    Args:
        name: For people.
        module: Within this package.
        needs: Package that must be installed; empty if none.
        is_durable: See ``Job``.
        is_slow: Whether it is given the small workload, to end this year.
    """

    name: str
    module: str
    needs: str = ""
    is_durable: bool = True
    is_slow: bool = False


PATHGATE = Contestant(name="pathgate", module="contestant_pathgate")
DRAIN = Contestant(name="bare drain", module="contestant_drain")


class Loaded(NamedTuple):
    """A workload in its topics.

    Args:
        shape: What it is made of.
        job: Its sources; a contestant gets its own outputs.
        expected: What the file grader makes of it.
    """

    shape: Shape
    job: Job
    expected: Expected


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant's turn.

    Args:
        wall_s: From the first event in the contestant's hands to the last
            record that was due in the broker's log (or, of the drain, to the
            last event read).
        cpu_s: User and system time of the process in that time.
        events: Events that the sources hold.
        records: Records published.
        wrong: Keys whose newest record is not what the file grader gives.
        peak_rss_bytes: Resident memory at its highest.
    """

    wall_s: float
    cpu_s: float
    events: int
    records: int
    wrong: int
    peak_rss_bytes: int

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.wall_s

    @property
    def rate_per_cpu(self) -> float:
        """Events a CPU second."""
        return self.events / self.cpu_s


class Bench:
    """One run of the benchmark.

    Args:
        bootstrap: The brokers.
        home: Directory of everything on disk.
        is_short: Whether only the code is to be tried.
        events: Events of a full workload.
        rounds: How often turns are repeated.
        peers_python: Interpreter that has the peers.

    Attributes:
        turns: Every turn that was taken, by contestant.
    """

    def __init__(
        self,
        bootstrap: str,
        home: Path,
        *,
        is_short: bool = False,
        events: int = 560_000,
        rounds: int = 3,
        peers_python: str = sys.executable,
    ) -> None:
        self.bootstrap = bootstrap
        self.home = home
        self.is_short = is_short
        self.events = events
        self.rounds = rounds
        self.peers_python = peers_python
        self.turns: list[tuple[str, Turn]] = []
        self._numbers = itertools.count()

    def on(self, bootstrap: str) -> "Bench":
        """The same on other brokers."""
        other = copy(self)
        other.bootstrap = bootstrap
        return other

    @property
    def own_python(self) -> str:
        """The interpreter of all that is no peer."""
        return sys.executable

    @property
    def cores(self) -> int:
        """Processors that may be used."""
        return len(os.sched_getaffinity(0))

    def say(self, text: str) -> None:
        """Tells how far it is."""
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def is_installed(self, package: str) -> bool:
        """Whether a peer can take part."""
        command = [self.peers_python, "-c", f"import {package}"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def job(self, name: str, **values: object) -> Job:
        """A job with topics, group and directory of its own.

        Args:
            name: Stem.
            values: What differs.
        """
        group = f"{name}-{next(self._numbers)}"
        job = Job(
            bootstrap=self.bootstrap,
            sources=sources_of(group),
            task_summary=f"{group}.task-summary",
            suite_summary=f"{group}.suite-summary",
            group=group,
            suites_dir=str(self.home / "suites"),
            home=str(self.home / group),
            partitions=PARTITIONS,
            events=0,
        )
        return msgspec.structs.replace(job, **values)

    async def load(
        self, shape: Shape, *, partitions: int = PARTITIONS, is_graded: bool = True
    ) -> Loaded:
        """Puts a workload into topics of its own.

        Args:
            shape: The workload.
            partitions: Of its topics.
            is_graded: Whether anybody will ask what is expected.
        """
        suites = write_suites(self.home / "suites", shape)
        job = self.job(shape.name, partitions=partitions, events=shape.events)
        count = await load_all(job, events_of(shape))
        if count != shape.events:
            raise RuntimeError(f"{shape} gave {count} events, not {shape.events}")
        expected = Expected({}, {})
        if is_graded:
            expected = await asyncio.to_thread(expected_of, events_of(shape), suites)
        self.say(f"  {count:,} events in the topics of {job.group}")
        return Loaded(shape, job, expected)

    @asynccontextmanager
    async def running(self, contestant: Contestant, job: Job) -> AsyncIterator[Process]:
        """A contestant at work; ended, and its files removed, on leaving."""
        await create_topics(job)
        python = self.peers_python if contestant.needs else self.own_python
        process = await start(contestant.module, job, python)
        try:
            yield process
        finally:
            await process.stop()
            shutil.rmtree(job.home, ignore_errors=True)

    def turn_job(self, contestant: Contestant, loaded: Loaded) -> Job:
        """The job of a contestant's turn: sources shared, outputs its own."""
        return self.job(
            re.sub("[^a-z]+", "-", contestant.name),
            sources=loaded.job.sources,
            partitions=loaded.job.partitions,
            events=loaded.job.events,
            is_durable=contestant.is_durable,
        )

    async def turn(self, contestant: Contestant, loaded: Loaded) -> Turn:
        """Has a contestant do the whole job once.

        Raises:
            ContestantError: It did not.
        """
        job = self.turn_job(contestant, loaded)
        limit_s = 120 + loaded.shape.events / 400
        async with self.running(contestant, job) as process:
            first = await process.mark("first", START_LIMIT_S)
            if contestant.module == DRAIN.module:
                turn = await self._drained(process, first, loaded)
            else:
                done = await await_outputs(job, loaded.expected, [process], limit_s)
                turn = Turn(
                    wall_s=done.at_s - first.at_s,
                    cpu_s=max(0.01, done.cpu_s - first.cpu_s),
                    events=loaded.shape.events,
                    records=done.records,
                    wrong=done.wrong,
                    peak_rss_bytes=process.peak_rss_bytes(),
                )
        self.turns.append((contestant.name, turn))
        self.say(
            f"  {contestant.name}: {turn.rate:,.0f} events/s,"
            f" {turn.rate_per_cpu:,.0f} a CPU second, {turn.wrong} wrong"
        )
        return turn

    async def _drained(self, process: Process, first: Mark, loaded: Loaded) -> Turn:
        done = await process.mark("done", START_LIMIT_S)
        return Turn(
            wall_s=done.at_s - first.at_s,
            cpu_s=max(0.01, done.cpu_s - first.cpu_s),
            events=loaded.shape.events,
            records=0,
            wrong=0,
            peak_rss_bytes=0,
        )


__all__ = [
    "DRAIN",
    "PARTITIONS",
    "PATHGATE",
    "START_LIMIT_S",
    "Bench",
    "Contestant",
    "ContestantError",
    "Loaded",
    "Turn",
]
