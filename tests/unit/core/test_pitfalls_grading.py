"""What went wrong in comparable tools, as cases: totals, bars, late data, output.

Each test is named by the id of its case. ``S`` are scores, ``T`` declared
trials, ``P`` the bar. Kinds about matching stand in ``test_pitfalls_matching``.
"""

import json
import re

import msgspec
import pytest

from schemas.codec import decode_suite
from schemas.errors import SuiteError
from schemas.records import AlertKind
from schemas.records import Outcome as Ending
from streams.core.alerts import alert_kinds
from streams.core.closing import NOTHING_DUE, due
from streams.core.rows import RowStatus, RunRow, decode_row, encode_row, restore_state
from streams.core.summarize import grade_run
from streams.core.verdict import lacks_calls
from streams.replay import FileGrader, GradedRun
from tests.factories import (
    RUN,
    SUITE_ID,
    VERSION,
    Log,
    codes,
    fold,
    grade,
    make_context,
    make_suite,
    numbered,
    replay,
    task,
)


def exact(*tools: str) -> dict[str, object]:
    return {"match": "exact", "steps": [{"tool": tool} for tool in tools]}


def forbid(*tools: str) -> dict[str, object]:
    return {"match": "any-order", "forbidden": list(tools)}


def test_a4_a_second_attempt_is_an_extra_trial() -> None:
    """T=1, S=[0, 1]: the gate closes; never silently two trials, never the better.

    DESIGN.md §4 wins over the row's "keep attempt 2": with more trials than
    declared the task does not pass and its mean runs over all received, 0.5.
    """
    suite = make_suite(task("t"), passScore=0.5)
    log = Log().start().score("t", 0, passed=False).score("t", 1)
    outcome = grade(log, make_context(suite))
    assert not outcome.passed
    assert ["extra-trial"] == outcome.codes
    assert 0.5 == outcome.entries["t"].score
    assert not outcome.entries["t"].passed


def test_a7_a_redelivered_event_is_one_event() -> None:
    """e1:a twice, e2:b once, exact [a, b]: ok."""
    log = Log().start().calls("a", "b").score("t")
    log.lines.insert(2, log.lines[1])
    outcome = grade(log, make_context(make_suite(task("t", exact("a", "b")))))
    assert outcome.tasks["t"].trials[0].matched is True
    assert 2 == outcome.record.evidence.calls


def test_a9_grading_again_gives_the_same_bytes() -> None:
    """The same run graded twice from the start: same bytes, one record a key."""
    context = make_context(make_suite(task("t", exact("a")), passScore=0.5))
    log = Log().start().call("b").score("t").completed().end()
    once = grade(log, context)
    assert once.raw == grade(log, context).raw
    assert once.raw == grade(log.lines + log.lines, context).raw


def test_b1_nothing_expected_and_nothing_called_is_met() -> None:
    """Exact [], no calls, trial finished: ok."""
    outcome = grade(
        Log().start().score("t"),
        make_context(make_suite(task("t", exact()), passScore=1)),
    )
    assert outcome.tasks["t"].trials[0].matched is True
    assert outcome.passed


@pytest.mark.parametrize("mode", ["exact", "unordered"], ids=["b2", "b3"])
def test_b2_b3_an_empty_expectation_is_an_expectation(mode: str) -> None:
    """Exact [] and unordered [] with one call: fail."""
    suite = make_suite(task("t", {"match": mode, "steps": []}), passScore=0.5)
    outcome = grade(Log().start().call("x").score("t"), make_context(suite))
    assert ["unexpected-call"] == outcome.trial_codes("t")
    assert not outcome.passed


def test_b4_absent_and_empty_read_the_same_calls() -> None:
    """Absent: no gate; exact []: fail; the same one call is seen in both."""
    log = Log().start(count=2).call("x").score("absent").call("x").score("empty")
    suite = make_suite(task("absent"), task("empty", exact()))
    outcome = grade(log, make_context(suite))
    (absent,) = outcome.tasks["absent"].trials
    (empty,) = outcome.tasks["empty"].trials
    assert (msgspec.UNSET, True, 1) == (absent.matched, absent.passed, absent.calls)
    assert (False, False, 1) == (empty.matched, empty.passed, empty.calls)


