"""Where a host's own scorecard disagrees with ours."""

from typing import Any

import msgspec
import pytest

from schemas.records import Disagreement, HostAudit, SuiteRecord
from schemas.summary import EvalSummary
from streams.core.audit import TOLERANCE, compare_summaries
from streams.core.summarize import grade_run
from tests.factories import Log, fold, make_context, make_suite, task

UNSET = msgspec.UNSET
SUITE = make_suite(
    task("a", {"match": "exact", "steps": [{"tool": "x"}]}), task("b"), passScore=0.6
)


def ours(*, on_path: bool = True) -> SuiteRecord:
    log = Log().start().call("x" if on_path else "y").score("a", 0.8).score("b", 0.9)
    state, _ = fold(log.lines, make_context(SUITE))
    return grade_run(state, SUITE, make_context().policy).suite_record


def compare(record: SuiteRecord, change: dict[str, Any]) -> list[Disagreement]:
    """Our scorecard against itself with some fields changed."""
    document = msgspec.to_builtins(record.summary)
    tasks = {entry["taskId"]: dict(entry) for entry in document["tasks"]}
    for key, value in change.items():
        where, _, field = key.rpartition(".")
        target = tasks.setdefault(where, {}) if where else document
        if value is UNSET:
            del target[field]
        else:
            target[field] = value
    document["tasks"] = [entry for entry in tasks.values() if entry.get("taskId")]
    host = msgspec.convert(document, EvalSummary)
    return compare_summaries(record, host, expected={"a"})


def test_a_host_that_agrees_has_no_disagreement() -> None:
    """Field by field the same."""
    assert [] == compare(ours(), {})
    assert [] == compare(ours(on_path=False), {})


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"passed": False}, [("verdict-differs", UNSET, False, True)]),
        ({"aggregateScore": 0.7}, [("aggregate-differs", UNSET, 0.7, 0.85)]),
        ({"taskCount": 3}, [("counts-differ", UNSET, 3, 2)]),
        ({"passedCount": 0}, [("counts-differ", UNSET, 0, 2)]),
        ({"gatedAggregateScore": 0.1}, [("gated-score-differs", UNSET, 0.1, 0.85)]),
        (
            {"gatedAggregateScore": UNSET},
            [("gated-score-missing", UNSET, UNSET, 0.85)],
        ),
        ({"a.score": 0.5}, [("score-differs", "a", 0.5, 0.8)]),
        ({"a.passed": False}, [("verdict-differs", "a", False, True)]),
        ({"a.gatedScore": 0.5}, [("gated-score-differs", "a", 0.5, 0.8)]),
        (
            {"a.gatedScore": UNSET},
            [("gated-score-missing", "a", UNSET, 0.8)],
        ),
        # RFC 0246 §D: without an expectation it is carried where it differs from
        # the score, a fixture miss, "and is otherwise omitted".
        (
            {"b.gatedScore": 0.9},
            [("gated-score-differs", "b", 0.9, UNSET)],
        ),
        ({"b.gatedScore": 0.1}, [("gated-score-differs", "b", 0.1, UNSET)]),
        ({"a.taskId": ""}, [("counts-differ", "a", UNSET, UNSET)]),
    ],
    ids=str,
)
def test_each_field_that_differs_is_one_disagreement(
    change: dict[str, Any], found: list[tuple[Any, ...]]
) -> None:
    """With the task it is about, the host's figure and ours."""
    assert found == [
        (d.kind, d.task_id, d.host, d.ours) for d in compare(ours(), change)
    ]


RICH = make_suite(task("a", {"steps": [{"tool": "x"}]}), count=2, passScore=0.6)
PLAIN = make_suite(task("a"), passScore=0.6)


