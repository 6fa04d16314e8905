"""What must be published of some events: what the file grader makes of them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schemas.codec import decode_suite
from streams.core.arguments import ArgsDigester
from streams.core.compiled import CompiledSuite
from streams.core.context import Context
from streams.replay import FileGrader, Line
from streams.settings import Settings, policy_from
from tests.broker.worker.workload import Event, Json


@dataclass
class Expected:
    """The newest value of each key.

    Args:
        suites: Run id -> value of the suite summary.
        tasks: ``runId#taskId`` -> value of the task summary.
    """

    suites: dict[str, bytes] = field(default_factory=dict)
    tasks: dict[str, bytes] = field(default_factory=dict)


def compiled(
    suites: Iterable[Json], digester: ArgsDigester
) -> dict[str, CompiledSuite]:
    """``suiteId@version`` -> suite."""
    found = (
        CompiledSuite(decode_suite(json.dumps(one).encode(), ""), digester, {}, "")
        for one in suites
    )
    return {one.key: one for one in found}


def grade(
    events: Iterable[Event | bytes], suites: Iterable[Json], settings: Settings
) -> Expected:
    """The final records of events, as ``pathgate replay`` gives them.

    Args:
        events: In any order, duplicates included.
        suites: Documents.
        settings: Of the worker that is held against this.
    """
    digester = ArgsDigester(None)
    context = Context(
        policy=policy_from(settings),
        digester=digester,
        suites=compiled(suites, digester),
    )
    lines = [
        Line(number, event if isinstance(event, bytes) else event.data)
        for number, event in enumerate(events, 1)
    ]
    expected = Expected()
    with FileGrader(context, lambda *_: None) as grader:
        grader.add("events", lines)
        for run in grader.finish():
            expected.suites[run.run_id] = run.record
            for task in run.tasks:
                task_id = json.loads(task)["task"]["taskId"]
                expected.tasks[f"{run.run_id}#{task_id}"] = task
    return expected


def differences(
    expected: Mapping[str, bytes], newest: Mapping[str, bytes | None]
) -> list[str]:
    """One line for each key whose newest value is not the expected one."""
    found = []
    for key in sorted(expected.keys() | newest.keys()):
        wanted, got = expected.get(key), newest.get(key)
        if wanted != got:
            found.append(f"{key}\n  expected {wanted!r}\n  newest   {got!r}")
    return found