def test_b5_a_run_without_a_single_call_event_is_told() -> None:
    """Scored, expectations, no call event: alert ``no-call-evidence``.

    DESIGN.md §5 wins over "undecided": a trial may rightly call nothing, so it
    is the run without any call that is alerted, or closed on request.
    """
    suite = make_suite(task("t", forbid("wire")), passScore=0.5)
    lines = Log().start().score("t").lines
    context = make_context(suite)
    state, _ = fold(lines, context)
    assert lacks_calls(state, suite)
    record = grade_run(state, suite, context.policy).suite_record
    kinds = alert_kinds(record, passed_before=None, lacks_calls=True)
    assert (AlertKind.NO_CALL_EVIDENCE,) == kinds
    assert record.summary.passed
    closed = grade(lines, make_context(suite, require_call_evidence="closed"))
    assert ["no-call-evidence"] == closed.codes
    assert not closed.passed


def test_b7_nothing_evaluated_is_no_pass() -> None:
    """``taskCount`` 0, bar 0: closed, ``nothing-evaluated``."""
    context = make_context(make_suite(task("t"), passScore=0))
    outcome = grade(Log().start(count=0).end(), context)
    assert not outcome.passed
    assert "nothing-evaluated" in outcome.codes


def test_b7_zero_declared_trials_are_no_suite() -> None:
    """T=0 cannot be declared: an error when the suite is loaded."""
    document = {
        "suiteId": SUITE_ID,
        "version": VERSION,
        "modes": ["golden"],
        "tasks": [task("t")],
        "trials": {"count": 0},
    }
    with pytest.raises(SuiteError, match=r"\$\.trials\.count"):
        decode_suite(json.dumps(document).encode(), "suite.json")


def test_b8_a_run_without_its_suite_is_no_failure_of_the_agent() -> None:
    """No suite at hand: gate closed, reported apart as ``unknown-suite``."""
    outcome = grade(Log().start().call("a").score("t", 0.9), make_context())
    assert ["unknown-suite"] == outcome.codes
    assert not outcome.passed
    assert 0.9 == outcome.record.summary.aggregate_score
    assert {} == outcome.tasks


@pytest.mark.parametrize(
    ("trajectory", "path"),
    [
        ({"match": "sorted"}, "match"),
        ({"mode": "exact"}, ""),
        ({"steps": [{"name": "a"}]}, "steps[0]"),
    ],
    ids=["b9-unknown-mode", "b10-misspelt-gate", "b10-step-without-tool"],
)
def test_b9_b10_a_malformed_expectation_is_an_error_at_load(
    trajectory: object, path: str
) -> None:
    """Never a verdict of 0: the suite is refused, naming the JSON path.

    B10's "task lacks ``tools``" is DESIGN.md §3's ``{}``: no step demanded, a
    legal expectation whose ``gatedScore`` is shown.
    """
    document = {
        "suiteId": SUITE_ID,
        "version": VERSION,
        "modes": ["golden"],
        "tasks": [task("t", trajectory)],
    }
    place = f"$.tasks[0].expected.trajectory.{path}".rstrip(".")
    with pytest.raises(SuiteError, match=re.escape(place)):
        decode_suite(json.dumps(document).encode(), "suite.json")


def test_b11_what_cannot_be_decided_is_told_apart() -> None:
    """T=2, S=[1, 1], P=0.5, trial 2 without evidence of its arguments.

    Gated (1 + 0)/2 = 0.5 passes, and the output shows one trial that could not
    be decided (``args-unobservable``), not one that did wrong.
    """
    path = {"match": "exact", "steps": [{"tool": "a", "args": {"x": 1}}]}
    suite = make_suite(task("t", path), count=2, rule="mean", passScore=0.5)
    log = Log().start().call("a", {"x": 1}).score("t").call("a").score("t")
    outcome = grade(log, make_context(suite))
    assert outcome.passed
    assert 0.5 == outcome.entries["t"].gated_score
    assert ([], ["args-unobservable"]) == (
        outcome.trial_codes("t", 1),
        outcome.trial_codes("t", 2),
    )


def test_g1_a_task_that_always_fails_is_shown() -> None:
    """50 tasks, T=10, one at 0, P=0.8: 0.98 passes the run, the task fails."""
    names = [f"t{number}" for number in range(50)]
    suite = make_suite(*map(task, names), count=10, passScore=0.8)
    log = Log().start(count=50)
    for name in names:
        for _ in range(10):
            log.score(name, 0 if name == "t7" else 1, passed=name != "t7")
    outcome = grade(log, make_context(suite))
    # 490 / 500.
    assert 0.98 == outcome.record.summary.aggregate_score
    assert outcome.passed
    assert (50, 49) == (
        outcome.record.summary.task_count,
        outcome.record.summary.passed_count,
    )
    assert ["t7"] == [e.task_id for e in outcome.entries.values() if not e.passed]