def rich() -> SuiteRecord:
    """Two trials of one task, both on their path.

    Score (0.8 + 0.9)/2 = 0.85; 0.25 + 0.5 = 0.75 USD; (100 + 300)/2 = 200 ms; one
    of two passed: at k = 1 half of them, at k = 2 any and not all.
    """
    log = Log().start(baseline="acme/base")
    log.call("x").score("a", 0.8, costUsd=0.25, latencyMs=100, schemaValid=True)
    log.call("x")
    log.score("a", 0.9, passed=False, costUsd=0.5, latencyMs=300, schemaValid=True)
    state, _ = fold(log.lines, make_context(RICH))
    return grade_run(state, RICH, make_context().policy, 0.5).suite_record


def plain() -> SuiteRecord:
    """A run whose suite has no expectation and no trials, and whose host no costs."""
    state, _ = fold(Log().start().score("a", 0.8).lines, make_context(PLAIN))
    return grade_run(state, PLAIN, make_context().policy).suite_record


def compare_changed(record: SuiteRecord, path: str, value: object) -> list[Any]:
    """Our scorecard against itself with the value at a path changed or removed."""
    document = msgspec.json.decode(msgspec.json.encode(record.summary))
    *where, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    target = document
    for key in where:
        target = target[key]
    if value is UNSET:
        del target[last]
    else:
        target[last] = value
    host = msgspec.convert(document, EvalSummary)
    expected = {"a"} if record.summary.gated_aggregate_score is not UNSET else set()
    return [
        (found.kind, found.field, found.task_id, found.host, found.ours)
        for found in compare_summaries(record, host, expected=expected)
    ]


@pytest.mark.parametrize(
    ("path", "value", "task_id", "ours"),
    [
        ("suiteId", "acme.evals.other", UNSET, "acme.evals.refunds"),
        ("suiteVersion", "9.9.9", UNSET, "1.0.0"),
        ("totalCostUsd", 0.01, UNSET, 0.75),
        ("regression.baselineRunId", "acme/other", UNSET, "acme/base"),
        # 0.85 - 0.5
        ("regression.scoreDelta", 0.4, UNSET, 0.35),
        ("trialStats.count", 3, UNSET, 2),
        ("trialStats.passAtK.0", 1.0, UNSET, 0.5),
        ("trialStats.passHatK.1", 1.0, UNSET, 0.0),
        ("tasks.0.costUsd", 0.01, "a", 0.75),
        ("tasks.0.latencyMs", 1, "a", 200),
        ("tasks.0.schemaValid", False, "a", True),
        ("tasks.0.trials.count", 3, "a", 2),
        ("tasks.0.trials.scored", 1, "a", 2),
        ("tasks.0.trials.passed", 2, "a", 1),
        ("tasks.0.trials.meanScore", 0.9, "a", 0.85),
        ("tasks.0.trials.passAtK", 0.5, "a", 1.0),
        ("tasks.0.trials.passHatK", 1.0, "a", 0.0),
    ],
)
def test_each_other_field_that_differs_is_named(
    path: str, value: object, task_id: Any, ours: object
) -> None:
    """By its path in the scorecard, or in the task's entry."""
    field = path.removeprefix("tasks.0.").replace("K.0", "K[0]").replace("K.1", "K[1]")
    found = compare_changed(rich(), path, value)
    assert [("field-differs", field, task_id, value, ours)] == found


@pytest.mark.parametrize(
    ("path", "right"),
    [("totalCostUsd", 0.75), ("tasks.0.costUsd", 0.75), ("trialStats.passAtK.0", 0.5)],
)
def test_rounding_of_another_field_is_no_disagreement(path: str, right: float) -> None:
    """As with the scores: within the tolerance, and not beyond it."""
    assert [] == compare_changed(rich(), path, right + TOLERANCE / 2)
    assert 1 == len(compare_changed(rich(), path, right + TOLERANCE * 2))


@pytest.mark.parametrize("path", ["trialStats.passHatK.1", "tasks.0.trials.passHatK"])
def test_another_field_may_differ_by_the_tolerance(path: str) -> None:
    """Both are 0 (one of two trials passed), so nothing is rounded off."""
    assert [] == compare_changed(rich(), path, TOLERANCE)
    assert 1 == len(compare_changed(rich(), path, TOLERANCE * 2))


