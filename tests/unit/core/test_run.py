"""The state of a run: what stands, what is held, and what each event did."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import permutations

import msgspec
import pytest

from streams.core.compiled import CompiledSuite
from streams.core.context import Context
from streams.core.evidence import Call, Ended, Score, Started
from streams.core.policy import Attribution
from streams.core.run import RUN_CALLS_FACTOR, Applied, RunState
from streams.core.summarize import grade_run
from tests.factories import (
    RUN,
    SUITE_ID,
    Log,
    apply,
    codes,
    event,
    fold,
    grade,
    make_context,
    make_suite,
    task,
)

SMALLER, LARGER = "evt-aaaaaaaaaaaaaaaa", "evt-bbbbbbbbbbbbbbbb"
NEW, DUPLICATE = Applied.NEW, Applied.DUPLICATE
CONFLICT, OVERFLOW = Applied.CONFLICT, Applied.OVERFLOW


def call(
    tool: str,
    sequence: int,
    event_id: str,
    inputs: object = None,
    node: str | None = None,
) -> bytes:
    log = Log(first=sequence).call(tool, inputs, event_id=event_id, node=node)
    return log.lines[0]


def score(task_id: str, sequence: int, event_id: str, value: float = 1) -> bytes:
    return Log(first=sequence).score(task_id, value, event_id=event_id).lines[0]


def start(suite_id: str = SUITE_ID, sequence: int = 0, event_id: str = LARGER) -> bytes:
    return Log(first=sequence).start(suite_id, event_id=event_id).lines[0]


def both_orders(
    first: bytes, second: bytes, before: Sequence[bytes] = (), *suites: CompiledSuite
) -> tuple[RunState, RunState, list[list[Applied]]]:
    context = make_context(*suites)
    one, applied_one = fold([*before, first, second], context)
    other, applied_other = fold([*before, second, first], context)
    return one, other, [applied_one[-2:], applied_other[-2:]]


@pytest.mark.parametrize(
    ("stands", "falls"),
    [
        (call("a", 1, SMALLER), call("b", 1, LARGER)),
        (call("b", 1, SMALLER), call("a", 1, LARGER)),
        (call("a", 1, SMALLER), call("a", 1, LARGER)),
        (call("a", 1, SMALLER), call("b", 1, SMALLER)),
        (call("a", 1, SMALLER, node="n1"), call("a", 1, SMALLER, node="n2")),
        (call("a", 1, SMALLER), score("t", 1, LARGER)),
        (score("t", 1, SMALLER), call("a", 1, LARGER)),
        (score("t", 1, SMALLER), score("u", 1, LARGER)),
        # Of what they hold either may be the smaller, but always the same.
        (score("t", 1, SMALLER, 0.5), score("t", 1, SMALLER, 0.25)),
        (score("t", 1, SMALLER), score("u", 1, SMALLER)),
        (call("z", 1, SMALLER), score("a", 1, SMALLER)),
        (score("z", 1, SMALLER), start(sequence=1, event_id=SMALLER)),
    ],
)
def test_of_two_events_with_one_sequence_the_smaller_stands(
    stands: bytes, falls: bytes
) -> None:
    """The smaller event id, else what the events hold; in either order a conflict."""
    before = Log().start().lines
    one, other, applied = both_orders(stands, falls, before)
    assert one.facts == other.facts
    assert [[NEW, CONFLICT], [NEW, CONFLICT]] == applied
    assert one.conflict
    assert other.conflict
    alone, _ = fold([*before, stands], make_context())
    assert alone.facts == one.facts
    assert (alone.order, alone.scores, alone.call_count) == (
        other.order,
        other.scores,
        other.call_count,
    )
    assert alone.scores_of("t") == other.scores_of("t")


def test_one_number_written_in_two_ways_is_one_event() -> None:
    """0.5 and 0.50: a duplicate; whichever came first, another score loses to it."""
    lines = [
        Log(first=1).score("t", n, event_id=SMALLER).lines[0]
        for n in ("0.5", "0.50", "0.25")
    ]
    for first, second, third in permutations(lines):
        state, _ = fold([first, second, third], make_context())
        fact = state.facts[1]
        assert isinstance(fact, Score)
        assert Decimal("0.5") == fact.score
    _, applied = fold(lines[:2], make_context())
    assert [NEW, DUPLICATE] == applied


def passes(
    number: str, *, passed: bool, cost: str | None = None, latency_ms: int = 0
) -> bytes:
    log = Log(first=1).score(
        "t", number, passed=passed, event_id=SMALLER, latencyMs=latency_ms
    )
    line = log.lines[0]
    if cost is not None:
        line = line.replace(b'"passed"', b'"costUsd":' + cost.encode() + b',"passed"')
    return line


@pytest.mark.parametrize(
    "lines",
    [
        [
            passes("0.5", passed=False),
            passes("0.50", passed=False),
            passes("0.5", passed=True),
        ],
        [
            passes("1", passed=False, cost="0.1"),
            passes("1", passed=False, cost="0.10"),
            passes("1", passed=True, cost="0.1"),
        ],
        [
            passes("1", passed=True, cost="0.1", latency_ms=2),
            passes("1", passed=True, cost="0.10", latency_ms=2),
            passes("1", passed=True, cost="0.1", latency_ms=3),
        ],
        [passes("1", passed=True, cost="0.1"), passes("1", passed=True, cost="0.2")],
        [passes("1", passed=True, cost="0.2"), passes("1", passed=True, cost="3")],
    ],
)
def test_the_spelling_of_a_number_never_decides(lines: list[bytes]) -> None:
    """Of events with one id the same stands, in any order of arrival."""
    stands = [fold(order, make_context())[0].facts[1] for order in permutations(lines)]
    assert all(stands[0] == fact for fact in stands)


def test_of_two_verdicts_with_one_id_the_same_stands() -> None:
    """In either order."""
    one, other, _ = both_orders(
        Log(first=1).completed(0.5, event_id=SMALLER).lines[0],
        Log(first=1).completed(0.25, event_id=SMALLER).lines[0],
    )
    assert one.facts == other.facts


def test_a_missing_cost_is_not_a_cost_of_nothing() -> None:
    """Two events that differ in that alone: in either order the same stands."""
    one, other, _ = both_orders(
        Log(first=1).score("t", event_id=SMALLER).lines[0],
        Log(first=1).score("t", event_id=SMALLER, costUsd=0).lines[0],
    )
    assert one.facts == other.facts


def test_a_replaced_fact_asks_for_all_to_be_written_again() -> None:
    """``rewritten`` is set where a stored fact fell, not where the newcomer did."""
    one, other, _ = both_orders(call("a", 1, SMALLER), call("b", 1, LARGER))
    assert (False, True) == (one.rewritten, other.rewritten)


def test_a_replaced_score_waits_to_be_sealed_and_its_tasks_are_looked_at() -> None:
    """The score that stands may have other calls; both tasks changed."""
    context = make_context(make_suite(task("t"), task("u")))
    lines = [*Log().start().lines, score("u", 1, LARGER)]
    state, _ = fold(lines, context, hold=True)
    state.seal(1)
    state.scored.take_dirty()
    assert CONFLICT is apply(state, score("t", 1, SMALLER), context)
    assert ({1}, {"t", "u"}) == (state.unsealed, state.scored.dirty)


def test_a_replaced_score_in_one_log_is_sealed() -> None:
    """Where order is given nothing waits."""
    lines = [score("u", 1, LARGER), score("t", 1, SMALLER)]
    state, _ = fold(lines, make_context())
    assert set() == state.unsealed


def test_a_call_in_a_scores_place_waits_for_nothing() -> None:
    """What was unsealed and fell is not waited for; what else waits still does."""
    context = make_context(make_suite())
    lines = [
        *Log().start().lines,
        score("refund", 1, LARGER),
        score("refund", 2, LARGER),
        call("a", 1, SMALLER),
    ]
    state, _ = fold(lines, context, hold=True)
    assert {2} == state.unsealed
    assert [2] == state.scores


def test_an_event_read_again_changes_nothing() -> None:
    """Redelivery of every kind of event is a duplicate, and no conflict."""
    log = Log().start().call("a", {"x": 1}).score("refund").completed().end()
    state, applied = fold(log.lines + log.lines, make_context(make_suite()))
    assert [NEW] * 5 + [DUPLICATE] * 5 == applied
    assert not state.conflict
    assert 1 == state.call_count


def test_latest_at_is_the_time_of_the_newest_event_in_any_order() -> None:
    """An event that does not stand is counted too, so arrival decides nothing."""
    early = event("run.failed", {}, 1, event_id=SMALLER, at="2026-01-01T00:00:00Z")
    late = event("run.failed", {}, 1, event_id=LARGER, at="2026-01-02T00:00:00Z")
    one, other, _ = both_orders(early, late)
    assert one.latest_at == other.latest_at
    assert one.latest_at is not None
    assert 2 == one.latest_at.day


ARGUED = {"match": "exact", "steps": [{"tool": "a", "args": {"x": 1}}]}
PARTLY = {"steps": [{"tool": "a", "args": {"x": 1}, "argsMatch": "subset"}]}


@pytest.mark.parametrize(
    ("trajectory", "second", "closes"),
    [
        (ARGUED, {"x": 2}, True),
        (PARTLY, {"x": 2}, True),
        ({"steps": [{"tool": "a"}]}, {"x": 2}, False),
        (ARGUED, {"x": 1.0}, False),
    ],
    ids=["whole", "parts", "uncompared", "equal"],
)
@pytest.mark.parametrize("known", ["before", "between", "after"])
def test_one_call_with_two_arguments_is_a_conflict_where_they_are_compared(
    trajectory: object, second: object, known: str, *, closes: bool
) -> None:
    """The same id and tool, other arguments: in any order, the suite known or not."""
    suite = make_suite(task("t", trajectory))
    calls = [call("a", 1, SMALLER, {"x": 1}), call("a", 1, SMALLER, second)]
    begun = Log().start().lines
    scored = Log(first=2).score("t").lines
    records = []
    for one, other in (calls, reversed(calls)):
        lines = {
            "before": [*begun, one, other, *scored],
            "between": [one, *begun, other, *scored],
            "after": [one, other, *scored, *begun],
        }[known]
        state, _ = fold(lines, make_context(suite))
        assert closes is state.is_contradictory
        assert not state.conflict
        records.append(grade_run(state, suite, make_context().policy).suite_record)
    assert records[0] == records[1]
    assert closes is ("sequence-conflict" in codes(records[0].reasons))


def test_a_disputed_argument_is_remembered_with_its_call() -> None:
    """A third delivery that agrees with what stands does not settle the dispute."""
    context = make_context(make_suite(task("t", ARGUED)))
    lines = [
        *Log().start().lines,
        *(call("a", 1, SMALLER, {"x": x}) for x in (1, 2, 1, 2)),
    ]
    state, applied = fold(lines, context)
    assert state.is_contradictory
    assert CONFLICT is applied[2]


def test_every_disputed_argument_is_remembered_until_the_suite_is_known() -> None:
    """Those of ``a``, which a step compares, though those of ``b`` came later."""
    lines = [
        *(call("a", 1, SMALLER, {"x": x}) for x in (1, 2)),
        *(call("b", 2, LARGER, {"x": x}) for x in (1, 2)),
    ]
    for suite, closes in [
        (make_suite(task("t", ARGUED)), True),
        (make_suite(task("t", {"steps": [{"tool": "a"}]})), False),
    ]:
        state, _ = fold(lines, make_context())
        assert not state.is_contradictory
        state.know_suite(suite)
        assert closes is state.is_contradictory


@pytest.mark.parametrize("sequence", [0, 3], ids=["same-place", "later"])
def test_starts_that_name_different_suites_leave_none(sequence: int) -> None:
    """Nobody can say which suite is evaluated: ``unknown-suite``, in any order."""
    suites = make_suite(), make_suite(suite_id="acme.evals.other")
    starts = [
        start("acme.evals.other", 0, SMALLER),
        start(SUITE_ID, sequence, LARGER),
    ]
    scored = score("refund", 2, SMALLER)
    context = make_context(*suites)
    for lines in ([*starts, scored], [scored, *reversed(starts)]):
        state, _ = fold(lines, context)
        assert state.suite is None
        state.know_suite(suites[1])
        assert state.suite is None
        assert state.started is not None
        assert "acme.evals.other" == state.started.suite_id
        outcome = grade(lines, context)
        assert ["unknown-suite"] == outcome.codes


def test_a_start_given_twice_is_one_suite() -> None:
    """Two starts of one suite: the first by sequence stands."""
    suite = make_suite()
    lines = [start(sequence=3), start(sequence=0, event_id=SMALLER)]
    state, _ = fold(lines, make_context(suite))
    assert suite is state.suite
    assert state.started is not None
    assert 0 == state.started.sequence
    state, _ = fold(lines[::-1], make_context(suite))
    assert 0 == (state.started and state.started.sequence)


def test_two_starts_in_one_place_that_name_one_suite_keep_it() -> None:
    """A conflict, but the suite is known."""
    suite = make_suite()
    other = Log().start(count=7, event_id=SMALLER).lines[0]
    for lines in ([start(), other], [other, start()]):
        state, _ = fold(lines, make_context(suite))
        assert suite is state.suite
        assert state.conflict
        assert 7 == (state.started and state.started.task_count)


def test_three_starts_in_one_place_stay_ambiguous() -> None:
    """A dispute about the suite outlives the start that raised it."""
    lines = [
        start(event_id=LARGER),
        start("acme.evals.other", 0, "evt-cccccccccccccccc"),
        start(event_id=SMALLER),
    ]
    state, _ = fold(lines, make_context(make_suite()))
    assert state.suite is None
    assert state.started is not None
    assert (SMALLER, True) == (state.started.event_id, state.started.disputed)


def test_what_is_no_start_hides_no_dispute_between_starts() -> None:
    """A call between two starts by id: which suite is known does not depend on order.

    The smallest stands in every order; that another event was there is enough.
    """
    events = [
        start(event_id=SMALLER),
        call("a", 0, "evt-bbbbbbbbbbbbbbbb"),
        start("acme.evals.other", 0, "evt-cccccccccccccccc"),
    ]
    for lines in permutations(events):
        state, _ = fold(lines, make_context(make_suite()))
        assert state.suite is None
        assert state.started is not None
        assert (SMALLER, True) == (state.started.event_id, state.started.disputed)


def test_a_start_that_falls_takes_its_suite_with_it() -> None:
    """A call stands in its place; what another start names is then undisputed."""
    suites = make_suite(), make_suite(suite_id="acme.evals.other")
    context = make_context(*suites)
    fallen, stands = start(), call("a", 0, SMALLER)
    other = start("acme.evals.other", 3, SMALLER)
    for lines, left in [([fallen], None), ([fallen, other], suites[1])]:
        for order in permutations([*lines, stands]):
            state, _ = fold(order, context)
            assert left is state.suite
            assert (left is None) is (state.started is None)


def test_a_start_in_dispute_is_still_the_same_event() -> None:
    """Read again it is a duplicate, whichever stands."""
    lines = [start(event_id=SMALLER), start("acme.evals.other", 0, LARGER)]
    state, applied = fold([*lines, *lines], make_context())
    assert [NEW, CONFLICT, DUPLICATE, CONFLICT] == applied
    # What falls before a stored start in dispute leaves it as it is stored.
    restored = RunState(RUN)
    restored.restore(state.facts.values(), make_context())
    assert CONFLICT is apply(restored, lines[1], make_context())
    assert not restored.rewritten


def test_the_first_verdict_and_the_first_ending_count() -> None:
    """Of several, by sequence, whatever came first."""
    log = Log().completed(0.5).completed(0.25).end("run.failed").end("run.cancelled")
    for lines in (log.lines, log.lines[::-1]):
        state, _ = fold(lines, make_context())
        assert 0.5 == (state.completed and state.completed.aggregate_score)
        assert "run.failed" == (state.ended and state.ended.ending)


def test_a_verdict_and_an_ending_that_fall_count_no_more() -> None:
    """Calls stand in the places of the first of each; the second, if any, counts."""
    first = [
        Log(first=1).completed(0.5, event_id=LARGER).lines[0],
        Log(first=2).end("run.failed", event_id=LARGER).lines[0],
    ]
    stand = [call("a", 1, SMALLER), call("a", 2, SMALLER)]
    second = Log(first=3).completed(0.25).end("run.cancelled").lines
    for lines in permutations([first, stand]):
        state, _ = fold([line for part in lines for line in part], make_context())
        assert (None, None) == (state.completed, state.ended)
        for line in second:
            apply(state, line, make_context())
        assert 0.25 == (state.completed and state.completed.aggregate_score)
        assert "run.cancelled" == (state.ended and state.ended.ending)


def many_calls(count: int, first: int = 1) -> list[bytes]:
    return Log(first=first).calls(*["a"] * count).lines


@pytest.mark.parametrize("backwards", [False, True])
def test_a_run_holds_ten_times_a_trials_calls(*, backwards: bool) -> None:
    """Beyond that the last calls by sequence are left out, in any order."""
    limit = RUN_CALLS_FACTOR
    lines = many_calls(limit + 3)
    if backwards:
        lines.reverse()
    state, applied = fold(lines, make_context(max_calls_per_trial=1))
    assert list(range(1, limit + 1)) == state.order
    assert (limit, True) == (state.call_count, state.overflow)
    left_out = [NEW if backwards else OVERFLOW] * 3
    assert [NEW] * limit + left_out == applied
    # What was already held and stored fell only where later calls came first.
    assert backwards is state.rewritten


def test_a_run_that_is_full_is_not_overfull() -> None:
    """Exactly as many calls as a run may hold: nothing is left out."""
    state, _ = fold(many_calls(RUN_CALLS_FACTOR), make_context(max_calls_per_trial=1))
    assert not state.overflow


def test_a_full_run_still_tells_duplicates_and_takes_marks() -> None:
    """Calls are limited, not events."""
    lines = many_calls(RUN_CALLS_FACTOR)
    context = make_context(max_calls_per_trial=1)
    state, _ = fold([*lines, lines[0]], context)
    assert DUPLICATE is apply(state, lines[0], context)
    assert NEW is apply(state, score("t", 99, SMALLER), context)
    assert not state.overflow


def test_where_no_call_may_be_held_none_is() -> None:
    """A limit of 0: every call is left out, with or without others behind it."""
    context = make_context(max_calls_per_trial=0)
    lines = [score("t", 5, SMALLER), call("a", 1, SMALLER), call("a", 9, SMALLER)]
    state, applied = fold(lines, context)
    assert [NEW, OVERFLOW, OVERFLOW] == applied
    assert [5] == state.order
    state, applied = fold(lines[1:], context)
    assert ([OVERFLOW, OVERFLOW], []) == (applied, state.order)


def test_leaving_a_call_out_regrades_its_trial() -> None:
    """The trial that loses its last call is looked at again."""
    suite = make_suite(task("t", {"match": "exact", "steps": []}), task("u"))
    context = make_context(suite, max_calls_per_trial=1)
    lines = [
        *Log().start().lines,
        score("u", 1, SMALLER),
        *many_calls(RUN_CALLS_FACTOR, first=2 + RUN_CALLS_FACTOR),
        score("t", 99, SMALLER),
    ]
    state, _ = fold(lines, context)
    grade_run(state, suite, context.policy)
    assert RUN_CALLS_FACTOR == state.scored.results[99].calls
    state.scored.take_dirty()
    apply(state, call("a", 2, SMALLER), context)
    # The call at 2 is of the trial at 99 too: one came, one went.
    assert 99 not in state.scored.results
    assert {"t"} == state.scored.dirty
    assert 2 in state.facts
    assert 1 + 2 * RUN_CALLS_FACTOR not in state.facts


def test_a_trial_over_the_limit_closes_the_gate() -> None:
    """More calls than a trial may have, fewer than a run may hold."""
    suite = make_suite(passScore=0.5)
    log = Log().start().calls("a", "a", "a").score("refund")
    outcome = grade(log, make_context(suite, max_calls_per_trial=2))
    assert [("trajectory-overflow", 2)] == [
        (reason.code, reason.limit) for reason in outcome.record.reasons
    ]
    assert grade(log, make_context(suite, max_calls_per_trial=3)).passed


def test_calls_of_no_trial_do_not_count_against_its_limit() -> None:
    """Three calls of which two are of the trial, limit 2."""
    log = Log().start().calls("a", "a").score("refund").call("a")
    assert grade(
        log, make_context(make_suite(passScore=0.5), max_calls_per_trial=2)
    ).passed


def test_a_left_out_call_closes_the_gate() -> None:
    """Also where no trial is over the limit."""
    suite = make_suite(passScore=0.5)
    log = Log().start().score("refund").calls(*["a"] * 11)
    outcome = grade(log, make_context(suite, max_calls_per_trial=1))
    assert ["trajectory-overflow"] == outcome.codes
    assert 10 == outcome.record.evidence.calls


def tools_of(state: RunState, sequence: int, attribution: Attribution) -> list[str]:
    return [call.tool for call in state.calls_of(sequence, attribution)]


def interleaved() -> RunState:
    log = Log()
    log.call("early", node="n1").start()
    log.call("a", node="n1").call("b", node="n2").call("c")
    log.score("t", node="n1").call("d", node="n1").call("e", node="n2")
    log.score("t", node="n2").call("f", node="n1").score("t", node="n1")
    log.score("t").call("g", node="n1").call("h", node="n9").call("i")
    state, _ = fold(log.lines, make_context())
    return state


def test_a_task_without_scores_has_none() -> None:
    """An empty list, not nothing."""
    assert [] == interleaved().scores_of("nobody")


def test_by_sequence_calls_belong_to_the_next_score() -> None:
    """Whatever their node; those before the start and after the last to none."""
    state = interleaved()
    found = {s: tools_of(state, s, Attribution.SEQUENCE) for s in state.scores}
    assert [["a", "b", "c"], ["d", "e"], ["f"], []] == list(found.values())
    strays = state.unattributed_calls(Attribution.SEQUENCE)
    assert ["early", "g", "h", "i"] == [call.tool for call in strays]


def test_by_node_calls_belong_to_the_next_score_of_their_node() -> None:
    """Calls without a node to the next score without one; none of it: to none."""
    state = interleaved()
    found = {s: tools_of(state, s, Attribution.NODE) for s in state.scores}
    assert [["a"], ["b", "e"], ["d", "f"], ["c"]] == list(found.values())
    strays = state.unattributed_calls(Attribution.NODE)
    assert ["early", "g", "h", "i"] == [call.tool for call in strays]


@pytest.mark.parametrize("attribution", list(Attribution))
def test_without_a_start_calls_before_a_score_are_of_its_trial(
    attribution: Attribution,
) -> None:
    """Only what comes after the last score is nobody's; without scores, all is."""
    log = Log().calls("a", "b").score("t").call("c")
    state, _ = fold(log.lines, make_context())
    assert ["c"] == [call.tool for call in state.unattributed_calls(attribution)]
    state, _ = fold(Log().calls("a", "b", "c").lines, make_context())
    strays = state.unattributed_calls(attribution)
    assert ["a", "b", "c"] == [call.tool for call in strays]


