"""What holds for every log: order, repetition, storage, measurement, silence."""

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from schemas.catalog import schema
from schemas.codec import decode_event, encode
from schemas.records import SuiteRecord
from streams.core import rows
from streams.core.context import Context
from streams.core.run import RunState
from streams.core.summarize import grade_run, task_record
from streams.replay import FileGrader, GradedRun, grader
from tests.factories import DIGESTER, event, numbered, replay
from tests.properties.strategies import (
    TASKS,
    Scenario,
    scenarios,
)

SUITE_SCHEMA = jsonschema_rs.validator_for(schema("suite-summary"))
TASK_SCHEMA = jsonschema_rs.validator_for(schema("task-summary"))


def published(
    files: dict[str, Sequence[bytes]], context: Context
) -> dict[str, tuple[bytes, ...]]:
    runs, rejected = replay(files, context)
    assert not rejected
    return {run_id: outcome.raw for run_id, outcome in runs.items()}


def expected_of(scenario: Scenario) -> dict[str, tuple[bytes, ...]]:
    return published({"log": scenario.lines}, scenario.context)


@given(scenarios(), st.data())
def test_order_repetition_and_files_change_nothing(
    scenario: Scenario, data: st.DataObject
) -> None:
    """Events permuted, repeated and spread over files give the same bytes."""
    lines = scenario.lines
    assume(lines)
    again = data.draw(st.lists(st.sampled_from(lines), max_size=8))
    shuffled = data.draw(st.permutations(lines + again))
    files: dict[str, Sequence[bytes]] = {}
    rest = shuffled
    for number in range(data.draw(st.integers(1, 3))):
        cut = data.draw(st.integers(0, len(rest)))
        files[f"file-{number}"], rest = rest[:cut], rest[cut:]
    files["rest"] = rest
    assert expected_of(scenario) == published(files, scenario.context)


@given(scenarios(), st.data())
def test_runs_graded_together_are_graded_apart(
    scenario: Scenario, data: st.DataObject
) -> None:
    """Interleaving runs equals running them one by one."""
    together = published(
        {"log": data.draw(st.permutations(scenario.lines))}, scenario.context
    )
    apart: dict[str, tuple[bytes, ...]] = {}
    for lines in scenario.runs:
        apart |= published({"log": lines}, scenario.context)
    assert apart == together


@given(scenarios(), st.data())
def test_unknown_types_and_fields_change_nothing(
    scenario: Scenario, data: st.DataObject
) -> None:
    """Events of other types, and keys nobody knows, leave the records as they are."""
    lines = []
    for line in scenario.lines:
        entry = json.loads(line)
        if data.draw(st.booleans()):
            unknown = event(
                data.draw(st.sampled_from(["provider.usage", "agent.tool-returned"])),
                {"toolName": "wire-money", "taskId": "a", "score": 7, "status": "ok"},
                data.draw(st.integers(0, 40)),
                run=entry["runId"],
            )
            lines.append(unknown)
        # Added as text, so that the score's digits stay as they are.
        lines.append(
            b'{"zz-next-year":{"toolName":"wire-money"},'
            + line[1:].replace(b'"payload":{', b'"payload":{"x-key":[1],', 1)
            if entry["payload"]
            else line
        )
    assert expected_of(scenario) == published({"log": lines}, scenario.context)


def stored_and_restored(state: RunState, blocks: int, context: Context) -> RunState:
    facts = list(state.facts.values())
    cut = len(facts) * blocks // 3
    stored = [rows.encode_block(facts[:cut])] if cut else []
    row = rows.encode_row(
        rows.RunRow(
            rows.ROW_VERSION,
            rows.RowStatus.OPEN,
            1.5,
            flags=rows.flags_of(state),
            latest_at=state.latest_at,
            blocks=len(stored),
            unsealed=sorted(state.unsealed),
            tail=facts[cut:],
        )
    )
    return rows.restore_state(
        state.run_id,
        rows.decode_row(row),
        [rows.decode_block(block) for block in stored],
        context,
        hold=True,
    )


def records_of(state: RunState, context: Context) -> list[bytes]:
    if not state.publishes:
        return []
    graded = grade_run(state, state.suite, context.policy)
    suite = state.suite
    return [encode(graded.suite_record)] + [
        encode(task_record(state, suite, figures))
        for figures in graded.figures
        if suite is not None
    ]


@given(scenarios(most_runs=1), st.data())
def test_storing_and_going_on_is_going_on(
    scenario: Scenario, data: st.DataObject
) -> None:
    """A state stored at any point, in rows and blocks, ends in the same records.

    Graded at every point on the way too, so that no remembered result is stale.
    """
    lines = data.draw(st.permutations(scenario.lines))
    context = scenario.context
    plain = RunState("acme/run-0000000000000000")
    stored = RunState("acme/run-0000000000000000", hold=True)
    for line in lines:
        envelope, payload = decode_event(line)
        assert payload is not None
        plain.apply(envelope, payload, context)
        stored.apply(envelope, payload, context)
        if data.draw(st.integers(0, 3)) == 0:
            stored = stored_and_restored(stored, data.draw(st.integers(0, 3)), context)
        if data.draw(st.integers(0, 2)) == 0:
            assert records_of(plain, context) == records_of(stored, context)
    assert records_of(plain, context) == records_of(stored, context)
    assert plain.latest_at == stored.latest_at


