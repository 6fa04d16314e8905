"""The verdict on a trial, mode by mode, where first fit or counting would be wrong."""

from collections.abc import Sequence

import pytest

from schemas.suite import MatchMode
from streams.core import trajectory
from streams.core.evidence import Call
from streams.core.trajectory import Expectation, match
from tests.unit.core.trajectory_factory import call, expect, judge, observe, step

A1 = call("a", {"x": 1})
A2 = call("a", {"x": 2})
A12 = call("a", {"x": 1, "y": 2})
any_a = step("a")
a_with_x1 = step("a", args={"x": 1})
maybe_a = step("a", optional=True)
maybe_b = step("b", optional=True)

Case = tuple[Expectation, list[str | Call], bool]

VERDICTS: dict[str, Case] = {
    # Calls and steps one for one, in order.
    "exact-same": (expect("exact", "a", "b"), ["a", "b"], True),
    "exact-swapped": (expect("exact", "a", "b"), ["b", "a"], False),
    "exact-short": (expect("exact", "a", "b"), ["a"], False),
    "exact-long": (expect("exact", "a"), ["a", "b"], False),
    # The optional a takes no call, so that the required a gets the only one;
    # with two calls each has its own.
    "exact-optional-left-out": (expect("exact", maybe_a, "a", "b"), ["a", "b"], True),
    "exact-optional-taken": (expect("exact", maybe_a, "a", "b"), ["a", "a", "b"], True),
    "exact-optional-once": (
        expect("exact", maybe_a, "a", "b"),
        ["a", "a", "a", "b"],
        False,
    ),
    "exact-optional-place": (expect("exact", maybe_a, "b"), ["b", "a"], False),
    "exact-optional-run": (
        expect("exact", maybe_a, maybe_b, maybe_a, "c"),
        ["b", "a", "c"],
        True,
    ),
    # First fit gives the only call to the optional step; the required one
    # needs it.
    "exact-optional-args": (
        expect("exact", step("a", args={"x": 1}, optional=True), any_a),
        [A1],
        True,
    ),
    # Two optional steps in a row are both left out.
    "exact-optional-run-left-out": (
        expect("exact", maybe_a, maybe_b, "c"),
        ["c"],
        True,
    ),
    "exact-optional-last": (expect("exact", "a", maybe_b), ["a"], True),
    # A subsequence: other calls may stand between, before and after.
    "in-order-between": (expect("in-order", "a", "b"), ["x", "a", "x", "b", "x"], True),
    "in-order-swapped": (expect("in-order", "a", "b"), ["b", "a"], False),
    # The second b comes after a.
    "in-order-later": (expect("in-order", "a", "b"), ["b", "a", "b"], True),
    "in-order-twice": (expect("in-order", "a", "a"), ["a"], False),
    "in-order-optional-anywhere": (expect("in-order", maybe_b, "a"), ["a", "b"], True),
    # Calls 3, steps served at most 2 of them in order: a?, b leave one extra.
    "in-order-extras-optional": (
        expect("in-order", maybe_a, "b", max_extra_calls=0),
        ["a", "b"],
        True,
    ),
    "in-order-extras-optional-late": (
        expect("in-order", maybe_a, "b", max_extra_calls=0),
        ["b", "a"],
        False,
    ),
    # Serving the required b by the earliest call leaves a? and the second b
    # unserved; by the last call, a? is served and one b is extra.
    "in-order-extras-best": (
        expect("in-order", maybe_a, "b", max_extra_calls=1),
        ["b", "a", "b"],
        True,
    ),
    "in-order-extras-over": (
        expect("in-order", maybe_a, "b", max_extra_calls=1),
        ["b", "a", "b", "x"],
        False,
    ),
    # More calls than steps and extras together: no pairing can be enough.
    "in-order-extras-many": (
        expect("in-order", maybe_a, "b", max_extra_calls=1),
        ["a", "b", "a", "b"],
        False,
    ),
    "in-order-extras-within": (
        expect("in-order", "a", max_extra_calls=1),
        ["a", "x"],
        True,
    ),
    "in-order-extras-none-optional": (
        expect("in-order", "a", "b", max_extra_calls=1),
        ["a", "x", "x", "b"],
        False,
    ),
    # Each step has a call of its own.
    "any-order-swapped": (expect("any-order", "a", "b"), ["b", "a"], True),
    "any-order-own": (expect("any-order", "a", "a"), ["a", "b"], False),
    "any-order-short": (expect("any-order", "a", "b"), ["a"], False),
    # First fit spends A1 on any_a, and {"x": 1} has no call left; the other
    # way round each has one.
    "any-order-first-fit": (expect("any-order", any_a, a_with_x1), [A1, A2], True),
    "any-order-first-fit-reversed": (
        expect("any-order", any_a, a_with_x1),
        [A2, A1],
        True,
    ),
    # A chain: c only by call 0, b|c by call 1, a|b by call 2. First fit gives
    # call 0 to the step b|c.
    "any-order-chain": (
        expect("any-order", step(["a", "b"]), step(["b", "c"]), "c"),
        ["c", "b", "a"],
        True,
    ),
    # Three steps that only two calls can serve.
    "any-order-hall": (
        expect("any-order", step(["a", "b"]), step(["a", "b"]), step(["b", "a"])),
        ["a", "b", "c"],
        False,
    ),
    # The two a calls serve a and a?, c is the one extra.
    "any-order-extras-optional": (
        expect("any-order", "a", maybe_a, max_extra_calls=1),
        ["a", "c", "a"],
        True,
    ),
    "any-order-extras-over": (
        expect("any-order", "a", maybe_a, max_extra_calls=1),
        ["a", "c", "a", "a"],
        False,
    ),
    # The required step keeps its only call, though the optional one fits too.
    "any-order-extras-required-first": (
        expect("any-order", step("a", optional=True), a_with_x1, max_extra_calls=0),
        [A1],
        True,
    ),
    # All calls and all required steps, one for one.
    "unordered-swapped": (expect("unordered", "a", "b"), ["b", "a"], True),
    "unordered-long": (expect("unordered", "a"), ["a", "a"], False),
    "unordered-short": (expect("unordered", "a", "b"), ["a"], False),
    "unordered-other": (expect("unordered", "a", "b"), ["a", "c"], False),
    "unordered-optional-left-out": (expect("unordered", "a", maybe_b), ["a"], True),
    "unordered-optional-once": (
        expect("unordered", "a", maybe_b),
        ["b", "a", "b"],
        False,
    ),
    # As many calls as steps, but the required b is not among them.
    "unordered-required": (expect("unordered", maybe_a, "b"), ["a"], False),
    # First fit spends A12 on {"x": 1} or A1 on any_a; only A12 -> {"y": 2},
    # A1 -> {"x": 1}, A2 -> any fits.
    "unordered-first-fit": (
        expect(
            "unordered",
            any_a,
            step("a", at_least={"x": 1}),
            step("a", at_least={"y": 2}),
        ),
        [A12, A1, A2],
        True,
    ),
    # One pairing serves both calls (any and b?), another both required steps;
    # together only A1 -> {"x": 1}, A2 -> any.
    "unordered-both": (
        expect("unordered", step("a", optional=True), a_with_x1),
        [A2, A1],
        True,
    ),
    # Each call has a step of its own; steps may be left over.
    "subset-none": (expect("subset", "a"), [], True),
    "subset-fewer": (expect("subset", "a", "b", "c"), ["c", "a"], True),
    "subset-other": (expect("subset", "a", "b"), ["c"], False),
    "subset-first-fit": (expect("subset", any_a, a_with_x1), [A1, A2], True),
    # Limits hold beside the match, in any mode.
    "max-calls": (expect("in-order", "a", max_calls=2), ["a", "x"], True),
    "max-calls-over": (expect("in-order", "a", max_calls=2), ["a", "x", "x"], False),
    "max-calls-zero": (expect("any-order", max_calls=0), [], True),
    "max-calls-zero-over": (expect("any-order", max_calls=0), ["a"], False),
    "per-tool": (
        expect("any-order", max_calls_per_tool={"a": 1, "b": 0}),
        ["a", "c"],
        True,
    ),
    "per-tool-zero": (expect("any-order", max_calls_per_tool={"b": 0}), ["b"], False),
    # "a" and its alias are one tool: two calls, one allowed.
    "per-tool-alias": (
        expect("any-order", max_calls_per_tool={"a": 1}, aliases={"A": "a"}),
        ["a", "A"],
        False,
    ),
    "per-tool-prefix": (expect("any-order", max_calls_per_tool={"a": 0}), ["ab"], True),
    # A forbidden prefix matches the name itself and what begins with it.
    "forbidden-prefix": (expect("in-order", forbidden=("fs_*",)), ["fs_read"], False),
    "forbidden-prefix-itself": (expect("in-order", forbidden=("fs*",)), ["fs"], False),
    "forbidden-prefix-inside": (expect("in-order", forbidden=("fs*",)), ["a_fs"], True),
    "forbidden-every-tool": (expect("in-order", forbidden=("*",)), ["a"], False),
    "forbidden-every-tool-none": (expect("in-order", forbidden=("*",)), [], True),
    "forbidden-literal": (expect("in-order", forbidden=("fs",)), ["fs_read"], True),
    "forbidden-case": (expect("in-order", forbidden=("rm",)), ["RM"], True),
    "forbidden-alias": (
        expect("in-order", forbidden=("rm",), aliases={"remove": "rm"}),
        ["remove"],
        False,
    ),
    "forbidden-alias-prefix": (
        expect("in-order", forbidden=("fs_*",), aliases={"remove": "fs_rm"}),
        ["remove"],
        False,
    ),
    # The spelling itself is forbidden, whatever it stands for.
    "forbidden-alias-name": (
        expect("in-order", "read", forbidden=("cat",), aliases={"cat": "read"}),
        ["cat"],
        False,
    ),
    # Arguments.
    "args-other": (expect("exact", a_with_x1), [A2], False),
    "args-more": (expect("exact", a_with_x1), [A12], False),
    "args-at-least": (expect("exact", step("a", at_least={"x": 1})), [A12], True),
    "args-at-least-nested-whole": (
        expect("exact", step("a", at_least={"o": {"k": 1}})),
        [call("a", {"o": {"k": 1, "l": 2}})],
        False,
    ),
    # {} asks for an object, and for nothing in it.
    "args-at-least-empty": (expect("exact", step("a", at_least={})), [A1], True),
    "args-at-least-empty-list": (
        expect("exact", step("a", at_least={})),
        [call("a", [1])],
        False,
    ),
    "args-null": (
        expect("exact", step("a", args=b"null")),
        [call("a", b"null")],
        True,
    ),
    "args-null-is-not-empty": (
        expect("exact", step("a", args=b"null")),
        [call("a", {})],
        False,
    ),
    "args-null-is-not-missing": (
        expect("exact", step("a", at_least=b'{"x":null}')),
        [call("a", {})],
        False,
    ),
    "args-true-is-not-1": (
        expect("exact", a_with_x1),
        [call("a", {"x": True})],
        False,
    ),
    "args-none-observed": (expect("exact", a_with_x1), ["a"], False),
    "args-none-needed": (expect("exact", any_a), ["a"], True),
    # printf '{"x":1}' | sha256sum
    "args-hash": (
        expect(
            "exact",
            step(
                "a",
                args_hash="5041bf1f713df204784353e82f6a4a535931cb64"
                "f1f4b4a5aeaffcb720918b22",
            ),
        ),
        [A1],
        True,
    ),
    "args-alias": (
        expect("exact", a_with_x1, aliases={"A": "a"}),
        [call("A", {"x": 1})],
        True,
    ),
}