def test_by_node_a_call_after_its_nodes_last_score_is_nobodys() -> None:
    """Though other nodes, and events without one, are scored after it."""
    log = Log().start().call("a", node="n1").score("t", node="n1")
    log.call("z", node="n1").score("t", node="n2").score("t")
    state, _ = fold(log.lines, make_context())
    strays = state.unattributed_calls(Attribution.NODE)
    assert ["z"] == [call.tool for call in strays]
    assert [] == state.unattributed_calls(Attribution.SEQUENCE)


def test_a_late_call_is_seen_by_node() -> None:
    """What was worked out by node is worked out again after a change."""
    state = interleaved()
    score_of_n1 = state.scores[0]
    assert ["a"] == tools_of(state, score_of_n1, Attribution.NODE)
    late = Log(first=100).call("z", node="n8").lines[0]
    context = make_context(attribution="node")
    apply(state, late, context)
    assert "z" in [c.tool for c in state.unattributed_calls(Attribution.NODE)]


@pytest.mark.parametrize("attribution", ["sequence", "node"])
def test_a_late_call_touches_the_one_trial_it_belongs_to(attribution: str) -> None:
    """By sequence the next score, by node the next of its node; others stay."""
    suite = make_suite(task("t"), task("u"), count=2)
    context = make_context(suite, attribution=attribution)
    log = Log().start()
    log.next = 2
    log.score("t", node="n1").score("u", node="n2")
    state, _ = fold(log.lines, context)
    grade_run(state, suite, context.policy)
    state.scored.take_dirty()
    apply(state, Log(first=1).call("a", node="n2").lines[0], context)
    expected = {2} if attribution == "sequence" else {3}
    assert expected == {2, 3} - set(state.scored.results)
    assert ({"t"} if attribution == "sequence" else {"u"}) == state.scored.dirty