def test_g2_g3_g12_unscored_trials_are_missing_not_dropped() -> None:
    """T=3, one scored 1: gated 1/3, incomplete; pass^2 over T=3 is 0."""
    suite = make_suite(task("t"), count=3, rule="mean", passScore=0.5)
    outcome = grade(Log().start().score("t", 1).end(), make_context(suite))
    entry = outcome.entries["t"]
    assert 1 / 3 == entry.gated_score
    assert (1.0, False) == (entry.score, entry.passed)
    assert Ending.INCOMPLETE is outcome.record.outcome
    assert "incomplete" in outcome.codes
    assert entry.trials
    assert (3, 1) == (entry.trials.count, entry.trials.scored)
    stats = outcome.record.summary.trial_stats
    assert stats
    # C(1,1)/C(3,1), C(1,2)/C(3,2), C(1,3)/C(3,3).
    assert (1 / 3, 0.0, 0.0) == stats.pass_hat_k


def test_g4_pass_at_k_with_fewer_scored_is_no_pass() -> None:
    """k=3, two scored, both fail: pass@3 is 0, not 1."""
    suite = make_suite(task("t"), count=3, rule="any")
    log = Log().start().score("t", 0, passed=False).score("t", 0, passed=False).end()
    entry = grade(log, make_context(suite)).entries["t"]
    assert entry.trials
    assert (0.0, False) == (entry.trials.pass_at_k, entry.passed)


def test_g5_missing_trials_stay_in_the_divisor() -> None:
    """T=8, 2 pass, 4 fail, 2 missing: pass@1 is 2/8."""
    suite = make_suite(task("t"), count=8, rule="mean", passScore=0.5)
    log = Log().start().score("t").score("t")
    for _ in range(4):
        log.score("t", 0, passed=False)
    stats = grade(log.end(), make_context(suite)).record.summary.trial_stats
    assert stats
    assert 0.25 == stats.pass_at_k[0] == stats.pass_hat_k[0]


def test_g6_unscored_is_0_in_the_gate_and_absent_from_the_measurement() -> None:
    """T=2, S=[0.8, none], P=0.5: gate 0.4 fails, mean 0.8 over 1, both counts."""
    suite = make_suite(task("t"), count=2, rule="mean", passScore=0.5)
    entry = grade(Log().start().score("t", 0.8).end(), make_context(suite)).entries["t"]
    assert (0.4, 0.8, False) == (entry.gated_score, entry.score, entry.passed)
    assert entry.trials
    assert (2, 1) == (entry.trials.count, entry.trials.scored)


def test_g7_half_scores_are_no_successes() -> None:
    """S=[0.5, 0.5], both failed: 0 passed; a trial given twice is one or too many."""
    suite = make_suite(task("t"), count=2, rule="all", passScore=0.5)
    log = Log().start().score("t", 0.5, passed=False).score("t", 0.5, passed=False)
    entry = grade(log, make_context(suite)).entries["t"]
    assert entry.trials
    assert (0, 0.0) == (entry.trials.passed, entry.trials.pass_at_k)
    again = grade([*log.lines, log.lines[1]], make_context(suite)).entries["t"]
    assert entry == again
    other = grade(log.score("t", 0.5), make_context(suite))
    assert "extra-trial" in other.codes


def test_g9_trials_are_grouped_by_task_id() -> None:
    """Two tasks with equal input, T=2, interleaved: two groups."""
    suite = make_suite(task("one"), task("two"), count=2, rule="mean", passScore=0.5)
    log = Log().start(count=2)
    for score in (1, 0.5):
        log.score("one", score).score("two", score / 2)
    outcome = grade(log, make_context(suite))
    # One: 1.5 of 2; two: 0.75 of 2.
    assert {"one": 0.75, "two": 0.375} == {
        task_id: entry.score for task_id, entry in outcome.entries.items()
    }