@pytest.mark.parametrize(
    ("expectation", "calls", "matched"), VERDICTS.values(), ids=VERDICTS.keys()
)
def test_match_verdict(
    expectation: Expectation,
    calls: Sequence[str | Call],
    matched: bool,  # noqa: FBT001  # a table's column
) -> None:
    """The verdict is the derived one."""
    assert matched is judge(expectation, *calls).matched


@pytest.mark.parametrize("mode", MatchMode)
def test_match_does_not_read_evidence_it_does_not_need(mode: MatchMode) -> None:
    """A step without args takes any call of its tool, with or without evidence."""
    expectation = expect(mode, any_a, any_a)
    assert judge(expectation, "a", A1).matched


def _long_trial(count: int) -> list[Call]:
    """Many calls of eleven tools, some with arguments that a step wants."""
    calls = [call(f"t{i * 3 % 11}", {"i": i % 13}) for i in range(143)]
    return [calls[i % 143] for i in range(count)]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("mode", MatchMode)
def test_match_of_long_trial(mode: MatchMode) -> None:
    """100,000 calls against 50 steps that compete for them are decided at once.

    The work is a fixed amount a call; what grew with calls times steps, or
    tried calls one by one, would take minutes. Seven tools have the steps, a
    third of them wants members, and every fourth may be left out.
    """
    extras = 100_000 if mode.endswith("-order") else None
    expectation = expect(
        mode,
        *(
            step([f"t{i % 7}", "u"], at_least={"i": i % 5}, optional=not i % 4)
            if i % 3 == 0
            else step([f"t{i % 7}", "u"], optional=not i % 4)
            for i in range(50)
        ),
        forbidden=("z*",),
        max_extra_calls=extras,
    )
    outcome = match(expectation, _long_trial(100_000))
    # Every tool comes up about 9,000 times with each argument 700 times, more
    # often than there are steps; one for one modes have 99,950 calls too many.
    assert outcome.matched is bool(extras)
    assert len(outcome.reasons) == (0 if extras else 20)