def test_by_node_a_late_score_splits_its_nodes_trial() -> None:
    """And no other; its calls and those of the one after it are told apart anew."""
    context = make_context(make_suite(task("t"), count=9), attribution="node")
    log = Log().start()
    log.next = 2
    log.call("a", node="n1").call("b", node="n2")
    log.next = 5
    log.call("c", node="n1").score("t", node="n2").score("t", node="n1")
    state, _ = fold(log.lines, context)
    grade_run(state, state.suite, context.policy)
    assert ["a", "c"] == tools_of(state, 7, Attribution.NODE)
    apply(state, Log(first=4).score("t", node="n1").lines[0], context)
    assert {6} == set(state.scored.results)
    assert ["a"] == tools_of(state, 4, Attribution.NODE)
    assert ["c"] == tools_of(state, 7, Attribution.NODE)
    apply(state, Log(first=1).call("z", node="n1").lines[0], context)
    assert ["z", "a"] == tools_of(state, 4, Attribution.NODE)


def test_a_late_call_of_a_node_without_scores_touches_no_trial() -> None:
    """By node it belongs to none, though scores come after it."""
    context = make_context(make_suite(), attribution="node")
    state, _ = fold(
        [*Log().start().lines, *Log(first=5).score("refund", node="n1").lines], context
    )
    grade_run(state, state.suite, context.policy)
    apply(state, Log(first=3).call("a", node="n8").lines[0], context)
    assert {5} == set(state.scored.results)


