"""From states to records: what is shown, what is left out, what differs."""

from typing import Any

import msgspec
import pytest

from schemas.records import HostAudit, Outcome, SuiteRecord
from streams.core.policy import Policy
from streams.core.summarize import figures_of_task, grade_run, task_record
from streams.core.trials import MAX_OBSERVED
from tests.factories import (
    SUITE_ID,
    Log,
    codes,
    fold,
    grade,
    make_context,
    make_suite,
    replay,
    task,
)

UNSET = msgspec.UNSET


def host_kinds(record: SuiteRecord) -> list[str]:
    """The kinds of what the host's ``eval.completed`` disagrees in."""
    assert isinstance(record.host, HostAudit)
    return [found.kind for found in record.host.disagreements]


def test_a_regression_is_told_where_the_baseline_is_known() -> None:
    """0.7 - 0.9 = -0.2 exactly; not -0.20000000000000007, as doubles have it."""
    suite = make_suite()
    state, _ = fold(
        Log().start(baseline="acme/base").score("refund", 0.7).lines,
        make_context(suite),
    )
    policy = make_context().policy
    record = grade_run(state, suite, policy, 0.9).suite_record
    assert record.summary.regression
    assert ("acme/base", -0.2, UNSET) == (
        record.summary.regression.baseline_run_id,
        record.summary.regression.score_delta,
        record.summary.regression.diff_ref,
    )
    assert grade_run(state, suite, policy).suite_record.summary.regression is UNSET
    state, _ = fold(Log().start().score("refund").lines, make_context(suite))
    record = grade_run(state, suite, policy, 0.9).suite_record
    assert record.summary.regression is UNSET


def test_observed_tools_are_at_most_fifty() -> None:
    """All calls are counted; only where the path was wrong are they shown."""
    suite = make_suite(task("t", {"match": "exact", "steps": [{"tool": "a"}]}))
    log = Log().start().calls(*["b"] * (MAX_OBSERVED + 1)).score("t")
    (trial,) = grade(log, make_context(suite)).tasks["t"].trials
    assert (("b",) * 50, ("a",), 51) == (trial.observed, trial.expected, trial.calls)


def test_a_matched_trial_shows_no_path() -> None:
    """Nor does one without an expectation."""
    suite = make_suite(task("t", {"steps": [{"tool": "a"}]}), task("u"))
    log = Log().start().call("a").score("t").call("a").score("u")
    outcome = grade(log, make_context(suite))
    for task_id, matched in (("t", True), ("u", UNSET)):
        (trial,) = outcome.tasks[task_id].trials
        assert (UNSET, UNSET, matched) == (
            trial.expected,
            trial.observed,
            trial.matched,
        )


def test_a_trial_has_every_reason_it_failed_for() -> None:
    """Path, miss and host, in that order."""
    suite = make_suite(task("t", {"steps": [{"tool": "a"}]}))
    log = Log().start().score("t", 0.5, passed=False, fixtureMiss=True)
    outcome = grade(log, make_context(suite))
    assert ["missing-step", "fixture-miss", "host-failed"] == outcome.trial_codes("t")
    assert 0.0 == outcome.tasks["t"].trials[0].gating_score


@pytest.mark.parametrize(
    "key", ["fixtureMiss", "openwop-fixture-miss", "x-fixture-miss"]
)
def test_a_miss_is_read_by_each_of_its_names(key: str) -> None:
    """True gates to 0; false is no miss."""
    suite = make_suite(passScore=0.5)
    for flag in (True, False):
        flags: dict[str, Any] = {key: flag}
        log = Log().start().score("refund", 0.9, **flags)
        outcome = grade(log, make_context(suite))
        assert flag is not outcome.passed
        expected = ["fixture-miss"] if flag else []
        assert expected == outcome.trial_codes("refund")


def test_schema_validity_is_false_if_any_trial_says_so() -> None:
    """True if all that tell say so; left out where none tells."""
    suite = make_suite(count=2)
    cases: list[tuple[list[bool | None], object]] = [
        ([True, False], False),
        ([True, True], True),
        ([None, True], True),
        ([None, False], False),
        ([None, None], UNSET),
    ]
    for told, shown in cases:
        log = Log().start()
        for valid in told:
            log.score("refund", **_told(valid))
        entry = grade(log, make_context(suite)).entries["refund"]
        assert shown is entry.schema_valid


def _told(valid: bool | None) -> dict[str, Any]:  # noqa: FBT001  # one of three
    return {} if valid is None else {"schemaValid": valid}