def test_match_of_many_steps() -> None:
    """A thousand steps of one tool, each with its own arguments, are paired."""
    steps = [step("a", args={"i": i}) for i in range(1000)]
    calls = observe(*(call("a", {"i": 999 - i}) for i in range(1000)))
    assert match(expect("unordered", *steps), calls).matched
    assert not match(expect("exact", *steps), calls).matched


def test_remembered_verdicts_are_of_one_expectation() -> None:
    """The same calls are judged by each expectation of their own, ever again."""
    for _ in range(2):
        assert judge(expect("exact", "a"), "a").matched
        assert not judge(expect("exact", "b"), "a").matched
        assert not judge(expect("any-order", forbidden=("a",)), "a").matched


def test_arguments_are_never_judged_from_memory() -> None:
    """Where a step compares arguments, calls of one tool are told apart."""
    expectation = expect("exact", a_with_x1)
    assert [True, False, True] == [
        judge(expectation, one).matched for one in (A1, A2, A1)
    ]


def test_few_and_short_trials_are_remembered() -> None:
    """What hosts call their tools cannot fill the memory."""
    expectation = expect("exact", "a")
    trajectory._match_tools.cache_clear()
    for number in range(2000):
        assert not judge(expectation, f"tool-{number}").matched
    assert 1024 == trajectory._match_tools.cache_info().currsize
    misses = trajectory._match_tools.cache_info().misses
    assert not judge(expectation, *17 * ["a"]).matched
    assert misses == trajectory._match_tools.cache_info().misses