def test_a_replaced_call_is_seen_by_node() -> None:
    """What was worked out by node before a conflict is worked out again."""
    context = make_context(make_suite(), attribution="node")
    lines = [*Log().start().lines, call("a", 1, LARGER), score("refund", 2, SMALLER)]
    state, _ = fold(lines, context)
    assert ["a"] == tools_of(state, 2, Attribution.NODE)
    apply(state, call("b", 1, SMALLER), context)
    assert ["b"] == tools_of(state, 2, Attribution.NODE)


def test_a_call_replaced_by_one_of_another_node_leaves_its_trial() -> None:
    """It belongs to no trial: its node has no score."""
    context = make_context(make_suite(), attribution="node")
    lines = [*Log().start().lines, call("a", 1, LARGER), score("refund", 2, SMALLER)]
    state, _ = fold(lines, context)
    assert ["a"] == tools_of(state, 2, Attribution.NODE)
    apply(state, call("a", 1, SMALLER, node="n1"), context)
    assert [] == tools_of(state, 2, Attribution.NODE)
    assert 1 == len(state.unattributed_calls(Attribution.NODE))


def test_leaving_out_a_nodes_call_regrades_the_nodes_trial() -> None:
    """The next score of its node, not of any other."""
    context = make_context(
        make_suite(task("t"), task("u")), attribution="node", max_calls_per_trial=1
    )
    log = Log().start()
    log.next = 2
    log.calls(*["a"] * RUN_CALLS_FACTOR, node="n1").score("u").score("t", node="n1")
    state, _ = fold(log.lines, context)
    grade_run(state, state.suite, context.policy)
    first, second = state.scores
    apply(state, Log(first=1).call("a", node="n7").lines[0], context)
    assert {first} == set(state.scored.results)
    assert RUN_CALLS_FACTOR - 1 == len(tools_of(state, second, Attribution.NODE))


