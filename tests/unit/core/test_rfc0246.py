"""RFC 0246: its examples and its three conformance legs.

Each host leg is also held against doubles that change our records into those
of a host that must fail it: a leg that passes everyone proves nothing.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import jsonschema_rs
import msgspec
import pytest

from schemas.catalog import schema
from schemas.suite import PassRule
from schemas.summary import EvalSummary
from streams.core.compiled import CompiledSuite
from tests.factories import Log, Outcome, grade, make_context, make_suite, task

Json = dict[str, Any]


class Report(NamedTuple):
    """What a host reports of one run.

    Args:
        summary: Its ``EvalSummary``.
        trials: Task id -> ``(score, passed)`` of each ``eval.scored``.
    """

    summary: Json
    trials: dict[str, list[tuple[float, bool]]]


Host = Callable[[Log, CompiledSuite], Report]


def pathgate(log: Log, suite: CompiledSuite) -> Report:
    outcome = grade(log, make_context(suite))
    return Report(
        msgspec.to_builtins(outcome.record.summary),
        {
            task_id: [(trial.score, trial.passed) for trial in record.trials]
            for task_id, record in outcome.tasks.items()
        },
    )


def deciding_by_scores(log: Log, suite: CompiledSuite) -> Report:
    """Both decisions as RFC 0244 had them; the new fields are there."""
    report = pathgate(log, suite)
    bar = suite.thresholds.pass_score
    assert bar is not None
    for entry in report.summary["tasks"]:
        if "trials" in entry and suite.pass_rule is PassRule.MEAN:
            entry["passed"] = entry["trials"]["meanScore"] >= bar
    report.summary["passed"] = report.summary["aggregateScore"] >= bar
    return report


def unmigrated(log: Log, suite: CompiledSuite) -> Report:
    """A host of RFC 0244: decides by scores and knows no gated fields."""
    report = deciding_by_scores(log, suite)
    report.summary.pop("gatedAggregateScore", None)
    for entry in report.summary["tasks"]:
        entry.pop("gatedScore", None)
    return report


def zeroing(log: Log, suite: CompiledSuite) -> Report:
    """A host that closes the gate by reporting 0 where the path was wrong."""
    report = pathgate(log, suite)
    trials = {
        task_id: [(score if passed else 0.0, passed) for score, passed in pairs]
        for task_id, pairs in report.trials.items()
    }
    for entry in report.summary["tasks"]:
        entry["score"] = entry["gatedScore"]
        if "trials" in entry:
            entry["trials"]["meanScore"] = entry["gatedScore"]
    report.summary["aggregateScore"] = report.summary["gatedAggregateScore"]
    return Report(report.summary, trials)


def silent(log: Log, suite: CompiledSuite) -> Report:
    """A host that decides rightly and does not say why (RFC 0246 §D)."""
    report = pathgate(log, suite)
    report.summary.pop("gatedAggregateScore", None)
    for entry in report.summary["tasks"]:
        entry.pop("gatedScore", None)
    return report


def mean_gated(host: Host) -> None:
    """``conformance-eval-trajectory-gate-mean``: golden outputs, forbidden calls."""
    suite = make_suite(
        task("gate-mean", {"match": "any-order", "forbidden": ["wire-money"]}),
        count=2,
        rule="mean",
        passScore=0.6,
    )
    # The recorded verdicts are false: a trial off its path must not pass.
    log = Log().start()
    for _ in range(2):
        log.call("wire-money").score("gate-mean", 1, passed=False)
    report = host(log, suite)
    (entry,) = report.summary["tasks"]
    assert [(1.0, False), (1.0, False)] == report.trials["gate-mean"]
    assert 1.0 == entry["trials"]["meanScore"]
    assert 0.0 == entry["gatedScore"]
    assert entry["passed"] is False
    assert 0.0 == report.summary["gatedAggregateScore"]


def suite_gated(host: Host) -> None:
    """``conformance-eval-trajectory-gate``: one task on its path, one off it."""
    path = {"match": "exact", "steps": [{"tool": "look-up"}, {"tool": "refund"}]}
    suite = make_suite(task("on-path", path), task("off-path", path), passScore=0.6)
    log = (
        Log()
        .start(count=2)
        .calls("look-up", "refund")
        .score("on-path", 1)
        .calls("refund", "look-up")
        .score("off-path", 1, passed=False)
    )
    summary = host(log, suite).summary
    on_path, off_path = summary["tasks"]
    assert 1.0 == on_path["score"] == off_path["score"]
    # (1 + 1) / 2: unchanged, it clears 0.6.
    assert 1.0 == summary["aggregateScore"]
    assert on_path["score"] == on_path["gatedScore"]
    assert 0.0 == off_path["gatedScore"]
    # The mean of 1 and 0.
    assert 0.5 == summary["gatedAggregateScore"]
    assert summary["passed"] is False


LEGS = [
    pytest.param(mean_gated, id="openwop.requirement.0246.mean-gated"),
    pytest.param(suite_gated, id="openwop.requirement.0246.suite-gated"),
]


@pytest.mark.parametrize("leg", LEGS)
def test_pathgate_passes_the_host_leg(leg: Callable[[Host], None]) -> None:
    """Our records meet every assertion of the leg."""
    leg(pathgate)


@pytest.mark.parametrize("leg", LEGS)
@pytest.mark.parametrize("host", [deciding_by_scores, unmigrated, zeroing, silent])
def test_host_leg_fails_a_wrong_host(leg: Callable[[Host], None], host: Host) -> None:
    """The leg fails hosts that decide by scores, report 0, or leave fields out."""
    with pytest.raises((AssertionError, KeyError)):
        leg(host)


def summary_with(task_fields: Json, suite_fields: Json) -> bytes:
    entry = {"taskId": "refund", "score": 0.9, "passed": False} | task_fields
    return msgspec.json.encode(
        {
            "suiteId": "acme.evals.refunds",
            "suiteVersion": "1.0.0",
            "aggregateScore": 0.9,
            "passed": False,
            "taskCount": 1,
            "passedCount": 0,
            "tasks": [entry],
        }
        | suite_fields
    )


SCHEMA = jsonschema_rs.validator_for(schema("eval-summary"))
FIELDS_SHAPE = "openwop.requirement.0246.gated-fields-shape"


@pytest.mark.parametrize("value", [0, 0.0, 0.45, 1, 1.0], ids=str)
@pytest.mark.parametrize("leg", [FIELDS_SHAPE])
def test_gated_fields_take_any_ratio(leg: str, value: float) -> None:
    """Both fields validate from 0 to 1, in the schema and in our model."""
    assert leg
    data = summary_with({"gatedScore": value}, {"gatedAggregateScore": value})
    assert SCHEMA.is_valid(json.loads(data))
    summary = msgspec.json.decode(data, type=EvalSummary)
    assert (value, value) == (
        summary.tasks[0].gated_score,
        summary.gated_aggregate_score,
    )


@pytest.mark.parametrize("value", [-0.01, 1.01, 2, "0.5", None, True], ids=str)
@pytest.mark.parametrize("field", ["gatedScore", "gatedAggregateScore"])
@pytest.mark.parametrize("leg", [FIELDS_SHAPE])
def test_gated_fields_refuse_all_else(leg: str, field: str, value: object) -> None:
    """A value outside 0-1, or no number, fails."""
    assert leg
    own = {field: value}
    data = summary_with(own, {}) if field == "gatedScore" else summary_with({}, own)
    assert not SCHEMA.is_valid(json.loads(data))
    with pytest.raises(msgspec.ValidationError, match=rf"\.{field}`"):
        msgspec.json.decode(data, type=EvalSummary)


FORBIDDEN = {"match": "any-order", "forbidden": ["wire-money"]}


def test_example_task_mean() -> None:
    """Three trials of 0.9 that call a forbidden tool: mean 0.9, gated 0, not passed."""
    log = Log().start()
    for _ in range(3):
        log.call("wire-money").score("refund", 0.9)
    suite = make_suite(task("refund", FORBIDDEN), count=3, rule="mean", passScore=0.7)
    outcome = grade(log, make_context(suite))
    entry = outcome.entries["refund"]
    assert entry.trials
    assert (0.9, 0.9, 0.0, False) == (
        entry.trials.mean_score,
        entry.score,
        entry.gated_score,
        entry.passed,
    )
    # RFC 0244 said: meanScore 0.9 >= 0.7.
    assert outcome.tasks["refund"].legacy_passed


def two_tasks(*second: str) -> Outcome:
    path = {"match": "exact", "steps": [{"tool": "look-up"}]}
    suite = make_suite(task("one", path), task("two", path), passScore=0.7)
    log = Log().start(count=2).call("look-up").score("one", 0.9)
    return grade(log.calls(*second).score("two", 0.9), make_context(suite))


def test_example_suite_of_two() -> None:
    """0.9 and 0.9, the second off its path: 0.9, gated 0.45, not passed."""
    outcome = two_tasks("browse")
    summary = outcome.record.summary
    assert (0.9, 0.45, False) == (
        summary.aggregate_score,
        summary.gated_aggregate_score,
        summary.passed,
    )
    assert 0.0 == outcome.entries["two"].gated_score
    assert outcome.record.legacy_passed


def test_example_trajectory_matched() -> None:
    """Where every trial matched, gatedScore stands and equals the score."""
    outcome = two_tasks("look-up")
    assert [0.9, 0.9] == [entry.gated_score for entry in outcome.entries.values()]
    assert 0.9 == outcome.record.summary.gated_aggregate_score
    assert outcome.passed


def test_example_no_trajectory() -> None:
    """Without an expectation and without a miss neither new field is carried."""
    suite = make_suite(task("one"), task("two"), passScore=0.7)
    log = Log().start(count=2).call("wire-money").score("one", 0.9).score("two", 0.9)
    outcome = grade(log, make_context(suite))
    assert b"gated" not in b"".join(outcome.raw).replace(b"gatingScore", b"")
    assert outcome.passed


def test_fixture_miss_without_a_trajectory() -> None:
    """A flagged miss gates to 0; gatedScore may be carried, the aggregate is not."""
    suite = make_suite(task("one"), task("two"), passScore=0.4)
    log = Log().start(count=2).score("one", 0.8, fixtureMiss=True).score("two", 0.5)
    outcome = grade(log, make_context(suite))
    assert 0.0 == outcome.entries["one"].gated_score
    assert outcome.entries["two"].gated_score is msgspec.UNSET
    assert outcome.record.summary.gated_aggregate_score is msgspec.UNSET
    # (0.8 + 0.5) / 2 clears 0.4; (0 + 0.5) / 2 does not.
    assert 0.65 == outcome.record.summary.aggregate_score
    assert not outcome.passed
    assert ["below-pass-score"] == outcome.codes


@pytest.mark.parametrize(
    ("rule", "passed"), [("all", False), ("any", True)], ids=["all", "any"]
)
def test_all_and_any_count_verdicts(*, rule: str, passed: bool) -> None:
    """Both rules count trial verdicts; scores do not enter them."""
    suite = make_suite(task("refund", FORBIDDEN), count=2, rule=rule, passScore=0.9)
    log = Log().start().call("wire-money").score("refund", 1).score("refund", 0.1)
    outcome = grade(log, make_context(suite))
    assert passed is outcome.entries["refund"].passed