def test_g10_order_of_arrival_changes_nothing() -> None:
    """Trials arrive 2, 0, 1: same bytes."""
    context = make_context(make_suite(task("t", exact("a")), count=3, passScore=0.5))
    log = Log().start()
    for tool in ("a", "b", "a"):
        log.call(tool).score("t", 0.9)
    start, *rest = log.lines
    shuffled = [*rest[4:], start, *rest[:2], *rest[2:4]]
    assert grade(log, context).raw == grade(shuffled, context).raw


def test_g11_no_trial_field_is_needed() -> None:
    """T=1 without a trial field: trial 1 of 1; T=2: numbered by sequence.

    The wire has no such field: the k-th score of a task is its trial k, so
    nothing can be missing where T > 1.
    """
    suite = make_suite(task("t"), count=2)
    outcome = grade(Log().start().score("t", 0.1).score("t", 0.2), make_context(suite))
    assert [(1, 0.1), (2, 0.2)] == [
        (trial.trial, trial.score) for trial in outcome.tasks["t"].trials
    ]


def test_g14_pass_hat_n_is_no_power_of_the_rate() -> None:
    """n=10, c=9, k=10: exactly 0, not 0.9 ** 10 = 0.349."""
    suite = make_suite(task("t"), count=10, rule="any")
    log = Log().start().score("t", 0, passed=False)
    for _ in range(9):
        log.score("t")
    outcome = grade(log, make_context(suite))
    stats = outcome.record.summary.trial_stats
    assert stats
    assert 0.0 == stats.pass_hat_k[9]
    # C(9,2)/C(10,2) = 36/45.
    assert 0.8 == stats.pass_hat_k[1]


def test_g15_the_pass_rule_decides_not_a_second_average() -> None:
    """Rule ``all``, S=[0.5, 1], one verdict fails, mean 0.75 above 0.5: task fails."""
    suite = make_suite(task("t"), count=2, rule="all", passScore=0.5)
    log = Log().start().score("t", 0.5, passed=False).score("t", 1)
    outcome = grade(log, make_context(suite))
    assert not outcome.entries["t"].passed
    assert ["trial-failed"] == codes(outcome.tasks["t"].reasons)


def test_g16_optional_fields_stay_optional() -> None:
    """Trial 1 has cost, latency and findings, trial 2 has none: nothing is lost."""
    suite = make_suite(task("t"), count=2, passScore=0.5)
    log = Log().start()
    log.score("t", 1, costUsd=0.2, latencyMs=7, schemaValid=True, safetyFindingCount=2)
    entry = grade(log.score("t", 1), make_context(suite)).entries["t"]
    assert (0.2, 7, True) == (entry.cost_usd, entry.latency_ms, entry.schema_valid)


def test_g17_any_pass_at_k_and_pass_hat_k_are_three_figures() -> None:
    """T=3, one pass: ``any`` passes, pass@1 = 1/3, pass^3 = 0."""
    suite = make_suite(task("t"), count=3, rule="any", passScore=0.3)
    log = Log().start().score("t", 1)
    log.score("t", 0, passed=False).score("t", 0, passed=False)
    outcome = grade(log, make_context(suite))
    stats = outcome.record.summary.trial_stats
    assert stats
    assert (True, 1 / 3, 0.0, 1.0) == (
        outcome.entries["t"].passed,
        stats.pass_at_k[0],
        stats.pass_hat_k[2],
        stats.pass_at_k[2],
    )


def test_g18_a_score_of_a_misspelt_task_closes_the_gate() -> None:
    """A score of ``refund-polcy``: unknown task, and ``refund-policy`` is missing."""
    suite = make_suite(task("refund-policy"), passScore=0)
    log = Log().start().score("refund-polcy", 1).end()
    outcome = grade(log, make_context(suite))
    assert not outcome.passed
    assert {"unknown-task", "incomplete"} == set(outcome.codes)


def test_g19_the_reason_of_each_trial_is_kept() -> None:
    """T=3, trial 2 off its path: its reason stands in the task record."""
    suite = make_suite(task("t", forbid("wire")), count=3, passScore=0.5)
    log = Log().start().score("t").call("wire").score("t").score("t")
    outcome = grade(log, make_context(suite))
    assert [[], ["forbidden-tool"], []] == [
        outcome.trial_codes("t", trial) for trial in (1, 2, 3)
    ]
    (reason,) = outcome.tasks["t"].reasons
    assert ("trial-failed", (2,)) == (reason.code, reason.trials)