def test_a_dispute_about_a_call_that_is_left_out_is_forgotten() -> None:
    """The run is closed by what is left out; nothing is looked up that is gone."""
    suite = make_suite(task("t", ARGUED))
    context = make_context(suite, max_calls_per_trial=1)
    lines = [
        *Log().start().lines,
        *many_calls(RUN_CALLS_FACTOR - 1, first=2),
        *(call("a", 50, SMALLER, {"x": x}) for x in (1, 2)),
    ]
    state, _ = fold(lines, context)
    assert state.is_contradictory
    apply(state, call("a", 1, SMALLER), context)
    assert 50 not in state.facts
    assert state.is_contradictory is False


def test_a_late_score_splits_the_trial_after_it() -> None:
    """Calls before it are its own; the next score keeps those behind it."""
    suite = make_suite(task("t"), count=2)
    context = make_context(suite)
    log = Log().start().calls("a", "b")
    log.next = 5
    log.call("c").score("t")
    state, _ = fold(log.lines, context)
    grade_run(state, suite, context.policy)
    assert 3 == state.scored.results[6].calls
    apply(state, Log(first=3).score("t").lines[0], context)
    assert ["a", "b"] == tools_of(state, 3, Attribution.SEQUENCE)
    assert ["c"] == tools_of(state, 6, Attribution.SEQUENCE)
    assert 6 not in state.scored.results
    assert [3, 6] == state.scores_of("t")