@given(scenarios(), st.data())
def test_a_suite_known_late_is_a_suite_known_early(
    scenario: Scenario, data: st.DataObject
) -> None:
    """The suite may come after any of the run's events."""
    lines = data.draw(st.permutations(scenario.runs[0]))
    at = data.draw(st.integers(0, len(lines)))
    unaware = Context(policy=scenario.context.policy, digester=DIGESTER, suites={})
    early = RunState("acme/run-0000000000000000")
    late = RunState("acme/run-0000000000000000")
    for number, line in enumerate([*lines, None]):
        started = late.started
        if number >= at and late.suite is None and started is not None:
            suite = scenario.context.suites.get(started.suite_key)
            if suite is not None:
                late.know_suite(suite)
        if line is None:
            break
        envelope, payload = decode_event(line)
        assert payload is not None
        early.apply(envelope, payload, scenario.context)
        late.apply(envelope, payload, unaware if number < at else scenario.context)
    assert records_of(early, scenario.context) == records_of(late, scenario.context)


@given(scenarios(), st.data())
def test_following_a_log_ends_in_the_same_records(
    scenario: Scenario, data: st.DataObject
) -> None:
    """Blocks of any size, few runs in memory: the last emitted are the final ones."""
    lines = data.draw(st.permutations(scenario.lines))
    newest: dict[str, GradedRun] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grader, "MAX_OPEN_RUNS", data.draw(st.sampled_from([2, 100])))
        patch.setattr(grader, "COOLING_RUNS", data.draw(st.sampled_from([0, 1])))
        emit = data.draw(
            st.sampled_from([None, lambda run: newest.update({run.run_id: run})])
        )
        with FileGrader(scenario.context, lambda *_: None, emit) as graders:
            rest = lines
            while rest:
                cut = data.draw(st.integers(1, len(rest)))
                graders.add("log", numbered(rest[:cut]))
                rest = rest[cut:]
            final = {run.run_id: run for run in graders.finish()}
    if emit is not None:
        assert final == newest
    assert expected_of(scenario) == {
        run_id: (run.record, *run.tasks) for run_id, run in final.items()
    }


def scored_by_task(lines: Sequence[bytes]) -> dict[str, list[dict[str, Any]]]:
    """Task -> payloads of its scores, numbers as exact fractions."""
    by_task: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        entry = json.loads(line, parse_float=Fraction, parse_int=Fraction)
        if entry["type"] == "eval.scored":
            payload = entry["payload"]
            by_task.setdefault(payload["taskId"], []).append(payload)
    return by_task


@given(scenarios(most_runs=1, conflicts=False))
def test_reported_scores_are_measurements(scenario: Scenario) -> None:
    """Scores, costs and latencies equal an independent recomputation.

    The gate only lowers: no gating figure is above its measurement, but for a
    missing trial, and no run passes that the old rule refuses.
    """
    runs, _ = replay({"log": scenario.lines}, scenario.context)
    by_task = scored_by_task(scenario.lines)
    for outcome in runs.values():
        if "unknown-suite" in outcome.codes:
            continue
        summary = outcome.record.summary
        measured = []
        for entry in summary.tasks:
            mine = by_task.get(entry.task_id, [])
            values = [payload["score"] for payload in mine]
            mean = sum(values, Fraction(0)) / len(values) if values else Fraction(0)
            measured.append(mean)
            assert float(mean) == entry.score
            if entry.trials:
                assert float(mean) == entry.trials.mean_score
                assert len(values) == entry.trials.scored
            if entry.gated_score is not msgspec.UNSET:
                assert entry.gated_score <= entry.score
            costs = [p["costUsd"] for p in mine if "costUsd" in p]
            assert (float(sum(costs)) if costs else msgspec.UNSET) == entry.cost_usd
            times = [p["latencyMs"] for p in mine if "latencyMs" in p]
            assert (
                round(sum(times) / len(times)) if times else msgspec.UNSET
            ) == entry.latency_ms
            record = outcome.tasks[entry.task_id]
            assert [float(v) for v in values] == [t.score for t in record.trials]
            assert entry.passed <= record.legacy_passed
        middle = sorted(measured)
        half = len(middle) // 2
        aggregates = {
            "mean": sum(measured, Fraction(0)) / len(measured),
            "min": middle[0],
            "median": (middle[half] + middle[~half]) / 2,
        }
        assert (
            float(aggregates[scenario.context.policy.aggregation])
            == summary.aggregate_score
        )
        if summary.gated_aggregate_score is not msgspec.UNSET:
            assert summary.gated_aggregate_score <= summary.aggregate_score
        assert summary.passed <= outcome.record.legacy_passed