@pytest.mark.parametrize(
    ("case", "scores", "bar", "passed", "gated"),
    [
        ("h1", ["0.7", "0.8", "0.9"], 0.8, True, 0.8),
        ("h1", ["0.9", "0.8", "0.7"], 0.8, True, 0.8),
        ("h2", ["1", "1", "0"], 0.67, False, 2 / 3),
        ("h2", ["1", "1", "0"], 0.66, True, 2 / 3),
        ("h3", ["0.7966"], 0.8, False, 0.7966),
        ("h5", ["0.7"], 0.7, True, 0.7),
        ("h5", ["0.7", "0.7", "0.7"], 0.7, True, 0.7),
        ("h5", ["0.1", "0.2", "0.3"], 0.2, True, 0.2),
    ],
)
def test_h_the_bar_is_exact(
    case: str, scores: list[str], bar: float, *, passed: bool, gated: float
) -> None:
    """At the bar passes, just below fails; no tolerance, no rounding, no order."""
    assert case
    path = {"match": "any-order", "forbidden": ["wire"]}
    suite = make_suite(task("t", path), count=len(scores), rule="mean", passScore=bar)
    log = Log().start()
    for score in scores:
        log.score("t", score)
    outcome = grade(log, make_context(suite))
    entry = outcome.entries["t"]
    assert (passed, passed, gated) == (outcome.passed, entry.passed, entry.gated_score)
    # The figure is printed with every digit that decides.
    assert f'"gatedScore":{gated!r}'.encode() in outcome.raw[0]


def test_i1_a_run_is_graded_at_its_end_not_after_a_delay() -> None:
    """``a`` at 0 s, ``b`` at 300 s, the score at 301 s: one whole trial."""
    steps = {"match": "any-order", "steps": [{"tool": "a"}, {"tool": "b"}]}
    log = Log().start(at="2026-01-01T00:00:00Z").call("a", at="2026-01-01T00:00:00Z")
    log.call("b", at="2026-01-01T00:05:00Z").score("t").end()
    outcome = grade(log, make_context(make_suite(task("t", steps), passScore=1)))
    assert outcome.passed


def test_i2_a_late_call_revises_its_trial() -> None:
    """A forbidden call that comes after the run was published: same trial, a fail."""
    suite = make_suite(task("t", forbid("wire")), passScore=0.5)
    log = Log().start().call("wire").score("t").completed().end()
    late = log.lines.pop(1)
    emitted: list[GradedRun] = []
    with FileGrader(make_context(suite), lambda *_: None, emitted.append) as grader:
        grader.add("log", numbered(log.lines))
        grader.add("log", numbered([late]))
    verdicts = [json.loads(run.record)["summary"]["passed"] for run in emitted]
    assert [True, False] == verdicts
    (trial,) = json.loads(emitted[1].tasks[0])["trials"]
    assert 1 == trial["calls"]


def test_i4_i8_a_score_waits_for_the_calls_before_it() -> None:
    """The score is read before its call: nothing is due until it is sealed."""
    suite = make_suite(task("t", exact("a")), passScore=0.5)
    context = make_context(suite)
    start, call, score = Log().start().call("a").score("t").lines
    state, _ = fold([start, score], context, hold=True)
    assert {2} == state.unsealed
    assert NOTHING_DUE == due(state, suite, closed=False, grace_over=True)
    state, _ = fold([start, score, call], context, hold=True)
    state.seal(2)
    now = due(state, suite, closed=False, grace_over=True)
    assert (("t",), True) == (now.task_ids, now.suite)
    assert grade_run(state, suite, context.policy).suite_record.summary.passed


def test_i5_a_run_without_an_end_is_not_graded_yet() -> None:
    """Started, nothing else: not due; at the end of the input ``abandoned``."""
    suite = make_suite(task("t", exact("a")), passScore=0.5)
    lines = Log().start().lines
    state, _ = fold(lines, make_context(suite), hold=True)
    assert NOTHING_DUE == due(state, suite, closed=False, grace_over=True)
    outcome = grade(lines, make_context(suite))
    assert Ending.ABANDONED is outcome.record.outcome
    assert "abandoned" in outcome.codes


