"""What a contestant is told, what it says, and the grading that peers share.

Every contestant is a process of its own: its only argument is a ``Job`` in
JSON, and it writes one line to standard output when it takes its first event.
What it published is read from the topics, so that all are judged alike.

The peers grade with the project's own core, so that what differs is the
framework around it. They are spared what only pathgate does: sealing by log
ends (they grade when a run's events are gapless, which their reading of the
topics gives for free), task summaries ahead of the suite's, revisions, alerts,
audit counters, and state kept after the verdict.
"""

import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from schemas.codec import encode
from schemas.events import Envelope, Payload
from streams import collector
from streams.core.arguments import ArgsDigester
from streams.core.context import Context
from streams.core.policy import Policy
from streams.core.rows import (
    ROW_VERSION,
    RowStatus,
    RunRow,
    decode_row,
    encode_row,
    flags_of,
    restore_state,
)
from streams.core.run import RunState
from streams.core.summarize import grade_run, task_record
from streams.publish import event_headers
from streams.suites import compile_suites, load_directory

# How often contestants commit offsets, or close an epoch: Faust's and
# pathgate's interval; Bytewax's default is 10 s and Quix Streams' 5 s, in which
# a workload could pass without one snapshot.
COMMIT_INTERVAL_S = 1.0


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant's task.

    Args:
        bootstrap: The brokers.
        sources: Field of ``TopicNames`` -> topic that is read.
        task_summary: Topic of the task summaries.
        suite_summary: Topic of the suite summaries.
        group: Consumer group, or whatever the framework makes of it.
        suites_dir: Directory of the suites.
        home: Directory of everything on disk.
        partitions: Of every topic.
        events: Events that the sources hold.
        is_durable: Whether state is kept durably; where it can be chosen.
        settings: Further settings of the worker.
    """

    bootstrap: str
    sources: dict[str, str]
    task_summary: str
    suite_summary: str
    group: str
    suites_dir: str
    home: str
    partitions: int
    events: int
    is_durable: bool = True
    settings: dict[str, str] = msgspec.field(default_factory=dict)


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a contestant says about itself.

    Args:
        name: ``first``: the first event reached the contestant's own code.
            ``done``: only of those that publish nothing.
        at_s: Seconds since the epoch.
        cpu_s: User and system time of the process so far.
    """

    name: str
    at_s: float
    cpu_s: float


def read_job() -> Job:
    """The job on the command line."""
    return msgspec.json.decode(sys.argv[1], type=Job)


def tune_collector() -> None:
    """Gives a peer the collector settings that the worker gives itself.

    With Python's defaults Bytewax, which holds all open runs as objects, spends
    a good part of its time in walks over them; that is no fault of its design.
    """
    collector.tune_collector()


def say(name: str) -> None:
    """Writes a mark."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    mark = Mark(name=name, at_s=time.time(), cpu_s=used.ru_utime + used.ru_stime)
    sys.stdout.write(msgspec.json.encode(mark).decode() + "\n")
    sys.stdout.flush()


class Output(NamedTuple):
    """One record to publish.

    Args:
        topic: Where to.
        key: UTF-8.
        value: The record.
        headers: As the worker writes them.
    """

    topic: str
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


class PeerGrader:
    """Folds events into runs, and gives the records of runs that are whole.

    Args:
        job: Topics and suites.
    """

    def __init__(self, job: Job) -> None:
        digester = ArgsDigester(None)
        suites = compile_suites(load_directory(Path(job.suites_dir)), digester)
        self._context = Context(policy=Policy(), digester=digester, suites=suites)
        self._job = job

    def fold(self, state: RunState, envelope: Envelope, payload: Payload) -> bool:
        """Folds an event in; whether the run is whole with it."""
        state.apply(envelope, payload, self._context)
        ended = state.ended
        return (
            ended is not None
            and state.completed is not None
            and len(state.facts) == ended.sequence + 1
        )

    def records(self, state: RunState) -> Iterator[Output]:
        """The records of a run that is whole."""
        job, suite = self._job, state.suite
        graded = grade_run(state, suite, self._context.policy)
        if suite is not None:
            for figures in graded.figures:
                record = task_record(state, suite, figures)
                key = f"{state.run_id}#{figures.task.task_id}"
                yield _output(state, job.task_summary, "task", key, record)
        yield _output(
            state, job.suite_summary, "suite", state.run_id, graded.suite_record
        )

    def dump(self, state: RunState) -> bytes:
        """A run's state as it is stored: the worker's own encoding."""
        row = RunRow(
            ROW_VERSION,
            RowStatus.OPEN,
            0.0,
            flags=flags_of(state),
            latest_at=state.latest_at,
            tail=list(state.facts.values()),
        )
        return encode_row(row)

    def load(self, run_id: str, data: bytes | None) -> RunState:
        """A run's state as it was stored; a new one if it was not."""
        if data is None:
            return RunState(run_id)
        return restore_state(run_id, decode_row(data), [], self._context, hold=False)


def _output(
    state: RunState, topic: str, kind: str, key: str, record: msgspec.Struct
) -> Output:
    value = encode(record)
    headers = event_headers(
        source="/bench",
        kind=f"eval.{kind}-summary",
        run_id=state.run_id,
        key=key,
        value=value,
        time=state.latest_at,
        revision=1,
    )
    return Output(topic, key.encode(), value, headers)


def job_argument(job: Job) -> str:
    """The job as a command line's argument."""
    return json.dumps(msgspec.to_builtins(job))