@pytest.mark.parametrize(
    "path",
    [
        "totalCostUsd",
        "regression",
        "trialStats",
        "tasks.0.costUsd",
        "tasks.0.latencyMs",
        "tasks.0.schemaValid",
        "tasks.0.trials",
    ],
)
def test_what_a_host_may_leave_out_is_no_disagreement(path: str) -> None:
    """The protocol has each of these fields as an optional one."""
    assert [] == compare_changed(rich(), path, UNSET)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("evaluatedModelClass", "large"),
        ("pinnedNodeIds", ["n1"]),
        ("regression.diffRef", "diff-1"),
        ("tasks.0.safetyFindings", [{"kind": "pii", "severity": "low"}]),
    ],
)
def test_what_no_event_tells_is_the_hosts_alone(path: str, value: object) -> None:
    """There is nothing to hold it against."""
    assert [] == compare_changed(rich(), path, value)


TRIALS = {
    "count": 1,
    "scored": 1,
    "passed": 1,
    "meanScore": 0.8,
    "passAtK": 1.0,
    "passHatK": 1.0,
}


@pytest.mark.parametrize(
    ("path", "value", "kind", "host"),
    [
        ("gatedAggregateScore", 0.8, "gated-score-differs", 0.8),
        ("tasks.0.gatedScore", 0.8, "gated-score-differs", 0.8),
        ("totalCostUsd", 0.5, "field-differs", 0.5),
        ("tasks.0.latencyMs", 7, "field-differs", 7),
        ("tasks.0.trials", TRIALS, "field-differs", UNSET),
    ],
)
def test_what_only_the_host_says_is_a_disagreement(
    path: str, value: object, kind: str, host: object
) -> None:
    """No expectation: no gated field (RFC 0246 §D); no trials; no cost told."""
    ((found_kind, _, _, theirs, ours),) = compare_changed(plain(), path, value)
    assert (kind, host, UNSET) == (found_kind, theirs, ours)


def test_more_entries_than_there_are_trials_are_a_disagreement() -> None:
    """And fewer, since the list is there: at k = 2 any of the two passed."""
    more, fewer = [0.5, 1.0, 1.0], [0.5]
    assert [("field-differs", "trialStats.passAtK[2]", UNSET, 1.0, UNSET)] == (
        compare_changed(rich(), "trialStats.passAtK", more)
    )
    assert [("field-differs", "trialStats.passAtK[1]", UNSET, UNSET, 1.0)] == (
        compare_changed(rich(), "trialStats.passAtK", fewer)
    )


def test_the_gated_score_of_a_fixture_miss_may_be_left_out() -> None:
    """RFC 0246 §D: without an expectation it MAY be carried."""
    log = Log().start().score("a", 0.8, fixtureMiss=True)
    state, _ = fold(log.lines, make_context(PLAIN))
    record = grade_run(state, PLAIN, make_context().policy).suite_record
    # Measured 0.8, in the gate 0.
    assert 0.0 == record.summary.tasks[0].gated_score
    assert [] == compare_changed(record, "tasks.0.gatedScore", UNSET)
    assert [("gated-score-differs", UNSET, "a", 0.8, 0.0)] == (
        compare_changed(record, "tasks.0.gatedScore", 0.8)
    )


@pytest.mark.parametrize("started", [True, False])
def test_of_an_unknown_suite_only_what_its_record_has_is_held(*, started: bool) -> None:
    """Its events may tell costs and the gate may have a score: nobody looked."""
    log = Log().start() if started else Log()
    state, _ = fold(log.score("a", 0.8, costUsd=0.5).lines, make_context())
    record = grade_run(state, None, make_context().policy).suite_record
    host = msgspec.structs.replace(
        plain().summary, total_cost_usd=0.5, gated_aggregate_score=0.8
    )
    found = [
        (one.kind, one.field, one.host, one.ours)
        for one in compare_summaries(record, host, expected={"a"})
        if one.task_id is UNSET
    ]
    unnamed = ("field-differs", "suiteId", "acme.evals.refunds", UNSET)
    assert found == [
        *([] if started else [unnamed]),
        ("verdict-differs", UNSET, True, False),
        ("counts-differ", UNSET, 1, 0),
    ]


