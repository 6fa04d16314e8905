"""Events, logs and suites for tests: literal defaults, all in one place."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from schemas.codec import decode_event
from schemas.errors import DecodeError
from schemas.reasons import Reason
from schemas.records import SuiteRecord, TaskRecord
from schemas.suite import Suite
from schemas.summary import TaskEntry
from streams.core.arguments import ArgsDigester
from streams.core.compiled import CompiledSuite
from streams.core.context import Context
from streams.core.policy import Policy
from streams.core.run import Applied, RunState
from streams.replay import FileGrader, Line

RUN = "acme/run-000000000001"
SUITE_ID = "acme.evals.refunds"
VERSION = "1.0.0"
DIGESTER = ArgsDigester()

_suite_record = msgspec.json.Decoder(SuiteRecord)
_task_record = msgspec.json.Decoder(TaskRecord)


def event(
    kind: str,
    payload: object,
    sequence: int,
    *,
    run: str = RUN,
    event_id: str | None = None,
    node: str | None = None,
    at: str | None = None,
    **more: Any,
) -> bytes:
    """One event as a line of a log.

    Args:
        kind: Event type.
        payload: Its payload, a JSON value.
        sequence: Its position in the run.
        run: Its run.
        event_id: Its id; made of run and sequence if None.
        node: Its ``nodeId``, if any.
        at: Its timestamp; made of the sequence if None.
        more: Further fields of the envelope.
    """
    fields: dict[str, Any] = {
        "eventId": event_id or f"evt-{run.rpartition('/')[2]}-{sequence:06d}",
        "runId": run,
        "type": kind,
        "payload": payload,
        "timestamp": at
        or f"2026-01-01T{sequence // 3600 % 24:02d}:"
        f"{sequence // 60 % 60:02d}:{sequence % 60:02d}Z",
        "sequence": sequence,
        "schemaVersion": 1,
    }
    if node is not None:
        fields["nodeId"] = node
    return json.dumps(fields | more, separators=(",", ":")).encode()


class Log:
    """Builds the events of one run, one sequence after another.

    Args:
        run: The run.
        first: Sequence of the first event.
    """

    def __init__(self, run: str = RUN, first: int = 0) -> None:
        self.run = run
        self.next = first
        self.lines: list[bytes] = []

    def add(self, kind: str, payload: object, **fields: Any) -> "Log":
        """One event of any type; ``sequence`` and the like may be given."""
        sequence = fields.pop("sequence", self.next)
        self.next = sequence + 1
        self.lines.append(event(kind, payload, sequence, run=self.run, **fields))
        return self

    def start(
        self,
        suite_id: str = SUITE_ID,
        version: str = VERSION,
        count: int = 1,
        **fields: Any,
    ) -> "Log":
        """``eval.started``; ``baseline`` names a baseline run."""
        payload: dict[str, Any] = {
            "suiteId": suite_id,
            "suiteVersion": version,
            "taskCount": count,
            "modes": ["golden"],
        }
        baseline = fields.pop("baseline", None)
        if baseline is not None:
            payload["baselineRunId"] = baseline
        return self.add("eval.started", payload, **fields)

    def call(self, tool: str, inputs: object = None, **fields: Any) -> "Log":
        """``agent.tool-called``; ``args_hash`` is a field of its payload."""
        payload: dict[str, Any] = {
            "agentId": "acme.support",
            "toolName": tool,
            "callId": f"call-{self.next}",
        }
        if inputs is not None:
            payload["inputs"] = inputs
        args_hash = fields.pop("args_hash", None)
        if args_hash is not None:
            payload["argsHash"] = args_hash
        return self.add("agent.tool-called", payload, **fields)

    def calls(self, *tools: str, **fields: Any) -> "Log":
        """Several calls without arguments."""
        for tool in tools:
            self.call(tool, **fields)
        return self

    def score(
        self,
        task: str,
        score: float | str = 1,
        *,
        passed: bool = True,
        node: str | None = None,
        sequence: int | None = None,
        event_id: str | None = None,
        **payload: Any,
    ) -> "Log":
        """``eval.scored``; further keywords are fields of its payload.

        A ``score`` that is text is written as it is, with every digit.
        """
        fields: dict[str, Any] = {"node": node, "event_id": event_id}
        if sequence is not None:
            fields["sequence"] = sequence
        self.add(
            "eval.scored",
            {"taskId": task, "score": "@score@", "passed": passed} | payload,
            **fields,
        )
        self.lines[-1] = self.lines[-1].replace(b'"@score@"', str(score).encode())
        return self

    def completed(
        self,
        aggregate: float = 1,
        *,
        passed: bool = True,
        tasks: int = 1,
        passed_tasks: int = 1,
        **fields: Any,
    ) -> "Log":
        """``eval.completed``."""
        payload = {
            "aggregateScore": aggregate,
            "passed": passed,
            "taskCount": tasks,
            "passedCount": passed_tasks,
        }
        return self.add("eval.completed", payload, **fields)

    def end(self, kind: str = "run.completed", **fields: Any) -> "Log":
        """The end of the run."""
        return self.add(kind, {}, **fields)


def task(task_id: str = "refund", trajectory: object = None) -> dict[str, Any]:
    """A task of a suite, with an expectation if one is given."""
    expected: dict[str, Any] = {"kind": "golden"}
    if trajectory is not None:
        expected["trajectory"] = trajectory
    return {"taskId": task_id, "expected": expected}


def make_suite(
    *tasks: Mapping[str, Any],
    count: int | None = None,
    rule: str | None = None,
    suite_id: str = SUITE_ID,
    version: str = VERSION,
    digester: ArgsDigester = DIGESTER,
    aliases: Mapping[str, str] | None = None,
    **thresholds: Any,
) -> CompiledSuite:
    """A compiled suite.

    Args:
        tasks: From ``task``; one task without an expectation if none.
        count: ``trials.count``; no ``trials`` block if this and ``rule`` are None.
        rule: ``trials.passRule``.
        suite_id: Its id.
        version: Its version.
        digester: Makes the digests.
        aliases: Observed tool name -> name in the suite.
        thresholds: ``passScore`` and the like, in wire spelling.
    """
    document: dict[str, Any] = {
        "suiteId": suite_id,
        "version": version,
        "modes": ["golden"],
        "tasks": list(tasks) or [task()],
        "thresholds": thresholds,
    }
    if count is not None or rule is not None:
        document["trials"] = {"count": count or 1, "passRule": rule or "all"}
    suite = msgspec.json.decode(json.dumps(document).encode(), type=Suite)
    return CompiledSuite(suite, digester, aliases)


def make_context(
    *suites: CompiledSuite, policy: Policy | None = None, **choices: Any
) -> Context:
    """What grading needs; ``choices`` are fields of ``Policy``."""
    return Context(
        policy=policy or Policy(**choices),
        digester=DIGESTER,
        suites={suite.key: suite for suite in suites},
    )


class Rejected(NamedTuple):
    """One line that was no event."""

    source: str
    line: int
    error: DecodeError


class Outcome(NamedTuple):
    """What a grader made of one run.

    Args:
        raw: Bytes of the suite record and the task records.
        record: The suite record.
        tasks: Task id -> task record.
    """

    raw: tuple[bytes, ...]
    record: SuiteRecord
    tasks: dict[str, TaskRecord]

    @property
    def entries(self) -> dict[str, TaskEntry]:
        """Task id -> entry in the summary."""
        return {entry.task_id: entry for entry in self.record.summary.tasks}

    @property
    def passed(self) -> bool:
        """The verdict of the run."""
        return self.record.summary.passed

    @property
    def codes(self) -> list[str]:
        """Codes of the reasons of the run."""
        return codes(self.record.reasons)

    def trial_codes(self, task_id: str, trial: int = 1) -> list[str]:
        """Codes of the reasons of one trial."""
        return codes(self.tasks[task_id].trials[trial - 1].reasons)


def codes(reasons: Iterable[Reason]) -> list[str]:
    """The codes of reasons, in order."""
    return [reason.code for reason in reasons]


def numbered(lines: Sequence[bytes]) -> list[Line]:
    """Lines as ``read_lines`` gives them."""
    return [Line(number, data) for number, data in enumerate(lines, 1)]


def replay(
    files: Mapping[str, Sequence[bytes]], context: Context
) -> tuple[dict[str, Outcome], list[Rejected]]:
    """Grades logs with ``FileGrader``.

    Args:
        files: Name -> lines.
        context: As ``make_context``.

    Returns:
        Run id -> outcome, and the lines that were no events.
    """
    rejected: list[Rejected] = []
    with FileGrader(context, lambda *args: rejected.append(Rejected(*args))) as grader:
        for name, lines in files.items():
            grader.add(name, numbered(lines))
        runs = {
            run.run_id: Outcome(
                (run.record, *run.tasks),
                _suite_record.decode(run.record),
                {
                    record.task.task_id: record
                    for record in map(_task_record.decode, run.tasks)
                },
            )
            for run in grader.finish()
        }
    return runs, rejected


def grade(log: Log | Sequence[bytes], context: Context) -> Outcome:
    """Grades the log of one run, in which every line is an event."""
    lines = log.lines if isinstance(log, Log) else log
    runs, rejected = replay({"log": lines}, context)
    assert not rejected, rejected
    (outcome,) = runs.values()
    return outcome


def fold(
    lines: Iterable[bytes], context: Context, *, hold: bool = False
) -> tuple[RunState, list[Applied]]:
    """Folds the events of one run into a state."""
    every = list(lines)
    state = RunState(decode_event(every[0])[0].run_id, hold=hold)
    return state, [apply(state, line, context) for line in every]


def apply(state: RunState, line: bytes, context: Context) -> Applied:
    """Folds one event into the state of its run."""
    envelope, payload = decode_event(line)
    assert payload is not None
    return state.apply(envelope, payload, context)
