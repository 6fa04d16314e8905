"""Runs as hosts may log them, well and badly, and suites to grade them by."""

import json
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from streams.core.compiled import CompiledSuite
from streams.core.context import Context
from streams.core.policy import Policy
from tests.factories import DIGESTER, SUITE_ID, event, make_suite, task

TOOLS = ["look-up", "refund", "notify", "browse", "wire-money", "wire-home"]
ARGS: list[Any] = [
    {"id": 1},
    {"id": 2},
    {"id": 1, "note": "x"},
    {"id": 1.0, "deep": {"k": [1, 2]}},
    {},
    [1],
]
TASKS = ["a", "b", "c"]
ENOUGH_CALLS = 100
OTHER_SUITE_ID = "acme.evals.other"

scores = st.one_of(
    st.sampled_from(["0", "1", "0.7", "0.1", "0.3", "0.9", "0.70", "1e-3"]),
    st.integers(0, 1000).map(lambda n: f"{n / 1000}"),
)


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    """One step of an expectation."""
    tool = draw(st.sampled_from(TOOLS[:3]))
    step: dict[str, Any] = {"tool": draw(st.sampled_from([tool, [tool, "browse"]]))}
    how = draw(st.sampled_from(["any", "any", "exact", "subset"]))
    if how != "any":
        step["args"] = draw(st.sampled_from(ARGS[:4] if how == "subset" else ARGS))
        step["argsMatch"] = how
    if draw(st.booleans()):
        step["optional"] = draw(st.booleans())
    return step


@st.composite
def expectations(draw: st.DrawFn) -> dict[str, Any] | None:
    """``expected.trajectory`` of a task, or none."""
    if draw(st.integers(0, 3)) == 0:
        return None
    mode = draw(
        st.sampled_from(["exact", "in-order", "any-order", "unordered", "subset"])
    )
    trajectory: dict[str, Any] = {
        "match": mode,
        "steps": draw(st.lists(steps(), max_size=3)),
    }
    if draw(st.booleans()):
        trajectory["forbidden"] = draw(
            st.sampled_from([["wire-money"], ["wire*"], ["wire-home", "wire-money"]])
        )
    if draw(st.integers(0, 3)) == 0:
        trajectory["maxCalls"] = draw(st.integers(3, 5))
    return trajectory


@st.composite
def suites(draw: st.DrawFn, suite_id: str = SUITE_ID) -> CompiledSuite:
    """A suite of one to three tasks, with any thresholds and pass rule."""
    names = TASKS[: draw(st.integers(1, 3))]
    bars: dict[str, Any] = {}
    if draw(st.integers(0, 3)):
        bars["passScore"] = draw(st.sampled_from([0, 0.3, 0.5, 0.7, 1]))
    if draw(st.integers(0, 3)) == 0:
        bars["maxCostUsd"] = draw(st.sampled_from([0, 0.3, 5]))
    if draw(st.integers(0, 3)) == 0:
        bars["maxP95LatencyMs"] = draw(st.sampled_from([0, 100, 5000]))
    count = draw(st.sampled_from([None, 1, 2, 3]))
    rule = None if count is None else draw(st.sampled_from(["all", "any", "mean"]))
    return make_suite(
        *(task(name, draw(expectations())) for name in names),
        count=count,
        rule=rule,
        suite_id=suite_id,
        **bars,
    )


policies = st.builds(
    dict,
    attribution=st.sampled_from(["sequence", "node"]),
    aggregation=st.sampled_from(["mean", "median", "min"]),
    default_pass_score=st.sampled_from([None, 0.5]),
    missing_budget=st.sampled_from(["closed", "open"]),
    require_call_evidence=st.sampled_from(["alert", "closed"]),
    max_calls_per_trial=st.sampled_from([1, 2, *[ENOUGH_CALLS] * 6]),
).map(lambda choices: msgspec.convert(choices, Policy))


def call_payload(draw: st.DrawFn) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "agentId": "acme",
        "toolName": draw(st.sampled_from(TOOLS)),
        "callId": "c",
    }
    evidence = draw(st.integers(0, 3))
    if evidence:
        payload["inputs"] = draw(st.sampled_from(ARGS))
    if evidence == 3:
        payload["argsHash"] = draw(st.sampled_from("0123456789abcdef")) * 64
    return payload


def score_payload(draw: st.DrawFn, task_id: str) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "taskId": task_id,
        "score": "@" + draw(scores),
        "passed": draw(st.integers(0, 3)) > 0,
    }
    if draw(st.booleans()):
        payload["costUsd"] = draw(st.sampled_from([0, 0.1, 0.2, 3]))
    if draw(st.booleans()):
        payload["latencyMs"] = draw(st.integers(0, 200))
    if draw(st.booleans()):
        payload["schemaValid"] = draw(st.booleans())
    if draw(st.integers(0, 9)) == 0:
        payload["fixtureMiss"] = True
    return payload


