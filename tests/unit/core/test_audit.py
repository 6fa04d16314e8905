"""Where a host's own scorecard disagrees with ours."""

from typing import Any

import msgspec
import pytest

from schemas.records import Disagreement, HostAudit
from schemas.summary import EvalSummary
from streams.core.audit import TOLERANCE, compare_summaries
from streams.core.summarize import grade_run
from tests.factories import Log, fold, make_context, make_suite, task

UNSET = msgspec.UNSET
SUITE = make_suite(
    task("a", {"match": "exact", "steps": [{"tool": "x"}]}), task("b"), passScore=0.6
)


def ours(*, on_path: bool = True) -> EvalSummary:
    log = Log().start().call("x" if on_path else "y").score("a", 0.8).score("b", 0.9)
    state, _ = fold(log.lines, make_context(SUITE))
    return grade_run(state, SUITE, make_context().policy).suite_record.summary


def compare(
    summary: EvalSummary, change: dict[str, Any], *, by_scores: bool = True
) -> list[Disagreement]:
    """Our scorecard against itself with some fields changed."""
    document = msgspec.to_builtins(summary)
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
    return compare_summaries(summary, host, by_scores=by_scores)


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
        # A host may carry it where we do not: RFC 0246 §D leaves that open.
        ({"b.gatedScore": 0.9}, []),
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
    ("by_scores", "kind"),
    [(True, "suite-passed-ungated"), (False, "verdict-differs")],
)
def test_passing_what_only_the_old_rule_passes_is_its_own_kind(
    *, by_scores: bool, kind: str
) -> None:
    """The host has not migrated, where the gating scores changed the verdict."""
    change = {"passed": True}
    (found,) = compare(ours(on_path=False), change, by_scores=by_scores)
    assert kind == found.kind


def test_refusing_what_we_pass_is_no_missing_migration() -> None:
    """Whatever the old rule says."""
    (found,) = compare(ours(), {"passed": False}, by_scores=True)
    assert "verdict-differs" == found.kind


def test_a_difference_as_large_as_the_tolerance_is_none() -> None:
    """Ours are 0, the host's are the tolerance itself; twice that differs."""
    log = Log().start().call("x").score("a", 0).score("b", 0)
    state, _ = fold(log.lines, make_context(SUITE))
    summary = grade_run(state, SUITE, make_context().policy).suite_record.summary
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
    summary = ours()
    right = summary.tasks[0]
    wrong = msgspec.structs.replace(right, score=0.1)
    for twice in ((right, wrong), (wrong, right)):
        host = msgspec.structs.replace(summary, tasks=(*twice, *summary.tasks[1:]))
        found = compare_summaries(summary, host, by_scores=True)
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
