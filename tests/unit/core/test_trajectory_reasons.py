"""Reasons show expected against observed, and blame each step and call once."""

import json
from typing import Any

import pytest

from streams.core.evidence import Call
from streams.core.explanation import MAX_REASONS
from streams.core.trajectory import Expectation
from tests.unit.core.trajectory_factory import call, expect, judge, reasons, step

A1 = call("a", {"x": 1})
A2 = call("a", {"x": 2})
maybe_a = step("a", optional=True)
a_with_x1 = step("a", args={"x": 1})


def missing(at: int, expected: str, **more: Any) -> dict[str, Any]:
    return {"code": "missing-step", "step": at, "expected": expected, **more}


def unexpected(at: int, observed: str, **more: Any) -> dict[str, Any]:
    return {"code": "unexpected-call", "call": at, "observed": observed, **more}


def about_args(
    code: str, at: tuple[int, int], tool: str, **more: Any
) -> dict[str, Any]:
    step_index, call_index = at
    return {
        "code": code,
        "step": step_index,
        "call": call_index,
        "expected": tool,
        "observed": tool,
        **more,
    }


Case = tuple[Expectation, list[str | Call], list[dict[str, Any]]]

REASONS: dict[str, Case] = {
    "matched": (expect("exact", "a"), ["a"], []),
    # exact: the call in the missing step's place is named, and is unexpected.
    "exact-replaced": (
        expect("exact", "a", "b", "c"),
        ["a", "x", "y"],
        [
            missing(1, "b", call=1, observed="x"),
            missing(2, "c", call=2, observed="y"),
            unexpected(1, "x"),
            unexpected(2, "y"),
        ],
    ),
    # After a, which is call 1, stands c, which has its step: b's place is empty.
    "exact-nothing-in-place": (
        expect("exact", "a", "b", "c"),
        ["x", "a", "c"],
        [missing(1, "b"), unexpected(0, "x")],
    ),
    "exact-alternatives": (
        expect("exact", step(["a", "b"])),
        ["x"],
        [missing(0, "a|b", call=0, observed="x"), unexpected(0, "x")],
    ),
    "exact-extra": (
        expect("exact", "a"),
        ["a", "a", "b"],
        [unexpected(1, "a"), unexpected(2, "b")],
    ),
    # Optional a is only allowed before b.
    "exact-optional-late": (
        expect("exact", maybe_a, "b"),
        ["b", "a"],
        [unexpected(1, "a")],
    ),
    # b has its call, c's call comes before it; x is nobody's.
    "exact-wrong-order-and-extra": (
        expect("exact", "b", "c"),
        ["c", "x", "b"],
        [
            {
                "code": "wrong-order",
                "step": 1,
                "call": 0,
                "expected": "c",
                "observed": "c",
            },
            unexpected(1, "x"),
        ],
    ),
    "in-order-swapped": (
        expect("in-order", "a", "b"),
        ["b", "a"],
        [
            {
                "code": "wrong-order",
                "step": 1,
                "call": 0,
                "expected": "b",
                "observed": "b",
            }
        ],
    ),
    # c is missing whatever the order, so order is not the reason.
    "in-order-missing": (
        expect("in-order", "a", "b", "c"),
        ["b", "a"],
        [missing(2, "c")],
    ),
    # {"x": 1} comes first, so any a before it has no call: order again.
    "in-order-wrong-order-of-args": (
        expect("in-order", "a", a_with_x1),
        [A1, A2],
        [
            {
                "code": "wrong-order",
                "step": 1,
                "call": 0,
                "expected": "a",
                "observed": "a",
            }
        ],
    ),
    # Calls 1 and 2 serve no step; one is allowed.
    "extras": (
        expect("in-order", "a", max_extra_calls=1),
        ["a", "x", "y"],
        [unexpected(1, "x", count=2, limit=1), unexpected(2, "y", count=2, limit=1)],
    ),
    "extras-any-order": (
        expect("any-order", "a", "b", max_extra_calls=0),
        ["x", "a"],
        [missing(1, "b"), unexpected(0, "x", count=1, limit=0)],
    ),
    # The a that serves nothing is explained by its arguments; it is one of the
    # two calls that are too many.
    "extras-blamed": (
        expect("any-order", a_with_x1, max_extra_calls=0),
        [A2, "x"],
        [
            about_args("args-mismatch", (0, 0), "a", key="x"),
            unexpected(1, "x", count=2, limit=0),
        ],
    ),
    "extras-in-order-optional": (
        expect("in-order", maybe_a, "b", max_extra_calls=0),
        ["b", "a"],
        [unexpected(1, "a", count=1, limit=0)],
    ),
    # The only a serves step 0: step 1 has none left, so nothing to compare.
    "args-of-a-served-call": (
        expect("any-order", a_with_x1, step("a", args={"x": 2})),
        [A1],
        [missing(1, "a")],
    ),
    "args-first-free-call": (
        expect("any-order", a_with_x1),
        ["x", A2, A2],
        [about_args("args-mismatch", (0, 1), "a", key="x")],
    ),
    # One call, one blame: the second step has none left.
    "args-one-blame": (
        expect("any-order", a_with_x1, a_with_x1),
        [A2],
        [about_args("args-mismatch", (0, 0), "a", key="x"), missing(1, "a")],
    ),
    # A call without evidence may have been the right one: it is named first.
    "args-unobservable-first": (
        expect("any-order", a_with_x1),
        [A2, "a"],
        [about_args("args-unobservable", (0, 1), "a")],
    ),
    # Only the first 1 + 20 free calls are looked at, so that the work of
    # explaining does not grow with calls times steps.
    "args-unobservable-late": (
        expect("any-order", a_with_x1),
        [*[A2] * 21, "a"],
        [about_args("args-mismatch", (0, 0), "a", key="x")],
    ),
    "args-whole-without-parts": (
        expect("exact", a_with_x1),
        [Call(0, "e", "a", A2.digest, None)],
        [about_args("args-mismatch", (0, 0), "a")],
    ),
    # By key in sorted order: b differs, and c is missing.
    "args-first-key": (
        expect("exact", step("a", args={"c": 1, "b": 1, "a": 1})),
        [call("a", {"a": 1, "b": 2})],
        [about_args("args-mismatch", (0, 0), "a", key="b")],
    ),
    "args-missing-key": (
        expect("exact", step("a", at_least={"x": 1, "y": 1})),
        [call("a", {"x": 1, "z": 1})],
        [about_args("args-mismatch", (0, 0), "a", key="y")],
    ),
    # What the call has too much is content, and is not named.
    "args-one-key-more": (
        expect("exact", a_with_x1),
        [call("a", {"x": 1, "someone@example.org": 1})],
        [about_args("args-mismatch", (0, 0), "a")],
    ),
    "args-no-object": (
        expect("exact", step("a", args=[1])),
        [call("a", {"x": 1})],
        [about_args("args-mismatch", (0, 0), "a")],
    ),
    "args-alias": (
        expect("exact", a_with_x1, aliases={"A": "a"}),
        [call("A", {"x": 2})],
        [
            {
                "code": "args-mismatch",
                "step": 0,
                "call": 0,
                "expected": "a",
                "observed": "A",
                "key": "x",
            }
        ],
    ),
    # unordered and subset: a call without a step, by its arguments or its tool.
    "unordered-args": (
        expect("unordered", a_with_x1, "b"),
        ["b", A2],
        [about_args("args-mismatch", (0, 1), "a", key="x")],
    ),
    "unordered-optional-args": (
        expect("unordered", step("a", args={"x": 1}, optional=True)),
        [A2, A2],
        [about_args("args-mismatch", (0, 0), "a", key="x"), unexpected(1, "a")],
    ),
    "unordered-both": (
        expect("unordered", "a", "b"),
        ["a", "x"],
        [missing(1, "b"), unexpected(1, "x")],
    ),
    "subset-twice": (
        expect("subset", "read"),
        ["read", "read"],
        [unexpected(1, "read")],
    ),
    "subset-args": (
        expect("subset", a_with_x1),
        ["a"],
        [about_args("args-unobservable", (0, 0), "a")],
    ),
    # Limits: the first call too many, 3 > 2; then each tool, by name.
    "limits": (
        expect("in-order", max_calls=2, max_calls_per_tool={"b": 1, "a": 0}),
        ["b", "a", "b"],
        [
            {
                "code": "too-many-calls",
                "call": 2,
                "observed": "b",
                "count": 3,
                "limit": 2,
            },
            {
                "code": "too-many-calls",
                "call": 1,
                "expected": "a",
                "observed": "a",
                "count": 1,
                "limit": 0,
            },
            {
                "code": "too-many-calls",
                "call": 2,
                "expected": "b",
                "observed": "b",
                "count": 2,
                "limit": 1,
            },
        ],
    ),
    "limit-by-alias": (
        expect("in-order", max_calls_per_tool={"a": 1, "b": 1}, aliases={"A": "a"}),
        ["a", "A", "b"],
        [
            {
                "code": "too-many-calls",
                "call": 1,
                "expected": "a",
                "observed": "A",
                "count": 2,
                "limit": 1,
            }
        ],
    ),
    # Forbidden tools first, each once with its count, by first call.
    "forbidden-first": (
        expect("exact", "a", forbidden=("rm", "fs_*"), max_calls=2),
        ["fs_b", "rm", "fs_b"],
        [
            {
                "code": "forbidden-tool",
                "call": 0,
                "expected": "fs_*",
                "observed": "fs_b",
                "count": 2,
            },
            {
                "code": "forbidden-tool",
                "call": 1,
                "expected": "rm",
                "observed": "rm",
                "count": 1,
            },
            {
                "code": "too-many-calls",
                "call": 2,
                "observed": "fs_b",
                "count": 3,
                "limit": 2,
            },
            missing(0, "a", call=0, observed="fs_b"),
            unexpected(0, "fs_b"),
            unexpected(1, "rm"),
            unexpected(2, "fs_b"),
        ],
    ),
}


@pytest.mark.parametrize(
    ("expectation", "calls", "expected"), REASONS.values(), ids=REASONS.keys()
)
def test_reasons(
    expectation: Expectation, calls: list[str | Call], expected: list[dict[str, Any]]
) -> None:
    """The reasons are the derived ones, in order."""
    assert expected == reasons(expectation, *calls)


def test_reasons_are_bounded() -> None:
    """However much is wrong, 20 reasons are given, forbidden tools first."""
    expectation = expect("exact", *("s" * n for n in range(1, 30)), forbidden=("f*",))
    calls = [f"f{n}" for n in range(15)] + ["x"] * 100
    found = judge(expectation, *calls).reasons
    assert MAX_REASONS == len(found) == 20
    assert ["forbidden-tool"] * 15 + ["missing-step"] * 5 == [r.code for r in found]


def test_reasons_hold_no_content() -> None:
    """Of arguments only keys that the suite names are told, and no value."""
    expectation = expect("exact", step("a", at_least={"to": "suite-value"}))
    outcome = judge(expectation, call("a", {"to": "call-value", "call-key": 1}))
    told = json.dumps([str(reason) for reason in outcome.reasons])
    assert "'to'" in told
    for content in ("suite-value", "call-value", "call-key"):
        assert content not in told