def test_i6_handing_a_run_over_mid_trial_changes_nothing() -> None:
    """Stored after the first call and taken up elsewhere: same bytes."""
    suite = make_suite(task("t", exact("a", "b")), passScore=0.5)
    context = make_context(suite)
    lines = Log().start().calls("a", "b").score("t").completed().lines
    state, _ = fold(lines[:2], context)
    row = encode_row(RunRow(1, RowStatus.OPEN, 0.0, tail=list(state.facts.values())))
    elsewhere = restore_state(RUN, decode_row(row), [], context, hold=False)
    whole, _ = fold(lines, context)
    rest, _ = fold(lines[2:], context)
    elsewhere.restore(rest.facts.values(), context)
    assert (
        grade_run(whole, suite, context.policy).suite_record
        == grade_run(elsewhere, suite, context.policy).suite_record
    )


def test_j1_the_gate_decides_and_the_score_stays() -> None:
    """T=2, S=[1, 1], trial 1 off its path, P=0.8: 1.0, gated 0.5, not passed."""
    suite = make_suite(task("t", forbid("wire")), count=2, rule="mean", passScore=0.8)
    log = Log().start().call("wire").score("t").score("t")
    outcome = grade(log, make_context(suite))
    summary = outcome.record.summary
    assert (1.0, 0.5, False) == (
        summary.aggregate_score,
        summary.gated_aggregate_score,
        summary.passed,
    )
    failed, *_ = outcome.tasks["t"].reasons
    assert (1,) == failed.trials


def test_j2_a_tool_error_excuses_nothing() -> None:
    """In-order [search, answer]; search errs, no answer: fail."""
    steps = {"steps": [{"tool": "search"}, {"tool": "answer"}]}
    log = Log().start().call("search")
    returned = {"agentId": "x", "toolName": "search", "callId": "c", "status": "error"}
    log.add("agent.tool-returned", returned).score("t")
    outcome = grade(log, make_context(make_suite(task("t", steps), passScore=0.5)))
    assert ["missing-step"] == outcome.trial_codes("t")
    assert not outcome.passed


def test_j3_a_high_score_does_not_outvote_the_path() -> None:
    """S=[0.9], off its path, P=0.5: fail."""
    suite = make_suite(task("t", exact("a")), passScore=0.5)
    outcome = grade(Log().start().call("b").score("t", 0.9), make_context(suite))
    assert not outcome.passed
    assert 0.9 == outcome.record.summary.aggregate_score


def test_j4_j7_a_failure_shows_expected_against_observed() -> None:
    """Exact [a, b], observed [a, c]: step 1, expected b, got c; b missing, c extra."""
    suite = make_suite(task("t", exact("a", "b")), passScore=0.5)
    outcome = grade(Log().start().calls("a", "c").score("t"), make_context(suite))
    (trial,) = outcome.tasks["t"].trials
    assert (("a", "b"), ("a", "c")) == (trial.expected, trial.observed)
    missing, unexpected = trial.reasons
    assert ("missing-step", 1, "b", "c") == (
        missing.code,
        missing.step,
        missing.expected,
        missing.observed,
    )
    assert ("unexpected-call", 1, "c") == (
        unexpected.code,
        unexpected.call,
        unexpected.observed,
    )


def test_j5_path_and_score_are_told_apart() -> None:
    """On its path, score below P: trajectory ok, gate closed by the score."""
    suite = make_suite(task("t", exact("a")), passScore=0.5)
    outcome = grade(Log().start().call("a").score("t", 0.4), make_context(suite))
    (trial,) = outcome.tasks["t"].trials
    assert (True, True, ()) == (trial.matched, trial.passed, trial.reasons)
    assert ["below-pass-score"] == outcome.codes


def test_j6_results_are_no_calls() -> None:
    """A result with ``error: false`` changes nothing: only calls are counted."""
    returned = {"agentId": "x", "toolName": "a", "callId": "c", "error": False}
    suite = make_suite(task("t", exact("a")), passScore=0.5)
    log = Log().start().call("a").add("agent.tool-returned", returned).score("t")
    outcome = grade(log, make_context(suite))
    assert outcome.passed
    assert 1 == outcome.record.evidence.calls


def test_j9_the_hosts_verdict_is_kept_beside_ours() -> None:
    """Recorded ``passed`` true, off its path: both stand, with what closed the gate."""
    suite = make_suite(task("t", forbid("wire*")), passScore=0.5)
    runs, _ = replay(
        {"log": Log().start().call("wire-money").score("t").lines}, make_context(suite)
    )
    (trial,) = runs[RUN].tasks["t"].trials
    assert (True, False) == (trial.host_passed, trial.passed)
    assert ["forbidden-tool"] == codes(trial.reasons)