@given(scenarios())
def test_every_failure_has_a_reason_and_every_ratio_its_range(
    scenario: Scenario,
) -> None:
    """Not passed means at least one reason; passed runs have none; counts add up."""
    runs, _ = replay({"log": scenario.lines}, scenario.context)
    for run_id, outcome in runs.items():
        record = outcome.record
        # Decoding checks every range: ratios 0 to 1, counts from 0.
        assert record == msgspec.json.decode(outcome.raw[0], type=SuiteRecord)
        SUITE_SCHEMA.validate(json.loads(outcome.raw[0]))
        for raw in outcome.raw[1:]:
            TASK_SCHEMA.validate(json.loads(raw))
        assert run_id == record.run_id
        assert record.summary.passed is not bool(record.reasons)
        passed = sum(entry.passed for entry in record.summary.tasks)
        assert record.summary.passed_count == passed
        assert record.summary.task_count == len(record.summary.tasks)
        gated = scenario.context.suites.get(
            f"{record.summary.suite_id}@{record.summary.suite_version}"
        )
        for task_id, task in outcome.tasks.items():
            assert task.task.passed or task.reasons
            assert gated is not None
            expects = gated.by_id[task_id].expectation is not None
            differs = task.task.gated_score not in (msgspec.UNSET, task.task.score)
            assert (task.task.gated_score is not msgspec.UNSET) is (expects or differs)
            for trial in task.trials:
                assert trial.passed is not bool(trial.reasons)
                assert trial.gating_score in (0.0, trial.score)
                assert (trial.matched is not msgspec.UNSET) is expects
                assert (trial.observed is msgspec.UNSET) is (trial.matched is not False)


@given(scenarios(most_runs=1, conflicts=False), st.data())
def test_one_more_forbidden_call_never_opens_a_gate(
    scenario: Scenario, data: st.DataObject
) -> None:
    """A forbidden call added anywhere: what did not pass still does not."""
    lines = scenario.lines
    place = data.draw(st.integers(0, len(lines)))
    moved = [json.loads(line) for line in lines]
    for entry in moved[place:]:
        entry["sequence"] += 1
    more = [json.dumps(entry).encode() for entry in moved]
    payload = {"agentId": "x", "toolName": "wire-money", "callId": "c"}
    more.append(
        event(
            "agent.tool-called",
            payload,
            place,
            run="acme/run-0000000000000000",
            event_id="evt-one-more-0000000",
            node=data.draw(st.sampled_from([None, "n1", "n9"])),
        )
    )
    before, _ = replay({"log": lines}, scenario.context)
    after, _ = replay({"log": more}, scenario.context)
    for run_id, outcome in before.items():
        forbids = any(
            suite.is_forbidden("wire-money")
            for suite in scenario.context.suites.values()
        )
        if forbids and not outcome.passed and outcome.record.evidence.calls:
            assert not after[run_id].passed or outcome.codes == ["no-call-evidence"]


CANARY = "CANARY-7f3a9c51"


def with_canary(line: bytes) -> bytes:
    """An event whose every field for content holds the canary."""
    content = {CANARY: CANARY, "list": [CANARY]}
    entry = json.loads(line)
    payload = entry["payload"]
    payload["x-note"] = payload["openwop-note"] = payload["error"] = content
    payload["outputs"] = CANARY
    if entry["type"] == "agent.tool-called":
        payload["inputs"] = {**content, "id": CANARY}
        payload["principal"] = CANARY
    entry["causationId"] = entry["x-extra"] = CANARY
    return json.dumps(entry).encode()


@given(scenarios(), st.data())
def test_no_content_is_found_anywhere(scenario: Scenario, data: st.DataObject) -> None:
    """Text of inputs, keys included, outputs, extensions and errors goes nowhere.

    Not into records, not into stored rows, not into the text of errors.
    """
    lines = [with_canary(line) for line in scenario.lines]
    damaged = [line[: len(line) // 2] for line in lines]
    damaged += [line.replace(b'"passed"', b'"failed"') for line in lines]
    aware = data.draw(st.booleans())
    context = (
        scenario.context
        if aware
        else Context(policy=scenario.context.policy, digester=DIGESTER, suites={})
    )
    runs, rejected = replay({"log": [*lines, *damaged]}, context)
    texts = [repr((r.error, r.error.__cause__, r.error.__context__)) for r in rejected]
    texts += [str(r.error) for r in rejected]
    texts += [repr(raw) for outcome in runs.values() for raw in outcome.raw]
    state = RunState("acme/run-0000000000000000")
    for line in lines:
        envelope, payload = decode_event(line)
        if payload is not None and envelope.run_id == state.run_id:
            state.apply(envelope, payload, context)
            texts.append(repr(rows.encode_block(list(state.facts.values()))))
    assert not [text for text in texts if CANARY in text]
    assert set(TASKS)