def test_strangers_count_in_cost_and_latency() -> None:
    """A score of an unknown task was paid for as well."""
    suite = make_suite(passScore=0, maxCostUsd=0.25, maxP95LatencyMs=10)
    log = Log().start().score("refund", costUsd=0.1, latencyMs=1)
    log.score("zz", costUsd=0.2, latencyMs=11).score("aa", costUsd=0, latencyMs=1)
    outcome = grade(log, make_context(suite))
    assert 0.3 == outcome.record.summary.total_cost_usd
    assert ["unknown-task", "unknown-task", "cost-exceeded", "latency-exceeded"] == (
        outcome.codes
    )
    # By id, whatever came first.
    assert ["aa", "zz"] == [r.task_id for r in outcome.record.reasons[:2]]


def test_a_gated_stranger_closes_a_gate_without_a_bar() -> None:
    """The host's verdict is not followed past any gated trial."""
    log = Log().start().score("refund").score("zz", fixtureMiss=True).completed()
    outcome = grade(log, make_context(make_suite()))
    assert ["below-pass-score", "unknown-task"] == outcome.codes
    assert 1 == outcome.record.reasons[0].count


def test_bars_without_any_trial_are_closed() -> None:
    """Nothing was scored: no figure to hold against them."""
    suite = make_suite(passScore=0, maxCostUsd=1, maxP95LatencyMs=1)
    log = Log().start().end()
    outcome = grade(log, make_context(suite))
    assert {"cost-unreported", "latency-unreported"} < set(outcome.codes)
    opened = grade(log, make_context(suite, missing_budget="open"))
    assert not {"cost-unreported", "latency-unreported"} & set(opened.codes)


@pytest.mark.parametrize(
    ("bar", "code"),
    [
        ({"maxCostUsd": 1}, "cost-exceeded"),
        ({"maxP95LatencyMs": 1}, "latency-exceeded"),
    ],
)
def test_each_bar_is_held_without_the_other(bar: dict[str, Any], code: str) -> None:
    """A suite may declare a bar of cost alone, or of latency alone."""
    log = Log().start().score("a", costUsd=2, latencyMs=2).completed()
    outcome = grade(log, make_context(make_suite(task("a"), passScore=0, **bar)))
    assert [code] == outcome.codes


def test_a_bar_is_met_by_what_equals_it() -> None:
    """Cost and latency may be as high as their bars."""
    suite = make_suite(passScore=0, maxCostUsd=0.3, maxP95LatencyMs=7)
    log = Log().start().score("refund", costUsd=0.3, latencyMs=7)
    assert grade(log, make_context(suite)).passed


def test_a_budget_of_nothing_is_a_budget() -> None:
    """0 USD and 0 ms are bars, not absence of bars."""
    suite = make_suite(passScore=0, maxCostUsd=0, maxP95LatencyMs=0)
    log = Log().start().score("refund", costUsd=0.001, latencyMs=1)
    assert ["cost-exceeded", "latency-exceeded"] == grade(
        log, make_context(suite)
    ).codes


def test_a_run_that_declares_no_task_evaluates_nothing() -> None:
    """``taskCount`` 0, though every task of the suite was scored."""
    log = Log().start(count=0).score("refund")
    outcome = grade(log, make_context(make_suite(passScore=0)))
    assert ["nothing-evaluated"] == outcome.codes
    assert not outcome.record.legacy_passed


def test_a_bar_at_the_score_is_met_under_either_rule() -> None:
    """And a hair above it under neither."""
    for bar, met in [(0.5, True), (0.5000001, False)]:
        context = make_context(make_suite(passScore=bar))
        outcome = grade(Log().start().score("refund", 0.5), context)
        assert (met, met) == (outcome.passed, outcome.record.legacy_passed)


def test_no_latency_is_no_high_latency() -> None:
    """With ``missing_budget=open`` and a bar of 0 ms."""
    suite = make_suite(passScore=0, maxP95LatencyMs=0, maxCostUsd=0)
    context = make_context(suite, missing_budget="open")
    assert grade(Log().start().score("refund"), context).passed


def test_a_run_may_be_graded_without_its_start() -> None:
    """By a suite that the caller names; it has no baseline."""
    suite = make_suite(passScore=0.5)
    state, _ = fold(Log().score("refund").lines, make_context(suite))
    record = grade_run(state, suite, make_context().policy, 0.5).suite_record
    assert record.summary.passed
    assert record.summary.regression is UNSET


