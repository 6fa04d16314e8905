"""Eval runs as hosts log them, good and bad, from a seed: same seed, same bytes."""

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import rfc8785

Json = dict[str, Any]

CALL = "agent.tool-called"
STARTED = "eval.started"
SCORED = "eval.scored"
COMPLETED = "eval.completed"
ENDINGS = ("run.completed", "run.failed", "run.cancelled")


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a host's log.

    Args:
        run_id: The run, and the key.
        type: The event's type.
        data: The line.
    """

    run_id: str
    type: str
    data: bytes


Log = list[Event]
"""A run's events in the order in which its host publishes them."""


@dataclass
class Workload:
    """Suites, and the logs of runs.

    Args:
        suites: Documents of the suites.
        evals: Logs of eval runs.
        ordinary: Logs of runs that are none.
    """

    suites: list[Json]
    evals: list[Log] = field(default_factory=list)
    ordinary: list[Log] = field(default_factory=list)

    @property
    def logs(self) -> list[Log]:
        """All runs' logs, evals spread evenly among the ordinary ones."""
        share = max(1, len(self.ordinary) // max(1, len(self.evals)))
        rest = iter(self.ordinary)
        mixed = []
        for log in self.evals:
            mixed += [next(rest, []) for _ in range(share)]
            mixed.append(log)
        return [log for log in (*mixed, *rest) if log]

    @property
    def events(self) -> list[Event]:
        """Every event, run after run."""
        return [event for log in self.logs for event in log]


class RunLog:
    """Writes one run's log.

    Args:
        run_id: The run.
        first_sequence: Sequence of its first event.
    """

    def __init__(self, run_id: str, first_sequence: int = 0) -> None:
        self.run_id = run_id
        self.sequence = first_sequence
        self.log: Log = []

    def add(
        self,
        kind: str,
        payload: Json,
        *,
        sequence: int | None = None,
        event_id: str | None = None,
        node_id: str | None = None,
    ) -> Event:
        """Appends an event, with the next sequence unless another is given."""
        event = self.make(
            kind, payload, sequence=sequence, event_id=event_id, node_id=node_id
        )
        self.log.append(event)
        return event

    def make(
        self,
        kind: str,
        payload: Json,
        *,
        sequence: int | None = None,
        event_id: str | None = None,
        node_id: str | None = None,
    ) -> Event:
        """An event that is not appended yet; takes the next sequence all the same."""
        if sequence is None:
            sequence = self.skip()
        stem = hashlib.sha256(f"{self.run_id}#{sequence}".encode()).hexdigest()[:20]
        envelope: Json = {
            "eventId": event_id or f"evt-{stem}",
            "runId": self.run_id,
            "type": kind,
            "payload": payload,
            "timestamp": f"2026-03-01T{sequence // 3600 % 24:02d}:"
            f"{sequence // 60 % 60:02d}:{sequence % 60:02d}Z",
            "sequence": sequence,
            "schemaVersion": 1,
        }
        if node_id is not None:
            envelope["nodeId"] = node_id
        return Event(self.run_id, kind, json.dumps(envelope).encode())

    def skip(self) -> int:
        """Takes a sequence for an event that comes later."""
        self.sequence += 1
        return self.sequence - 1

    def start(self, suite: Json, **more: Any) -> Event:
        """``eval.started``."""
        payload = {
            "suiteId": suite["suiteId"],
            "suiteVersion": suite["version"],
            "taskCount": len(suite["tasks"]),
            "modes": suite["modes"],
        }
        return self.add(STARTED, payload | more)

    def call(
        self,
        tool: str,
        inputs: Any = None,
        *,
        sequence: int | None = None,
        event_id: str | None = None,
        node_id: str | None = None,
        hashed: bool = False,
    ) -> Event:
        """``agent.tool-called``; ``hashed`` gives the arguments' hash alone."""
        payload: Json = {
            "agentId": "acme.agent",
            "toolName": tool,
            "callId": f"call-{sequence or self.sequence}",
        }
        if inputs is not None and hashed:
            payload["argsHash"] = hashlib.sha256(rfc8785.dumps(inputs)).hexdigest()
        elif inputs is not None:
            payload["inputs"] = inputs
        return self.add(
            CALL, payload, sequence=sequence, event_id=event_id, node_id=node_id
        )

    def score(
        self,
        task_id: str,
        score: float = 1.0,
        *,
        passed: bool = True,
        node_id: str | None = None,
        **more: Any,
    ) -> Event:
        """``eval.scored``."""
        payload = {"taskId": task_id, "score": score, "passed": passed}
        return self.add(SCORED, payload | more, node_id=node_id)

    def complete(
        self, *, passed: bool = True, aggregate: float = 1.0, tasks: int = 1
    ) -> Event:
        """``eval.completed``."""
        payload = {
            "aggregateScore": aggregate,
            "passed": passed,
            "taskCount": tasks,
            "passedCount": tasks if passed else 0,
        }
        return self.add(COMPLETED, payload)

    def end(self, ending: str = "run.completed") -> Event:
        """One of ``ENDINGS``."""
        payload = {"outputs": {"said": "bye"}} if ending == "run.completed" else {}
        return self.add(ending, payload)


def suite(
    name: str,
    tasks: Sequence[Json | None],
    *,
    trials: Json | None = None,
    **thresholds: float,
) -> Json:
    """A suite's document.

    Args:
        name: Last part of its id.
        tasks: An ``expected.trajectory`` each, or None for a task without.
        trials: The ``trials`` block.
        thresholds: ``passScore`` and the like.
    """
    document: Json = {
        "suiteId": f"acme.evals.{name}",
        "version": "1.0.0",
        "modes": ["golden"],
        "tasks": [
            {
                "taskId": f"task-{number}",
                "expected": {"kind": "golden"}
                | ({} if trajectory is None else {"trajectory": trajectory}),
            }
            for number, trajectory in enumerate(tasks)
        ],
    }
    if thresholds:
        document["thresholds"] = thresholds
    if trials is not None:
        document["trials"] = trials
    return document


_BOOK_ARGS = {"flight": "HAT-1", "seats": 2}
_BOOK: Json = {"tool": "book", "args": _BOOK_ARGS}
_SEARCH: Json = {"tool": "search"}
_PAY: Json = {
    "tool": ["pay_card", "pay_cash"],
    "args": {"currency": "EUR"},
    "argsMatch": "subset",
}
_REFUND: Json = {
    "tool": "refund",
    "argsHash": hashlib.sha256(rfc8785.dumps({"id": 7, "why": "late"})).hexdigest(),
}
_FORBIDDEN = ["wire_*", "delete_account"]

SUITES: list[Json] = [
    suite(
        "in-order",
        [
            {"match": "in-order", "steps": [_SEARCH, _BOOK], "forbidden": _FORBIDDEN},
            {"match": "any-order", "steps": [_PAY, _REFUND], "maxExtraCalls": 1},
            None,
        ],
        passScore=0.6,
    ),
    suite(
        "exact",
        [
            {
                "match": "exact",
                "steps": [_SEARCH, {"tool": "read", "optional": True}, _BOOK],
                "forbidden": _FORBIDDEN,
            },
            {"match": "exact", "steps": []},
        ],
        trials={"count": 3, "passRule": "all"},
        passScore=0.5,
    ),
    suite(
        "unordered",
        [
            {"match": "unordered", "steps": [_SEARCH, _PAY, _BOOK]},
            {"steps": [_SEARCH], "maxCalls": 4, "forbidden": ["wire_*"]},
        ],
        trials={"count": 2, "passRule": "any"},
        passScore=0.4,
        maxCostUsd=0.2,
        maxP95LatencyMs=900,
    ),
    suite(
        "subset",
        [
            {
                "match": "subset",
                "steps": [_SEARCH, _BOOK, _REFUND],
                "maxCallsPerTool": {"search": 1},
            },
            {"forbidden": ["delete_account"]},
            None,
        ],
        trials={"count": 4, "passRule": "mean"},
        passScore=0.7,
    ),
    suite("no-bar", [{"steps": [_BOOK, _SEARCH], "forbidden": _FORBIDDEN}, None, None]),
]
UNKNOWN_SUITE = suite("nobody-knows", [None])

_SHAPES = (
    ("clean", 30),
    ("off-path", 25),
    ("missing-trial", 6),
    ("extra-trial", 5),
    ("unknown-task", 4),
    ("call-conflict", 4),
    ("score-conflict", 4),
    ("late-call", 6),
    ("late-forbidden", 4),
    ("failed", 4),
    ("cancelled", 4),
    ("not-completed", 5),
    ("only-ended", 3),
    ("unknown-suite", 3),
    ("nothing", 3),
    ("no-start", 3),
    ("abandoned", 4),
    ("stray-calls", 4),
)


@cache
def mixed(
    runs: int = 320, *, seed: int = 246, ordinary: float = 1.0, by_node: bool = False
) -> Workload:
    """Runs of every suite and shape, among ordinary ones.

    Args:
        runs: Eval runs.
        seed: Of everything that is left to chance.
        ordinary: Calls of ordinary runs for each call of an eval run.
        by_node: Whether the trials of a run interleave, told apart by node.
    """
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    names = [name for name, _ in _SHAPES]
    weights = [weight for _, weight in _SHAPES]
    work = Workload(SUITES)
    for number in range(runs):
        # Each shape once at least, whatever chance says.
        shape = (
            names[number] if number < len(names) else chance.choices(names, weights)[0]
        )
        run_id = f"acme/run-{seed:04d}-{number:08d}"
        maker = _EvalRun(run_id, chance.choice(SUITES), chance, by_node=by_node)
        work.evals.append(maker.make(shape))
    calls = sum(event.type == CALL for log in work.evals for event in log)
    wanted = int(calls * ordinary)
    number = 0
    while wanted > 0:
        log = _ordinary_run(f"acme/chat-{seed:04d}-{number:08d}", chance)
        wanted -= sum(event.type == CALL for event in log)
        work.ordinary.append(log)
        number += 1
    return work


def _ordinary_run(run_id: str, chance: random.Random) -> Log:
    run = RunLog(run_id)
    run.add("run.started", {"why": "a user asked"})
    for _ in range(chance.randint(5, 40)):
        run.call(chance.choice(["search", "book", "wire_money", "read"]), {"q": "x"})
    run.end(chance.choice(ENDINGS))
    return run.log


class _EvalRun:
    """Makes one eval run's log."""

    def __init__(
        self, run_id: str, suite_: Json, chance: random.Random, *, by_node: bool
    ) -> None:
        self.run = RunLog(run_id, first_sequence=chance.choice([0, 1]))
        self.suite = suite_
        self.chance = chance
        self.by_node = by_node
        self.after: Log = []

    def make(self, shape: str) -> Log:
        """The log of a run of this shape."""
        run, chance = self.run, self.chance
        if shape == "stray-calls":
            run.call("search")
            if chance.random() < 0.5:
                run.call("wire_money")
        if shape != "no-start":
            suite_ = UNKNOWN_SUITE if shape == "unknown-suite" else self.suite
            run.start(suite_)
        if shape != "nothing":
            self._trials(shape)
        if shape == "stray-calls":
            run.call("search")
        self._endings(shape)
        return [*run.log, *self.after]

    def _trials(self, shape: str) -> None:
        wanted = self._wanted(shape)
        logs = []
        for number, (task, trajectory) in enumerate(wanted):
            bad = shape == "off-path" and self.chance.random() < 0.5
            node = f"node-{number}" if self.by_node else None
            logs.append(self._trial(task, trajectory, node, bad=bad))
        if self.by_node:
            self._interleave(logs)
        else:
            for steps in logs:
                for step in steps:
                    step()
        if shape == "call-conflict":
            self._conflict(CALL)
        elif shape == "score-conflict":
            self._conflict(SCORED)

    def _wanted(self, shape: str) -> list[tuple[str, Json | None]]:
        """(task, its trajectory), one a trial, as this run's host ran them."""
        count = self.suite.get("trials", {}).get("count", 1)
        wanted: list[tuple[str, Json | None]] = [
            (task["taskId"], task["expected"].get("trajectory"))
            for task in self.suite["tasks"]
            for _ in range(count)
        ]
        chance = self.chance
        if shape in {"missing-trial", "failed", "cancelled", "abandoned"}:
            for _ in range(chance.randint(1, min(2, len(wanted) - 1))):
                wanted.pop(chance.randrange(len(wanted)))
        elif shape == "extra-trial":
            wanted.insert(chance.randrange(len(wanted)), chance.choice(wanted))
        elif shape == "unknown-task":
            wanted.append(("task-nobody-knows", None))
        if chance.random() < 0.3:
            chance.shuffle(wanted)
        return wanted

    def _trial(
        self, task: str, trajectory: Json | None, node: str | None, *, bad: bool
    ) -> list[Any]:
        """What writes the trial's events, one by one, in order."""
        chance, run = self.chance, self.run
        calls = self._path(trajectory)
        if bad:
            self._spoil(calls)
        hashed = chance.random() < 0.3

        def call(tool: str, inputs: Any) -> Any:
            return lambda: run.call(tool, inputs, hashed=hashed, node_id=node)

        steps: list[Any] = []
        for tool, inputs in calls:
            steps.append(call(tool, inputs))
            if chance.random() < 0.2:
                steps.append(lambda: self._returned(node))
        score = round(chance.choice([1, 1, 0.9, 0.7, 0.5, 0.25]), 2)
        more: Json = {}
        if chance.random() < 0.9:
            more |= {
                "costUsd": round(chance.random() / 12, 4),
                "latencyMs": chance.randint(100, 930),
            }
        if chance.random() < 0.3:
            more["schemaValid"] = chance.random() < 0.8
        if chance.random() < 0.03:
            more["fixtureMiss"] = True
        passed = chance.random() < 0.92
        steps.append(
            lambda: run.score(task, score, passed=passed, node_id=node, **more)
        )
        return steps

    def _returned(self, node: str | None) -> None:
        self.run.add(
            "agent.tool-returned",
            {"agentId": "acme.agent", "outcome": "all went well", "status": "ok"},
            node_id=node,
        )

    def _path(self, trajectory: Json | None) -> list[tuple[str, Any]]:
        """Calls that meet the expectation, most of the time."""
        chance = self.chance
        calls: list[tuple[str, Any]] = []
        for step in (trajectory or {}).get("steps", ()):
            if step.get("optional") and chance.random() < 0.5:
                continue
            tool = step["tool"]
            inputs: Any = {"q": chance.choice(["one", "two"]), "n": chance.random()}
            if step["tool"] == "refund":
                inputs = {"why": "late", "id": 7.0}
            elif step.get("argsMatch") == "subset":
                inputs = {"amount": 12.5, "currency": "EUR"}
            elif "args" in step:
                inputs = {"seats": 2, "flight": "HAT-1"}
            if isinstance(tool, list):
                tool = chance.choice(tool)
            calls.append((tool, inputs))
        mode = (trajectory or {}).get("match", "in-order")
        if mode in {"any-order", "unordered", "subset"}:
            chance.shuffle(calls)
        if trajectory is None and chance.random() < 0.7:
            calls = [("think", None)] * chance.randint(1, 3)
        return calls

    def _spoil(self, calls: list[tuple[str, Any]]) -> None:
        """Makes the path wrong, in one way or another."""
        chance = self.chance
        how = chance.choice(["drop", "forbidden", "swap", "args", "extra", "none"])
        place = chance.randrange(len(calls)) if calls else 0
        if how == "drop" and calls:
            calls.pop(place)
        elif how == "forbidden":
            tool = chance.choice(["wire_money", "delete_account"])
            calls.insert(place, (tool, {"to": "somebody"}))
        elif how == "swap":
            calls.reverse()
        elif how == "args" and calls:
            calls[place] = (calls[place][0], {"flight": "HAT-2", "seats": 2})
        elif how == "none" and calls:
            calls[place] = (calls[place][0], None)
        else:
            calls += [("search", {"q": "again"})] * 3

    def _interleave(self, logs: list[list[Any]]) -> None:
        while logs:
            steps = self.chance.choice(logs)
            steps.pop(0)()
            if not steps:
                logs.remove(steps)

    def _conflict(self, kind: str) -> None:
        """A second, different event of a sequence that was used; any order."""
        chance, run = self.chance, self.run
        found = [event for event in run.log if event.type == kind]
        if not found:
            return
        first = json.loads(chance.choice(found).data)
        payload = dict(first["payload"])
        if kind == CALL:
            payload["toolName"] = "wire_money"
        else:
            payload["score"] = 0.125
        # Whether the first or the second stands is up to the ids.
        prefix = chance.choice(["eva", "evz"])
        second = run.make(
            kind,
            payload,
            sequence=first["sequence"],
            event_id=prefix + first["eventId"][3:],
            node_id=first.get("nodeId"),
        )
        if chance.random() < 0.5:
            run.log.append(second)
        else:
            self.after.append(second)

    def _endings(self, shape: str) -> None:
        run, chance = self.run, self.chance
        if shape in {"late-call", "late-forbidden"}:
            self._late(shape)
        if shape == "abandoned":
            return
        if shape in {"failed", "cancelled"}:
            run.end(f"run.{shape}")
            return
        if shape not in {"not-completed", "only-ended"}:
            tasks = len(self.suite["tasks"])
            run.complete(
                passed=chance.random() < 0.9,
                aggregate=round(chance.random(), 3),
                tasks=tasks,
            )
        if shape == "not-completed":
            return
        if shape == "only-ended" or chance.random() < 0.8:
            run.end()

    def _late(self, shape: str) -> None:
        """A call whose sequence stands before the last score, published last."""
        run = self.run
        scores = [event for event in run.log if event.type == SCORED]
        last = json.loads(scores[-1].data)
        moved = json.dumps(last | {"sequence": run.skip() + 1}).encode()
        run.log[run.log.index(scores[-1])] = Event(run.run_id, SCORED, moved)
        late = RunLog(run.run_id)
        late.call(
            "wire_money" if shape == "late-forbidden" else "search",
            {"q": "late"},
            sequence=last["sequence"],
            node_id=last.get("nodeId"),
        )
        run.skip()
        self.after += late.log


def by_topic(events: Sequence[Event]) -> dict[str, Log]:
    """Events by the topic they go to, order kept; keyed by the type's own name."""
    topics: dict[str, Log] = {}
    for event in events:
        topics.setdefault(topic_kind(event.type), []).append(event)
    return topics


def topic_kind(kind: str) -> str:
    """The setting, without ``topic_``, of the topic that a type goes to."""
    if kind in {STARTED, SCORED, COMPLETED}:
        return kind.replace(".", "_")
    # Hosts put types that nobody reads beside the calls.
    return "run_terminal" if kind in ENDINGS else "tool_called"


def shuffled(events: Sequence[Event], seed: int) -> Iterator[Event]:
    """The events in any order across topics, in host order within a topic."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    topics = [iter(log) for log in by_topic(events).values()]
    while topics:
        source = chance.choice(topics)
        # Long stretches, so that topics get far ahead of each other.
        for _ in range(chance.randint(1, 400)):
            event = next(source, None)
            if event is None:
                topics.remove(source)
                break
            yield event


GATED = suite(
    "gated",
    [{"steps": [{"tool": "search"}], "forbidden": ["wire_*"]}],
    passScore=0.5,
)
"""One task, one trial: search, and never wire anything."""


def gated_run(run_id: str, *tools: str, completes: bool = True) -> RunLog:
    """A run of ``GATED`` that calls these tools, scores 1 and ends.

    Args:
        run_id: The run.
        tools: What it calls; ``search`` alone if none.
        completes: Whether it goes on after its score.
    """
    run = RunLog(run_id)
    run.start(GATED)
    for tool in tools or ("search",):
        run.call(tool, {"q": "x"})
    run.score("task-0")
    if completes:
        run.complete()
        run.end()
    return run
