"""What contestants published, and what they should have."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.core.arguments import ArgsDigester
from streams.core.context import Context
from streams.core.policy import Policy
from streams.replay import FileGrader, Line
from streams.suites import compile_suites, load_directory
from tests.benchmarks.job import Job
from tests.benchmarks.process import ContestantError, Process
from tests.benchmarks.workload import Event

POLL_S = 0.05
_BLOCK_LINES = 4000


class Expected(NamedTuple):
    """Digests of the records that are due.

    Args:
        suites: Run id -> digest of its suite summary.
        tasks: ``runId#taskId`` -> digest of the task summary.
    """

    suites: Mapping[bytes, bytes]
    tasks: Mapping[bytes, bytes]


class Published(NamedTuple):
    """What a contestant published.

    Args:
        at_s: When the last record that was due was appended, seconds since the
            epoch, the broker's clock.
        cpu_s: What the processes had used shortly after.
        records: Records it wrote, revisions included.
        wrong: Keys whose newest record is not what the file grader gives.
    """

    at_s: float
    cpu_s: float
    records: int
    wrong: int


class _TaskKey(msgspec.Struct):
    taskId: str  # noqa: N815 - the wire's name


class _TaskRecordKey(msgspec.Struct):
    task: _TaskKey


_task_id = msgspec.json.Decoder(_TaskRecordKey)


def digest_of(value: bytes | None) -> bytes:
    """Short digest of a record."""
    return hashlib.sha256(value or b"").digest()[:8]


def context_of(suites_dir: Path) -> Context:
    """What the file grader needs, with a worker's default policy."""
    digester = ArgsDigester(None)
    suites = compile_suites(load_directory(suites_dir), digester)
    return Context(policy=Policy(), digester=digester, suites=suites)


def expected_of(events: Iterable[Event], suites_dir: Path) -> Expected:
    """What the file grader makes of events.

    Raises:
        ValueError: It rejected one.
    """

    def reject(_source: str, number: int, error: Exception) -> None:
        raise ValueError(f"event {number} was rejected: {error}")

    suites: dict[bytes, bytes] = {}
    tasks: dict[bytes, bytes] = {}
    with FileGrader(context_of(suites_dir), reject) as grader:
        block: list[Line] = []
        for number, event in enumerate(events, 1):
            block.append(Line(number, event.data))
            if len(block) == _BLOCK_LINES:
                grader.add("events", block)
                block = []
        grader.add("events", block)
        for run in grader.finish():
            suites[run.run_id.encode()] = digest_of(run.record)
            for task in run.tasks:
                key = f"{run.run_id}#{_task_id.decode(task).task.taskId}"
                tasks[key.encode()] = digest_of(task)
    return Expected(suites, tasks)


@asynccontextmanager
async def open_consumer(bootstrap: str) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer in no group."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=4 * 1024 * 1024,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def await_outputs(
    job: Job, expected: Expected, processes: Sequence[Process], limit_s: float
) -> Published:
    """Waits until everything that is due is published, and looks at it.

    Only log ends are asked for until there are as many records as keys: the
    watcher takes next to nothing from the contestant.

    Args:
        job: The topics.
        expected: What is due.
        processes: Who does the job; their CPU time is read.
        limit_s: Longest wait, seconds.

    Raises:
        ContestantError: One ended, or they did not get there.
    """
    wanted = {job.task_summary: expected.tasks, job.suite_summary: expected.suites}
    deadline_s = time.monotonic() + limit_s
    async with open_consumer(job.bootstrap) as consumer:
        tps = [TopicPartition(t, n) for t in wanted for n in range(job.partitions)]
        due = _Due(wanted)
        consumer.assign(tps)
        while True:
            ends = await consumer.end_offsets(tps)
            for process in processes:
                process.check()
            used_s = sum(process.cpu_s() for process in processes)
            if all(
                sum(end for tp, end in ends.items() if tp.topic == topic) >= len(keys)
                for topic, keys in wanted.items()
            ):
                await due.read_up_to(consumer, ends)
                if not due.missing and not due.wrong:
                    break
            if time.monotonic() > deadline_s:
                if due.missing or not due.records:
                    raise ContestantError(
                        f"published {sum(ends.values())} records, {due.missing} of"
                        f" those due are missing after {limit_s} s\n"
                        + processes[0].log_tail()
                    )
                break
            await asyncio.sleep(POLL_S)
    return Published(due.done_at_s, used_s, due.records, due.wrong)


class _Due:
    """Compares what is read with what is due."""

    def __init__(self, wanted: Mapping[str, Mapping[bytes, bytes]]) -> None:
        self._wanted = wanted
        self._right: dict[tuple[str, bytes], bool] = {}
        self._count = sum(map(len, wanted.values()))
        self.records = 0
        self.done_at_s = 0.0

    @property
    def missing(self) -> int:
        """Keys without a record."""
        return self._count - len(self._right)

    @property
    def wrong(self) -> int:
        """Keys whose newest record is another than expected."""
        return sum(not right for right in self._right.values())

    async def read_up_to(
        self, consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]
    ) -> None:
        """Reads on to these log ends."""
        while [tp for tp in ends if await consumer.position(tp) < ends[tp]]:
            fetched = await consumer.getmany(timeout_ms=200)
            for tp, records in fetched.items():
                keys = self._wanted[tp.topic]
                for record in records:
                    self.records += 1
                    right = keys.get(record.key) == digest_of(record.value)
                    place = (tp.topic, record.key)
                    if self._right.get(place) is not right:
                        self._right[place] = right
                        if right:
                            self.done_at_s = max(
                                self.done_at_s, record.timestamp / 1000
                            )