def test_a_matched_trial_remembers_no_path() -> None:
    """What is shown only of wrong paths is kept only of them."""
    suite = make_suite(task("t", {"steps": [{"tool": "a"}]}))
    context = make_context(suite)
    state, _ = fold(Log().start().call("a").score("t").lines, context)
    grade_run(state, suite, context.policy)
    assert () == state.scored.results[2].observed


def test_mean_without_a_bar_is_all() -> None:
    """No score to hold the mean against: every verdict counts."""
    suite = make_suite(count=2, rule="mean")
    log = Log().start().score("refund", 1).score("refund", 1, passed=False).completed()
    outcome = grade(log, make_context(suite))
    assert not outcome.entries["refund"].passed
    assert ["trial-failed"] == codes(outcome.tasks["refund"].reasons)
    defaulted = grade(log, make_context(suite, default_pass_score=0.5))
    assert defaulted.entries["refund"].passed


def test_mean_may_pass_with_failed_verdicts_and_then_has_no_reason() -> None:
    """The rule counts scores; the old rule agrees where nothing was gated."""
    suite = make_suite(count=2, rule="mean", passScore=0.5)
    log = Log().start().score("refund", 1).score("refund", 0.5, passed=False)
    record = grade(log, make_context(suite)).tasks["refund"]
    assert (True, True, ()) == (
        record.task.passed,
        record.legacy_passed,
        record.reasons,
    )


def test_a_failed_mean_says_by_how_much() -> None:
    """Below the bar, and which trials failed."""
    suite = make_suite(count=2, rule="mean", passScore=0.5)
    log = Log().start().score("refund", 0.5).score("refund", 0.25, passed=False)
    record = grade(log, make_context(suite)).tasks["refund"]
    assert ["trial-failed", "below-pass-score"] == codes(record.reasons)
    below = record.reasons[1]
    assert (0.375, 0.5) == (below.value, below.limit)


def test_a_mean_at_the_bar_is_not_below_it() -> None:
    """One trial too many: that is the reason, and no other."""
    suite = make_suite(count=1, rule="mean", passScore=0.5)
    log = Log().start().score("refund", 0.5).score("refund", 0.5)
    record = grade(log, make_context(suite)).tasks["refund"]
    assert ["extra-trial"] == codes(record.reasons)


def test_the_declared_bar_goes_before_the_default() -> None:
    """``default_pass_score`` is for suites that declare none; 0 is declared."""
    log = Log().start().score("refund", 0.3)
    for declared, passed in [(0.2, True), (0.4, False), (0, True)]:
        suite = make_suite(passScore=declared)
        context = make_context(suite, default_pass_score=0.9)
        assert passed is grade(log, context).passed


def test_an_unknown_suite_keeps_its_measurements_apart() -> None:
    """By task, in order of ids, aggregated as asked; nothing passes."""
    log = Log().start("acme.evals.elsewhere").score("b", 0.2).score("a", 1)
    outcome = grade(log.score("b", 0.4), make_context(aggregation="min"))
    summary = outcome.record.summary
    assert [("a", 1.0), ("b", 0.3)] == [(t.task_id, t.score) for t in summary.tasks]
    assert (0.3, 2, 0) == (
        summary.aggregate_score,
        summary.task_count,
        summary.passed_count,
    )
    nothing = grade(Log().start(), make_context())
    assert ["unknown-suite", "nothing-evaluated"] == nothing.codes


def test_a_task_record_rests_on_its_own_evidence() -> None:
    """Calls and scores of its trials, not of the run."""
    suite = make_suite(task("t"), task("u"), count=2)
    context = make_context(suite)
    log = (
        Log()
        .start()
        .calls("a", "b")
        .score("t")
        .call("c")
        .score("u")
        .call("d")
        .score("t")
    )
    state, _ = fold(log.lines, context)
    figures = figures_of_task(state, suite, context.policy, suite.by_id["t"])
    record = task_record(state, suite, figures)
    assert (3, 2) == (record.evidence.calls, record.evidence.scores)
    assert (SUITE_ID, "1.0.0") == (record.suite_id, record.suite_version)
    assert [1, 2] == [trial.trial for trial in record.trials]
    assert [3, 7] == [trial.sequence for trial in record.trials]


def test_a_trial_is_graded_once_until_its_evidence_changes() -> None:
    """What was graded is remembered, and the same object is given again."""
    suite = make_suite(task("t", {"steps": [{"tool": "a"}]}))
    context = make_context(suite)
    state, _ = fold(Log().start().call("a").score("t").lines, context)
    first = figures_of_task(state, suite, context.policy, suite.tasks[0]).trials[0]
    again = figures_of_task(state, suite, context.policy, suite.tasks[0]).trials[0]
    assert first is again


