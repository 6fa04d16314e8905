"""The events that are measured on: eval runs, and ordinary runs between them.

No random numbers: the same shape gives the same bytes, so that two runs of the
benchmark, and the file grader beside the worker, see one input.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

SUITE_VERSION = "1.0.0"

# Of a trial's calls: the steps that its task expects, then what fills it up.
_FILL = ("read", "note")
_FORBIDDEN = "wire_money"
_SCORE = 0.9


class Event(NamedTuple):
    """One event.

    Args:
        kind: Field of ``TopicNames`` that names its topic.
        run_id: Its key.
        data: Its bytes.
    """

    kind: str
    run_id: str
    data: bytes


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload is made of.

    Args:
        name: Stem of its topics.
        runs: Eval runs.
        tasks: Tasks of their suite.
        trials: Trials of each task.
        calls: Calls of each trial, at least 2.
        ordinary: Ordinary runs for each eval run; each has as many calls as
            an eval run.
        window: Eval runs that are under way at once; their events alternate.
        first: Number of the first run.
    """

    name: str
    runs: int
    tasks: int = 5
    trials: int = 1
    calls: int = 4
    ordinary: int = 0
    window: int = 50
    first: int = 0

    @property
    def suite_id(self) -> str:
        """Id of the suite that the runs evaluate."""
        return f"bench.evals.t{self.tasks}x{self.trials}"

    @property
    def calls_per_run(self) -> int:
        """Calls of one run, eval or ordinary."""
        return self.tasks * self.trials * self.calls

    @property
    def events_per_run(self) -> int:
        """Events of one eval run, its start, verdict and ending included."""
        return self.tasks * self.trials * (self.calls + 1) + 3

    @property
    def events(self) -> int:
        """Events of the whole workload."""
        ordinary = self.ordinary * (self.calls_per_run + 1)
        return self.runs * (self.events_per_run + ordinary)

    @property
    def task_records(self) -> int:
        """Task summaries that are due, revisions apart."""
        return self.runs * self.tasks

    def sized(self, events: int) -> "Shape":
        """The same with about so many events, at least one run."""
        each = self.events // self.runs
        return msgspec.structs.replace(self, runs=max(1, events // each))


def suite_of(shape: Shape) -> dict[str, object]:
    """The suite's document.

    Every task expects a search and its own action in order and forbids wiring;
    every fifth compares two arguments of the action, so that arguments are
    digested.
    """
    document: dict[str, object] = {
        "suiteId": shape.suite_id,
        "version": SUITE_VERSION,
        "modes": ["golden"],
        "thresholds": {"passScore": 0.6},
        "tasks": [
            {
                "taskId": f"task-{number}",
                "expected": {"kind": "golden", "trajectory": _trajectory(number)},
            }
            for number in range(shape.tasks)
        ],
    }
    if shape.trials > 1:
        document["trials"] = {"count": shape.trials, "passRule": "mean"}
    return document


def _trajectory(task: int) -> Mapping[str, object]:
    step: dict[str, object] = {"tool": f"act_{task}"}
    if task % 5 == 0:
        step |= {"args": {"account": "A-17", "limit": 10}, "argsMatch": "subset"}
    return {
        "match": "in-order",
        "steps": [{"tool": "search"}, step],
        "forbidden": ["wire_*"],
    }


def write_suites(directory: Path, *shapes: Shape) -> Path:
    """Writes the suites of these shapes; returns the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for shape in shapes:
        path = directory / f"{shape.suite_id}.json"
        path.write_text(json.dumps(suite_of(shape)), encoding="utf-8")
    return directory


def events_of(shape: Shape) -> Iterator[Event]:
    """All events, as hosts that work side by side publish them."""
    runs = _runs(shape)
    width = shape.window * (1 + shape.ordinary)
    while under_way := list(islice(runs, width)):
        while under_way:
            going_on = []
            for run in under_way:
                event = next(run, None)
                if event is not None:
                    yield event
                    going_on.append(run)
            under_way = going_on


def _runs(shape: Shape) -> Iterator[Iterator[Event]]:
    for number in range(shape.first, shape.first + shape.runs):
        yield _eval_run(shape, number)
        for further in range(shape.ordinary):
            yield _ordinary_run(shape, number * shape.ordinary + further)


_ENVELOPE = (
    b'{"eventId":"evt-%010d-%08d","runId":"%s","type":"%s","payload":%s,'
    b'"timestamp":"2026-11-30T%02d:%02d:%02d.%03dZ","sequence":%d,"schemaVersion":1}'
)
_CALL = (
    b'{"agentId":"acme.agent","toolName":"%s","callId":"call-%d-%d","inputs":'
    b'{"account":"A-17","limit":10,"query":"orders of the last month, newest first",'
    b'"ids":[%d,2,3]}}'
)
_SCORED = (
    b'{"taskId":"task-%d","score":%.1f,"passed":true,"costUsd":0.012,'
    b'"latencyMs":1200,"schemaValid":true}'
)


class _Writer:
    """The events of one run, numbered."""

    def __init__(self, run_id: str, number: int) -> None:
        self.run_id = run_id
        self._id = run_id.encode()
        self._number = number
        self._sequence = 0
        self._clock = (number // 3600 % 24, number // 60 % 60, number % 60)

    def event(self, kind: str, name: bytes, payload: bytes) -> Event:
        sequence, self._sequence = self._sequence, self._sequence + 1
        data = _ENVELOPE % (
            self._number,
            sequence,
            self._id,
            name,
            payload,
            *self._clock,
            sequence % 1000,
            sequence,
        )
        return Event(kind, self.run_id, data)

    def call(self, tool: bytes) -> Event:
        payload = _CALL % (tool, self._number, self._sequence, self._sequence)
        return self.event("tool_called", b"agent.tool-called", payload)


def tools_of(shape: Shape, run: int, task: int, trial: int) -> list[bytes]:
    """What a trial calls, in order: one in ten calls a forbidden tool last."""
    fill = [_FILL[number % 2].encode() for number in range(shape.calls - 2)]
    tools = [b"search", *fill[:1], b"act_%d" % task, *fill[1:]]
    if (run * 7919 + task * 104_729 + trial * 31) % 10 == 0:
        tools[-1] = _FORBIDDEN.encode()
    return tools


def eval_run_id(number: int) -> str:
    """Id of an eval run."""
    return f"acme/run-{number:016d}"


def _eval_run(shape: Shape, number: int) -> Iterator[Event]:
    log = _Writer(eval_run_id(number), number)
    started = (
        f'{{"suiteId":"{shape.suite_id}","suiteVersion":"{SUITE_VERSION}",'
        f'"taskCount":{shape.tasks},"modes":["golden"]}}'
    )
    yield log.event("eval_started", b"eval.started", started.encode())
    for task in range(shape.tasks):
        for trial in range(shape.trials):
            for tool in tools_of(shape, number, task, trial):
                yield log.call(tool)
            yield log.event("eval_scored", b"eval.scored", _SCORED % (task, _SCORE))
    verdict = (
        f'{{"aggregateScore":{_SCORE},"passed":true,"taskCount":{shape.tasks},'
        f'"passedCount":{shape.tasks}}}'
    )
    yield log.event("eval_completed", b"eval.completed", verdict.encode())
    yield log.event("run_terminal", b"run.completed", b'{"outputs":{}}')


def _ordinary_run(shape: Shape, number: int) -> Iterator[Event]:
    log = _Writer(f"acme/job-{number:016d}", number)
    for call in range(shape.calls_per_run):
        yield log.call(_FILL[call % 2].encode())
    yield log.event("run_terminal", b"run.completed", b'{"outputs":{}}')
