"""A suite made ready for grading."""

from typing import Any

import pytest

from schemas.errors import SuiteError
from schemas.suite import PassRule
from streams.core import compiled
from streams.core.trajectory import ArgsNeed
from tests.factories import SUITE_ID, make_suite, task


def steps(*declared: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"steps": list(declared), **more}


SUBSET = {"tool": "a", "args": {"x": 1}, "argsMatch": "subset"}
WHOLE = {"tool": "a", "args": {"y": 1, "z": 2}}
ANY = {"tool": "a"}


def test_without_a_trials_block_there_is_one_trial() -> None:
    """Count 1, all, and no trial statistics."""
    suite = make_suite(task("t"), task("u"))
    assert (False, 1, PassRule.ALL, 2) == (
        suite.has_trials,
        suite.count,
        suite.pass_rule,
        suite.declared_trials,
    )


def test_a_trials_block_declares_count_and_rule() -> None:
    """Trials declared are tasks times count."""
    suite = make_suite(task("t"), task("u"), count=3, rule="mean")
    assert (True, 3, PassRule.MEAN, 6) == (
        suite.has_trials,
        suite.count,
        suite.pass_rule,
        suite.declared_trials,
    )
    assert f"{SUITE_ID}@1.0.0" == suite.key


def test_tasks_keep_their_place() -> None:
    """Index in the suite, found by id."""
    suite = make_suite(task("t"), task("u", steps(ANY)))
    assert [0, 1] == [one.index for one in suite.tasks]
    assert suite.tasks[1] is suite.by_id["u"]
    assert suite.tasks[0].expectation is None
    assert (suite.tasks[1].expectation,) == suite.expectations


@pytest.mark.parametrize(
    ("trajectories", "need", "keys"),
    [
        ([steps(ANY)], ArgsNeed.NONE, set()),
        ([steps(WHOLE)], ArgsNeed.WHOLE, set()),
        ([steps(SUBSET)], ArgsNeed.PARTS, {"x"}),
        ([steps(ANY), steps(WHOLE)], ArgsNeed.WHOLE, set()),
        # Another task's whole arguments are shown by key too, once keys are kept.
        ([steps(WHOLE), steps(SUBSET)], ArgsNeed.PARTS, {"x", "y", "z"}),
        # Keys of other tools are no business of this one.
        (
            [steps(SUBSET), steps({"tool": "b", "args": {"q": 1}})],
            ArgsNeed.PARTS,
            {"x"},
        ),
        ([], ArgsNeed.NONE, set()),
    ],
)
def test_a_tool_keeps_what_any_task_compares(
    trajectories: list[dict[str, Any]], need: ArgsNeed, keys: set[str]
) -> None:
    """The greatest need of all tasks, and every key their steps name."""
    suite = make_suite(
        task("plain"), *(task(f"t{n}", t) for n, t in enumerate(trajectories))
    )
    kept = suite.args_kept("a")
    assert (need, frozenset(keys)) == (kept.need, kept.keys)
    assert keys == set(kept.named.values())
    assert not keys & set(kept.named)
    assert need is suite.args_need("a")
    assert ArgsNeed.NONE is suite.args_need("nobody")


def test_a_task_may_expect_nothing_at_all() -> None:
    """Without ``expected`` there is no expectation either."""
    suite = make_suite({"taskId": "t"}, task("u"))
    assert () == suite.expectations


def test_what_is_remembered_of_tool_names_is_bounded() -> None:
    """Names come from the wire; beyond the bound the answer is worked out anew."""
    suite = make_suite(task("t", steps(SUBSET)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "_MAX_REMEMBERED_TOOLS", 2)
        for name in ("b", "c", "d", "a"):
            suite.args_need(name)
    assert {"b", "c"} == set(suite._kept)
    assert ArgsNeed.PARTS is suite.args_need("a")
    assert suite.args_kept("b") is suite.args_kept("b")


def test_forbidden_anywhere_is_forbidden() -> None:
    """The entry of the first task that has it; none where none has."""
    suite = make_suite(
        task("t", steps(forbidden=["wire-money"])),
        task("u", steps(forbidden=["wire*", "rm"])),
    )
    assert "wire-money" == suite.is_forbidden("wire-money")
    assert "wire*" == suite.is_forbidden("wire-home")
    assert "rm" == suite.is_forbidden("rm")
    assert suite.is_forbidden("read") is None


def test_an_alias_is_forbidden_with_its_tool() -> None:
    """The observed name is what a call has."""
    suite = make_suite(task("t", steps(forbidden=["rm"])), aliases={"mcp__rm": "rm"})
    assert "rm" == suite.is_forbidden("mcp__rm")


def test_an_expectation_without_meaning_names_its_place() -> None:
    """File, JSON path and what was expected."""
    bad = steps({"tool": "wire-money"}, forbidden=["wire*"])
    with pytest.raises(
        SuiteError, match=r"^suite: \$\.tasks\[1\]\.expected\.trajectory\.steps\[0\]"
    ) as caught:
        make_suite(task("t"), task("u", bad))
    assert "suite" == caught.value.source
    assert caught.value.path.startswith("$.tasks[1].expected.trajectory")
    assert "expected a tool that is not forbidden" == caught.value.expected