def test_an_ending_matters_only_where_trials_are_missing() -> None:
    """Idle or failed, a whole run is complete; an ending outranks idleness."""
    suite = make_suite(count=2)
    whole = Log().start().score("refund").score("refund")
    part = Log().start().score("refund")
    policy = make_context().policy
    for log, idle, outcome in [
        (whole, True, Outcome.COMPLETE),
        (part, True, Outcome.ABANDONED),
        (part, False, Outcome.INCOMPLETE),
        (Log().start().score("refund").end("run.failed"), True, Outcome.FAILED),
        (Log().start().score("refund").completed(), True, Outcome.INCOMPLETE),
        (Log().start().score("refund").end(), True, Outcome.INCOMPLETE),
    ]:
        state, _ = fold(log.lines, make_context(suite))
        state.idle = idle
        assert outcome is grade_run(state, suite, policy).suite_record.outcome


def test_the_transport_closes_the_gate() -> None:
    """Dropped and misrouted calls, each once."""
    suite = make_suite(passScore=0.5)
    state, _ = fold(Log().start().score("refund").lines, make_context(suite))
    state.calls_dropped = state.misrouted = True
    record = grade_run(state, suite, make_context().policy).suite_record
    assert ["calls-dropped", "misrouted-events"] == codes(record.reasons)


@pytest.mark.parametrize(
    ("flag", "code"),
    [
        ("calls_dropped", "calls-dropped"),
        ("unreadable", "calls-dropped"),
        ("misrouted", "misrouted-events"),
        ("overflow", "trajectory-overflow"),
        (None, "no-call-evidence"),
    ],
)
def test_missing_evidence_closes_the_gate_under_either_rule(
    flag: str | None, code: str
) -> None:
    """No score counted 0 (0.9 clears 0.5 both ways), so the gate changed nothing.

    RFC 0244 is the same rules on ungated scores (DESIGN.md §4). A host that had
    every event passes the run under RFC 0246 too: it is told apart as a verdict
    that differs, not as a host that has not migrated.
    """
    suite = make_suite(task("t", {"forbidden": ["wire"]}), passScore=0.5)
    context = make_context(suite, require_call_evidence="closed")
    log = Log().start()
    if flag is not None:
        log.call("look-up")
    log.score("t", 0.9).completed(0.9)
    state, _ = fold(log.lines, context)
    if flag is not None:
        setattr(state, flag, True)
    record = grade_run(state, suite, context.policy).suite_record
    assert [code] == codes(record.reasons)
    assert 0.9 == record.summary.gated_aggregate_score
    assert (False, False) == (record.summary.passed, record.legacy_passed)
    assert ["verdict-differs"] == host_kinds(record)


def test_a_forbidden_call_of_no_trial_is_no_missing_migration() -> None:
    """RFC 0246 gates trials: one outside them closes our gate, and no score is 0."""
    suite = make_suite(task("t", {"forbidden": ["wire"]}), passScore=0.5)
    log = Log().start().score("t", 0.9).call("wire").completed(0.9)
    state, _ = fold(log.lines, make_context(suite))
    record = grade_run(state, suite, make_context().policy).suite_record
    assert ["unattributed-forbidden-call"] == codes(record.reasons)
    assert record.legacy_passed
    assert ["verdict-differs"] == host_kinds(record)


@pytest.mark.parametrize(
    ("unreadable", "kind"),
    [(False, "suite-passed-ungated"), (True, "verdict-differs")],
)
def test_only_a_gating_score_under_the_bar_tells_an_ungated_pass(
    *, unreadable: bool, kind: str
) -> None:
    """Scores 0.9, in the gate 0, bar 0.5; a lost call too, and it may be the path."""
    expectation = {"steps": [{"tool": "x"}], "forbidden": ["wire"]}
    suite = make_suite(task("t", expectation), passScore=0.5)
    log = Log().start().call("y").score("t", 0.9, passed=False).call("wire")
    state, _ = fold(log.completed(0.9, passed_tasks=0).lines, make_context(suite))
    state.unreadable = unreadable
    record = grade_run(state, suite, make_context().policy).suite_record
    assert ["below-pass-score", "unattributed-forbidden-call"] == (
        codes(record.reasons)[:2]
    )
    assert record.legacy_passed is not unreadable
    assert [kind] == host_kinds(record)