def test_score_at_is_for_scores() -> None:
    """Another event, or none, is a KeyError."""
    state, _ = fold(Log().start().score("t").lines, make_context())
    assert "t" == state.score_at(1).task_id
    for sequence in (0, 7):
        with pytest.raises(KeyError, match=str(sequence)):
            state.score_at(sequence)


def test_only_evals_publish() -> None:
    """A start or a score makes a run an eval; calls and endings do not."""
    for lines, publishes in [
        (Log().start().lines, True),
        (Log().score("t").lines, True),
        (Log().call("a").completed().end().lines, False),
    ]:
        state, _ = fold(lines, make_context())
        assert publishes is state.publishes


def test_scores_and_endings_wait_and_starts_and_calls_do_not() -> None:
    """With several topics, until sealed; with one log never."""
    lines = Log().start().call("a").score("t").completed().end().lines
    state, _ = fold(lines, make_context(), hold=True)
    assert {2, 3, 4} == state.unsealed
    assert 1 == state.unsealed_trials
    assert (0, {2, 4}) == (state.seal(3), state.unsealed)
    assert (1, {4}) == (state.seal(2), state.unsealed)
    assert (0, 0, 0) == (state.seal(2), state.seal(4), state.unsealed_trials)
    in_one_log = RunState(RUN)
    for line in lines:
        apply(in_one_log, line, make_context())
    assert not in_one_log.unsealed
    assert (0, 0) == (in_one_log.seal(2), in_one_log.seal_gapless(Attribution.SEQUENCE))


@pytest.mark.parametrize("attribution", list(Attribution))
def test_a_log_without_gaps_needs_no_barrier(attribution: Attribution) -> None:
    """Every number up to a score is taken: no call can be missing.

    Two trials are sealed, and the run's ending, which is none.
    """
    log = Log().start().call("a").score("t").call("b").score("t").end()
    state, _ = fold(log.lines, make_context(), hold=True)
    assert 2 == state.seal_gapless(attribution)
    assert set() == state.unsealed


def test_a_gap_is_waited_for_by_those_it_may_concern() -> None:
    """A number missing in the second trial: by node the first trial alone is safe."""
    lines = Log().start().call("a").score("t").calls("b", "c").score("t").end().lines
    del lines[3]
    state, _ = fold(lines, make_context(), hold=True)
    assert 1 == state.seal_gapless(Attribution.SEQUENCE)
    assert {5, 6} == state.unsealed
    lines = Log().start().calls("a", "b").score("t").score("t").end().lines
    del lines[1]
    state, _ = fold(lines, make_context(), hold=True)
    assert 1 == state.seal_gapless(Attribution.SEQUENCE)
    assert {3, 5} == state.unsealed
    state, _ = fold(lines, make_context(), hold=True)
    assert 0 == state.seal_gapless(Attribution.NODE)