def test_a_task_that_only_the_host_has_is_a_disagreement() -> None:
    """Each one, by id."""
    more = {
        f"{name}.{field}": value
        for name in ("z", "y")
        for field, value in {"taskId": name, "score": 1.0, "passed": True}.items()
    }
    found = compare(ours(), more)
    assert [("counts-differ", "y"), ("counts-differ", "z")] == [
        (d.kind, d.task_id) for d in found
    ]


@pytest.mark.parametrize(
    ("legacy_passed", "kind"),
    [(True, "suite-passed-ungated"), (False, "verdict-differs")],
)
def test_passing_what_only_the_old_rule_passes_is_its_own_kind(
    *, legacy_passed: bool, kind: str
) -> None:
    """The host has not migrated, where RFC 0244 would have passed."""
    record = msgspec.structs.replace(ours(on_path=False), legacy_passed=legacy_passed)
    (found,) = compare(record, {"passed": True})
    assert kind == found.kind


def test_refusing_what_we_pass_is_no_missing_migration() -> None:
    """Whatever the old rule says."""
    (found,) = compare(ours(), {"passed": False})
    assert "verdict-differs" == found.kind


def test_a_difference_as_large_as_the_tolerance_is_none() -> None:
    """Ours are 0, the host's are the tolerance itself; twice that differs."""
    log = Log().start().call("x").score("a", 0).score("b", 0)
    state, _ = fold(log.lines, make_context(SUITE))
    summary = grade_run(state, SUITE, make_context().policy).suite_record
    for field in ("aggregateScore", "gatedAggregateScore", "a.score", "a.gatedScore"):
        assert [] == compare(summary, {field: TOLERANCE})
        assert 1 == len(compare(summary, {field: 2 * TOLERANCE}))


def test_rounding_is_no_disagreement() -> None:
    """Sums of doubles differ in the last digits; what is beyond them differs."""
    for field, value in (
        ("aggregateScore", 0.85),
        ("a.score", 0.8),
        ("a.gatedScore", 0.8),
    ):
        assert [] == compare(ours(), {field: value + TOLERANCE / 2})
        assert [] == compare(ours(), {field: value - TOLERANCE / 2})
        assert 1 == len(compare(ours(), {field: value + TOLERANCE * 2}))
        assert 1 == len(compare(ours(), {field: value - TOLERANCE * 2}))


def test_a_task_that_the_host_lists_twice_is_named() -> None:
    """Whichever entry agrees with ours, a reader may believe the other."""
    record = ours()
    summary = record.summary
    right = summary.tasks[0]
    wrong = msgspec.structs.replace(right, score=0.1)
    for twice in ((right, wrong), (wrong, right)):
        host = msgspec.structs.replace(summary, tasks=(*twice, *summary.tasks[1:]))
        found = compare_summaries(record, host, expected={"a"})
        assert ("counts-differ", "a") in [(d.kind, d.task_id) for d in found]


@pytest.mark.parametrize("score", [0, 0.8])
def test_host_pass_off_the_path_is_told_whatever_the_score(score: float) -> None:
    """A score of 0 is the same gated and not; its host's pass is wrong all the same."""
    log = Log().start().call("y").score("a", score).call("x").score("b", 0.9)
    state, _ = fold(log.lines, make_context(SUITE))
    audit = grade_run(state, SUITE, make_context().policy).suite_record.host
    assert isinstance(audit, HostAudit)
    (found,) = audit.disagreements
    assert ("trial-passed-off-path", "a", (1,)) == (
        found.kind,
        found.task_id,
        found.trials,
    )