def test_an_event_that_cannot_be_read_closes_the_gate() -> None:
    """It may have been a call; once, whatever else was dropped."""
    suite = make_suite(passScore=0.5)
    state, _ = fold(Log().start().score("refund").lines, make_context(suite))
    state.unreadable = True
    for dropped in (False, True):
        state.calls_dropped = dropped
        record = grade_run(state, suite, make_context().policy).suite_record
        assert ["calls-dropped"] == codes(record.reasons)


def test_forbidden_calls_of_no_trial_are_at_most_twenty_lines() -> None:
    """Sorted by entry and tool, each with its number; 25 tools are cut to 20."""
    suite = make_suite(task("t", {"forbidden": ["wire*"]}), passScore=0)
    log = Log().start().score("t").calls(*[f"wire-{n:02d}" for n in range(25)][::-1])
    reasons = grade(log, make_context(suite)).record.reasons
    assert [f"wire-{n:02d}" for n in range(20)] == [r.observed for r in reasons]


def test_trials_of_unknown_tasks_are_given_apart() -> None:
    """With the figures of the known ones; none of either for an unknown suite."""
    context = make_context(make_suite())
    state, _ = fold(Log().start().score("zz").score("refund").lines, context)
    graded = grade_run(state, state.suite, context.policy)
    assert ["zz"] == [trial.score.task_id for trial in graded.strays]
    assert ["refund"] == [figures.task.task_id for figures in graded.figures]
    graded = grade_run(state, None, context.policy)
    assert ((), ()) == (graded.figures, graded.strays)


def test_unknown_tasks_are_at_most_twenty_lines() -> None:
    """The first by id; every score of them is counted in the evidence."""
    log = Log().start().score("refund")
    for number in range(25):
        log.score(f"zz-{number:02d}").score(f"zz-{number:02d}")
    record = grade(log, make_context(make_suite(passScore=0))).record
    assert [(f"zz-{n:02d}", 2) for n in range(20)] == [
        (reason.task_id, reason.count) for reason in record.reasons
    ]
    assert 51 == record.evidence.scores


def test_a_task_record_lists_a_bounded_number_of_trials() -> None:
    """Two declared and a hundred more; what is left out still counts."""
    log = Log().start()
    for _ in range(103):
        log.score("refund", 1)
    record = grade(log, make_context(make_suite(count=2))).tasks["refund"]
    assert list(range(1, 103)) == [trial.trial for trial in record.trials]
    assert 103 == record.evidence.scores
    assert record.task.trials
    assert 103 == record.task.trials.scored


def test_no_call_evidence_needs_an_expectation() -> None:
    """A suite without any rests on scores alone."""
    log = Log().start().score("refund")
    context = make_context(make_suite(passScore=0), require_call_evidence="closed")
    assert grade(log, context).passed
    expecting = make_suite(task("refund", {}), passScore=0)
    context = make_context(expecting, require_call_evidence="closed")
    assert ["no-call-evidence"] == grade(log, context).codes
    assert grade(Log().start().call("a").score("refund"), context).passed


def test_two_versions_of_a_suite_are_two_suites() -> None:
    """Each run is graded by the version it names."""
    old, new = make_suite(passScore=0.5), make_suite(version="2.0.0", passScore=0.9)
    runs, _ = replay(
        {
            "log": [
                *Log("acme/old").start().score("refund", 0.7).lines,
                *Log("acme/new").start(version="2.0.0").score("refund", 0.7).lines,
            ]
        },
        make_context(old, new),
    )
    assert (True, False) == (runs["acme/old"].passed, runs["acme/new"].passed)


def test_details_are_told_of_the_first_trials_that_did_not_pass() -> None:
    """Of 60 trials off their path the first 50 are told in full, ten in brief.

    Each calls ``x`` where ``a`` was expected and is failed by its host: two
    reasons at least in full, one in brief; every trial keeps its verdict.
    """
    suite = make_suite(
        task("t", {"match": "exact", "steps": [{"tool": "a"}]}), count=60
    )
    log = Log().start()
    for _ in range(60):
        log.call("x").score("t", "1", passed=False)
    state, _ = fold(log.lines, make_context(suite))
    graded = grade_run(state, state.suite, Policy())
    record = task_record(state, suite, graded.figures[0])
    full, brief = record.trials[:50], record.trials[50:]
    assert all(trial.observed == ("x",) and len(trial.reasons) > 1 for trial in full)
    assert all(trial.observed is UNSET and len(trial.reasons) == 1 for trial in brief)
    assert [False] * 60 == [trial.passed for trial in record.trials]