@pytest.mark.parametrize("attribution", list(Attribution))
def test_a_score_before_the_start_is_never_safe(attribution: Attribution) -> None:
    """Nothing says where the run's events begin, with a gap behind it or without."""
    for lines in (
        Log().score("t").start().lines,
        Log().score("t").start().call("a", sequence=9).lines,
        Log().score("t").lines,
    ):
        state, _ = fold(lines, make_context(), hold=True)
        assert 0 == state.seal_gapless(attribution)
        assert {0} == state.unsealed


def merged(
    context: Context, held: Sequence[bytes], stored: Sequence[bytes]
) -> RunState:
    state, _ = fold(held, context, hold=True)
    other, _ = fold(stored, context)
    state.merge(other.facts.values(), context)
    return state


def test_restored_facts_are_no_news() -> None:
    """What was sealed stays sealed; what comes after waits."""
    context = make_context(make_suite())
    whole, _ = fold(Log().start().score("refund").end().lines, context)
    state = RunState(RUN, hold=True)
    state.restore(whole.facts.values(), context)
    assert set() == state.unsealed
    apply(state, score("refund", 9, SMALLER), context)
    assert {9} == state.unsealed


def test_restored_calls_hold_what_the_suite_needs() -> None:
    """Stored before the suite was known, restored by a worker that knows it."""
    lines = Log().start().call("a", {"x": 1, "y": 2}).call("b", {"x": 1}).lines
    stored, _ = fold(lines, make_context())
    context = make_context(make_suite(task("t", PARTLY)))
    known, _ = fold(lines, context)
    state = RunState(RUN)
    state.restore(stored.facts.values(), context)
    assert known.facts == state.facts
    assert stored.facts != state.facts
    assert state.rewritten
    # Once written so they are as they should be.
    again = RunState(RUN)
    again.restore(state.facts.values(), context)
    assert (known.facts, False) == (again.facts, again.rewritten)


def test_merging_facts_is_reading_their_events() -> None:
    """New ones are added and wait, known ones change nothing."""
    context = make_context(make_suite(task("t", ARGUED)))
    lines = Log().start().call("a", {"x": 1}).score("t").end().lines
    state = merged(context, lines[:2], lines)
    whole, _ = fold(lines, context)
    assert whole.facts == state.facts
    assert {2, 3} == state.unsealed
    assert not state.is_contradictory


def test_merging_keeps_of_arguments_what_the_suite_needs() -> None:
    """Facts stored before the suite was known are no other events."""
    context = make_context(make_suite(task("t", {"steps": [{"tool": "a"}]})))
    begun = Log().start().lines
    called = Log(first=1).call("a", {"x": 1}).lines
    for held, stored in ([begun + called, called], [called, begun + called]):
        state = merged(context, held, stored)
        assert not state.is_contradictory
        fact = state.facts[1]
        assert isinstance(fact, Call)
        assert (None, None) == (fact.digest, fact.parts)


def test_merging_keys_that_no_step_names_disputes_nothing() -> None:
    """Kept before or after the suite was known: the same call, in either order."""
    context = make_context(make_suite(task("t", PARTLY)))
    begun = Log().start().lines
    called = Log(first=1).call("a", {"x": 1, "y": 2}).lines
    for held, stored in ([begun + called, called], [called, begun + called]):
        state = merged(context, held, stored)
        assert not state.is_contradictory
        fact = state.facts[1]
        assert isinstance(fact, Call)
        assert {"x"} == set(fact.parts or ())


def test_merging_what_stands_replaces_what_falls() -> None:
    """With the suite known, and all derived anew."""
    suite = make_suite()
    context = make_context(suite)
    begun = Log().start().lines
    state = merged(context, [*begun, call("b", 1, LARGER)], [call("a", 1, SMALLER)])
    fact = state.facts[1]
    assert isinstance(fact, Call)
    assert ("a", suite) == (fact.tool, state.suite)


def test_merging_a_contradiction_is_a_conflict() -> None:
    """Another event of a known sequence."""
    context = make_context(make_suite())
    state = merged(context, [call("a", 1, SMALLER)], [call("b", 1, LARGER)])
    assert state.conflict


def test_a_suite_known_late_trims_what_was_kept() -> None:
    """Only digests that a step compares stay, and no key that no step names."""
    steps = [{"tool": "a", "args": {"x": 1}, "argsMatch": "subset"}]
    suite = make_suite(task("t", {"steps": steps}))
    lines = Log().start().call("a", {"x": 1, "secret": 2}).call("b", {"x": 1}).lines
    state, _ = fold(lines, make_context())
    before = state.facts[1]
    assert isinstance(before, Call)
    assert before.parts is not None
    assert 2 == len(before.parts)
    assert not {"x", "secret"} & set(before.parts)
    written_again = [state.rewritten]
    state.know_suite(suite)
    known, _ = fold(lines, make_context(suite))
    assert known.facts == state.facts
    assert [False, True] == [*written_again, state.rewritten]
    after = state.facts[1]
    assert isinstance(after, Call)
    assert {"x"} == set(after.parts or ())
    other = state.facts[2]
    assert isinstance(other, Call)
    assert (None, None) == (other.digest, other.parts)