def start_payload(draw: st.DrawFn) -> dict[str, Any]:
    other = draw(st.integers(0, 9)) == 0
    return {
        "suiteId": OTHER_SUITE_ID if other else SUITE_ID,
        "suiteVersion": "1.0.0",
        "taskCount": draw(st.sampled_from([1, 1, 2, 0])),
        "modes": ["golden"],
    }


def completed_payload(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "aggregateScore": draw(st.sampled_from([0, 0.5, 1])),
        "passed": draw(st.booleans()),
        "taskCount": 1,
        "passedCount": draw(st.sampled_from([0, 1])),
    }


def written(line: bytes) -> bytes:
    """A line with the score's digits as they were drawn."""
    at = line.find(b'"@')
    if at < 0:
        return line
    end = line.index(b'"', at + 1)
    return line[:at] + line[at + 2 : end] + line[end + 1 :]


@st.composite
def run_logs(draw: st.DrawFn, run: str, *, conflicts: bool = True) -> list[bytes]:
    """The events of one run: mostly in order, with what goes wrong in practice."""
    nodes = st.sampled_from([None, None, "n1", "n2"])
    parts: list[tuple[str, dict[str, Any], str | None]] = []
    if draw(st.integers(0, 9)):
        parts.append(("eval.started", start_payload(draw), None))
    for _ in range(draw(st.integers(0, 7))):
        parts += [
            ("agent.tool-called", call_payload(draw), draw(nodes))
            for _ in range(draw(st.integers(0, 3)))
        ]
        task_id = draw(st.sampled_from([*TASKS, "a", "a", "zz"]))
        parts.append(("eval.scored", score_payload(draw, task_id), draw(nodes)))
    parts += [
        ("agent.tool-called", call_payload(draw), draw(nodes))
        for _ in range(draw(st.integers(0, 2)))
    ]
    if draw(st.booleans()):
        parts.append(("eval.completed", completed_payload(draw), None))
    if draw(st.booleans()):
        ending = draw(st.sampled_from(["run.completed", "run.failed", "run.cancelled"]))
        parts.append((ending, {}, None))
    if draw(st.integers(0, 4)) == 0:
        place = draw(st.integers(0, len(parts)))
        parts.insert(place, ("eval.started", start_payload(draw), None))
    lines = [
        written(event(kind, payload, sequence, run=run, node=node))
        for sequence, (kind, payload, node) in enumerate(parts)
    ]
    if conflicts and parts and draw(st.integers(0, 2)) == 0:
        lines += draw(st.lists(rivals(run, parts), min_size=1, max_size=2))
    return lines


@st.composite
def rivals(
    draw: st.DrawFn, run: str, parts: list[tuple[str, dict[str, Any], str | None]]
) -> bytes:
    """An event that contradicts one of the run: another id, or the same id."""
    sequence = draw(st.integers(0, len(parts) - 1))
    kind, payload, node = parts[sequence]
    event_id = draw(
        st.sampled_from([None, "evt-a-smaller-id-00", "zzz-a-larger-id-00"])
    )
    if kind == "agent.tool-called" and draw(st.booleans()):
        # The same call but for its arguments.
        payload = payload | {"inputs": draw(st.sampled_from(ARGS))}
    elif draw(st.booleans()):
        kind, payload = "agent.tool-called", call_payload(draw)
    else:
        kind, payload = "eval.scored", score_payload(draw, "a")
    return written(
        event(kind, payload, sequence, run=run, node=node, event_id=event_id)
    )


class Scenario(NamedTuple):
    """Runs and what they are graded with.

    Args:
        context: Policy and suites.
        runs: One list of lines a run.
    """

    context: Context
    runs: list[list[bytes]]

    @property
    def lines(self) -> list[bytes]:
        """All lines, run by run."""
        return [line for run in self.runs for line in run]


@st.composite
def scenarios(
    draw: st.DrawFn, *, most_runs: int = 3, conflicts: bool = True
) -> Scenario:
    """One to three runs, one or two known suites and a policy."""
    known = [draw(suites())]
    if draw(st.booleans()):
        known.append(draw(suites(OTHER_SUITE_ID)))
    policy = draw(policies)
    # A run that has more calls than are held and in which a call and another
    # event contradict each other is closed twice over; which calls its record
    # counts then rests on arrival. So one or the other.
    conflicts = conflicts and policy.max_calls_per_trial == ENOUGH_CALLS
    context = Context(
        policy=policy,
        digester=DIGESTER,
        suites={suite.key: suite for suite in known},
    )
    runs = [
        draw(run_logs(f"acme/run-{number:016d}", conflicts=conflicts))
        for number in range(draw(st.integers(1, most_runs)))
    ]
    return Scenario(context, runs)


def payload_of(line: bytes) -> dict[str, Any]:
    """The payload of an event."""
    payload: dict[str, Any] = json.loads(line)["payload"]
    return payload