def test_a_start_after_its_calls_trims_what_was_kept() -> None:
    """At once: nothing has to follow it."""
    context = make_context(make_suite(task("t", PARTLY)))
    lines = Log().start().call("a", {"x": 1, "y": 2}).call("b", {"x": 1}).lines
    first, _ = fold(lines, context)
    last, _ = fold(lines[::-1], context)
    assert first.facts == last.facts
    assert last.rewritten


def test_a_suite_known_late_makes_every_task_due_again() -> None:
    """Results without a suite are forgotten."""
    suite = make_suite(task("t", {"match": "exact", "steps": []}))
    state, _ = fold(Log().start().call("a").score("t").lines, make_context())
    # By a suite without expectations the trial passes, by the run's own it fails.
    grade_run(state, make_suite(task("t")), make_context().policy)
    assert state.scored.results[2].passed
    state.scored.take_dirty()
    state.know_suite(suite)
    assert {"t"} == state.scored.dirty
    grade_run(state, suite, make_context().policy)
    assert not state.scored.results[2].passed


def test_an_earlier_start_gives_a_trial_more_calls() -> None:
    """The call at 1 is before the start at 2, and behind the one at 0."""
    context = make_context(make_suite(task("t")))
    lines = [
        call("a", 1, SMALLER),
        start(sequence=2),
        call("b", 3, SMALLER),
        score("t", 4, SMALLER),
    ]
    state, _ = fold(lines, context)
    grade_run(state, state.suite, context.policy)
    assert 1 == state.scored.results[4].calls
    state.scored.take_dirty()
    apply(state, start(sequence=0, event_id=SMALLER), context)
    assert {"t"} == state.scored.dirty
    grade_run(state, state.suite, context.policy)
    assert 2 == state.scored.results[4].calls


def test_a_replaced_start_keeps_a_suite_known_late() -> None:
    """A conflict elsewhere does not lose a suite that only ``know_suite`` gave."""
    suite = make_suite()
    state, _ = fold([start(), call("a", 1, LARGER)], make_context())
    state.know_suite(suite)
    apply(state, call("b", 1, SMALLER), make_context())
    assert suite is state.suite


def test_facts_are_small_and_hold_what_was_reported() -> None:
    """A score's numbers stay exact; what is not reported is none."""
    lines = Log().score("t", "0.70", costUsd=0.1, latencyMs=3, schemaValid=False).lines
    state, _ = fold(lines, make_context())
    fact = state.facts[0]
    assert isinstance(fact, Score)
    assert ("0.70", "0.1", 3, False) == (
        str(fact.score),
        str(fact.cost_usd),
        fact.latency_ms,
        fact.schema_valid,
    )


def test_other_marks_are_kept_too() -> None:
    """Start with its baseline, ending with its kind."""
    log = Log().start(baseline="acme/run-base").end("run.cancelled")
    state, _ = fold(log.lines, make_context())
    started, ended = state.facts[0], state.facts[1]
    assert isinstance(started, Started)
    assert "acme/run-base" == started.baseline_run_id
    assert isinstance(ended, Ended)
    assert "run.cancelled" == ended.ending
    assert RUN == state.run_id
    assert msgspec.msgpack.encode(ended)


def test_runs_share_nothing_of_their_scores() -> None:
    """What a run has before its first score is one thing for all runs."""
    context = make_context(make_suite(task("t")))
    scored, _ = fold(
        [start(), score("t", 2, LARGER), call("a", 1, LARGER), score("u", 2, SMALLER)],
        context,
        hold=True,
    )
    grade_run(scored, scored.suite, context.policy)
    assert [2] == scored.scores
    assert {2} == scored.scored.results.keys()
    # No score is left of this one, but a task to be looked at again.
    fallen, _ = fold([start(), score("t", 1, LARGER), call("a", 1, SMALLER)], context)
    assert ([], {"t"}) == (fallen.scores, fallen.scored.dirty)
    bare = RunState(RUN, hold=True)
    bare.scored.take_dirty()
    bare.know_suite(make_suite(task("t")))
    for state in (bare, RunState(RUN)):
        assert ([], set(), set()) == (state.scores, state.scored.dirty, state.unsealed)
        assert ({}, {}, {}) == (
            state.scored.results,
            state.scored.by_task,
            state.scored.by_node,
        )
        assert [] == state.scores_of("t")


def test_two_verdicts_of_the_host_that_differ_close_the_run() -> None:
    """A host gives one; without a bar it would be the gate's, so neither is taken.

    protocol.md, section 2: eval.completed once, and a replay re-emits it unchanged.
    """
    context = make_context(make_suite(task("t")))
    good = Log(first=2).completed(1, passed=True).lines[0]
    bad = Log(first=3).completed(1, passed=False).lines[0]
    for verdicts in permutations([good, bad]):
        state, _ = fold([start(), score("t", 1, LARGER), verdicts[0]], context)
        state.scored.take_dirty()
        apply(state, verdicts[1], context)
        assert state.is_contradictory
        assert state.scored.dirty == {"t"}
        graded = grade_run(state, state.suite, context.policy).suite_record
        assert not graded.summary.passed
        assert "sequence-conflict" in codes(graded.reasons)
    again = Log(first=3).completed(1, passed=True).lines[0]
    state, _ = fold([start(), score("t", 1, LARGER), good, again], context)
    assert not state.is_contradictory
    assert grade_run(state, state.suite, context.policy).suite_record.summary.passed
