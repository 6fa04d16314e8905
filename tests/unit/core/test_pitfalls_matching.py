"""What went wrong in comparable tools, as cases with the right verdict here.

Each id names a class of fault; the verdict follows from DESIGN.md §3 and is
derived beside it. Faults of reading events (one call as two events, repeated
deliveries, results taken for calls, arrival order, calls of child runs) cannot
reach matching, which sees distinct calls in ``sequence`` order: A4, A6, A7, C5,
C6, F4 and F7 are tested where events are read.
"""

from typing import Any

import msgspec
import pytest

from schemas.suite import MatchMode, Step
from streams.core.evidence import Call
from streams.core.trajectory import Expectation
from tests.unit.core.trajectory_factory import (
    DIGESTER,
    call,
    expect,
    judge,
    reasons,
    step,
)

Case = tuple[Expectation, list[str | Call], bool]

# The right verdict stands last, its derivation above it.
CASES: dict[str, Case] = {
    # Two steps, two calls, each of its own; that they are equal is no matter.
    "A1": (
        expect(
            "unordered", step("search", args={"q": 1}), step("search", args={"q": 1})
        ),
        [call("search", {"q": 1}), call("search", {"q": 1})],
        True,
    ),
    # One step, two calls: any-order allows others, exact is one for one.
    "A2-any-order": (expect("any-order", "a"), ["a", "a"], True),
    "A2-exact": (expect("exact", "a"), ["a", "a"], False),
    # A retry with a new call id is a second call; both ran.
    "A5": (
        expect("exact", step("charge", args={"eur": 5})),
        [call("charge", {"eur": 5}), call("charge", {"eur": 5}, sequence=2)],
        False,
    ),
    # steps: [] is "no call", in the three modes where each call needs a step.
    "B1-exact": (expect("exact"), [], True),
    "B1-unordered": (expect("unordered"), [], True),
    "B1-subset": (expect("subset"), [], True),
    "B1-in-order": (expect("in-order"), [], True),
    "B1-any-order": (expect("any-order"), [], True),
    "B2": (expect("exact"), ["x"], False),
    "B3-unordered": (expect("unordered"), ["x"], False),
    "B3-subset": (expect("subset"), ["x"], False),
    # The empty expectation is judged by the same rules as any other: with
    # nothing to serve, any-order and in-order allow other calls, up to the cap.
    "B4-in-order": (expect("in-order"), ["x"], True),
    "B4-any-order": (expect("any-order"), ["x"], True),
    "B4-capped": (expect("any-order", max_extra_calls=0), ["x"], False),
    # The log's sequence is the order, also of calls made in parallel.
    "C1": (expect("in-order", "a", "b"), ["b", "a"], False),
    "C2": (
        expect(
            "unordered",
            step("w", args={"city": "London"}),
            step("w", args={"city": "Paris"}),
        ),
        [call("w", {"city": "Paris"}), call("w", {"city": "London"})],
        True,
    ),
    # What arrived first does not count: calls come sorted by sequence.
    "C3": (expect("in-order", "a", "b"), ["a", "b"], True),
    # The first call of the name serves no step, the second does.
    "C7": (
        expect("in-order", step("search", args={"q": "b"})),
        [call("search", {"q": "a"}), call("search", {"q": "b"})],
        True,
    ),
    # One for one: the third call has no step.
    "D1": (expect("exact", "search", "analyze"), ["search", "analyze", "extra"], False),
    # A forbidden call fails the trial wherever it stands and whoever made it.
    "D2": (expect("in-order", "agent", forbidden=("rm",)), ["agent", "x", "rm"], False),
    "D3": (
        expect("any-order", "lookup", forbidden=("wire",)),
        ["lookup", "wire"],
        False,
    ),
    "D3-clean": (expect("any-order", "lookup", forbidden=("wire",)), ["lookup"], True),
    # Extra calls are allowed, b is still missing.
    "D5": (expect("any-order", "a", "b"), ["a", "x"], False),
    # Two calls serve no step, one is allowed.
    "D6": (expect("any-order", "a", max_extra_calls=1), ["a", "x", "y"], False),
    "D6-within": (expect("any-order", "a", max_extra_calls=1), ["a", "x"], True),
    # One step of two alternatives, not two steps.
    "D8": (expect("exact", step(["oc_get", "kubectl_get"])), ["kubectl_get"], True),
    "D8-both": (
        expect("exact", step(["oc_get", "kubectl_get"])),
        ["oc_get", "kubectl_get"],
        False,
    ),
    # 3 > 2, whatever else was called.
    "D9": (
        expect("in-order", max_calls_per_tool={"search": 2}),
        ["search", "search", "read", "search"],
        False,
    ),
    "D9-within": (
        expect("in-order", max_calls_per_tool={"search": 2}),
        ["search", "read", "search"],
        True,
    ),
    # DESIGN.md §3: in subset every call has a step of its own, so the second
    # read has none. (The case allows both readings.)
    "D10": (expect("subset", "read"), ["read", "read"], False),
    # Always "observed is a ... of expected".
    "D12-any-order": (expect("any-order", "a"), ["a", "b"], True),
    "D12-subset": (expect("subset", "a"), ["a", "b"], False),
    "D12-subset-fewer": (expect("subset", "a", "b"), ["b"], True),
    # No args in the step, no constraint.
    "E1": (expect("exact", "q"), [call("q", {"text": "anything"})], True),
    # A string is a string, also where it holds JSON.
    "E3": (
        expect("exact", step("call", args={"arguments": '{"a":1,"b":2}'})),
        [call("call", {"arguments": '{ "b": 2, "a": 1 }'})],
        False,
    ),
    # One JSON number in three spellings.
    "E4": (
        expect("exact", step("t", args=b'{"n":1}')),
        [call("t", b'{"n":1.0}')],
        True,
    ),
    "E4-exponent": (
        expect("exact", step("t", at_least=b'{"n":100}')),
        [call("t", b'{"n":1e2}')],
        True,
    ),
    # Nested values: list order counts, key order does not.
    "E6": (
        expect("exact", step("a", args=b'{"ids":[1,2],"o":{"x":1,"y":2}}')),
        [call("a", b'{"o":{"y":2,"x":1},"ids":[1,2]}')],
        True,
    ),
    "E6-list-order": (
        expect("exact", step("a", args={"ids": [1, 2]})),
        [call("a", {"ids": [2, 1]})],
        False,
    ),
    # 8 is a call without an argument that is expected.
    "E8-exact": (
        expect("exact", step("pay", args={"id": 1, "qty": 2})),
        [call("pay", {"id": 1})],
        False,
    ),
    "E8-subset": (
        expect("exact", step("pay", at_least={"id": 1, "qty": 2})),
        [call("pay", {"id": 1})],
        False,
    ),
    # Ids of calls and events are never compared.
    "E10": (
        expect("exact", step("a", args={"x": 1})),
        [call("a", {"x": 1}, sequence=977)],
        True,
    ),
    "E11": (expect("exact", step("t", args={"n": 1})), [call("t", {"n": "1"})], False),
    # A trailing space is a difference.
    "E12": (
        expect("exact", step("say", args={"text": "hi "})),
        [call("say", {"text": "hi"})],
        False,
    ),
    # Names are literal, unless an alias is declared.
    "F1": (expect("exact", "mcp__gh__search"), ["mcp_gh_search"], False),
    "F1-alias": (
        expect(
            "exact", "mcp__gh__search", aliases={"mcp_gh_search": "mcp__gh__search"}
        ),
        ["mcp_gh_search"],
        True,
    ),
    "F1-case": (expect("exact", "search"), ["Search"], False),
    # Whole names, no suffixes.
    "F3-fs": (expect("any-order", "read"), ["fs_read"], False),
    "F3-mail": (expect("any-order", "read"), ["mail_read"], False),
    # No class of call is exempt, whatever its arguments.
    "F5": (
        expect("in-order", forbidden=("shell",)),
        [call("shell", {"cmd": "rm"})],
        False,
    ),
    # Four calls are four calls.
    "F8-exact": (expect("exact", "avg"), ["avg"] * 4, False),
    "F8-any-order": (expect("any-order", "avg"), ["avg"] * 4, True),
    # DESIGN.md has no list of calls to ignore: exact fails on the helper's
    # call; an optional step says that it may be there, in every mode.
    "F9-exact": (expect("exact", "q"), ["load_skill", "q"], False),
    "F9-optional": (
        expect("exact", step("load_skill", optional=True), "q"),
        ["load_skill", "q"],
        True,
    ),
    "F9-optional-absent": (
        expect("exact", step("load_skill", optional=True), "q"),
        ["q"],
        True,
    ),
}


@pytest.mark.parametrize(
    ("expectation", "calls", "matched"), CASES.values(), ids=CASES.keys()
)
def test_pitfall_verdict(
    expectation: Expectation,
    calls: list[str | Call],
    matched: bool,  # noqa: FBT001  # a table's column
) -> None:
    """The verdict is the derived one, and a failure never comes without a reason."""
    outcome = judge(expectation, *calls)
    assert matched is outcome.matched
    assert matched is (outcome.reasons == ())


@pytest.mark.parametrize("mode", MatchMode)
def test_pitfall_e7(mode: MatchMode) -> None:
    """E7: "at least" is observed against expected in every mode, never inverted."""
    expectation = expect(mode, step("a", at_least={"x": 1}))
    assert judge(expectation, call("a", {"x": 1, "y": 2})).matched
    inverted = expect(mode, step("a", at_least={"x": 1, "y": 2}))
    # A call that lacks y serves no step: it is unexpected in subset, and the
    # step is not served in the others.
    assert not judge(inverted, call("a", {"x": 1})).matched


@pytest.mark.parametrize("mode", MatchMode)
def test_pitfall_d3(mode: MatchMode) -> None:
    """D3, D4: a denial wins over any match, in every mode, and is named first."""
    expectation = expect(mode, "lookup", forbidden=("wire",))
    found = reasons(expectation, "lookup", "wire")
    assert {
        "code": "forbidden-tool",
        "call": 1,
        "expected": "wire",
        "observed": "wire",
        "count": 1,
    } == found[0]


def test_pitfall_d8_shape() -> None:
    """D8: a list in the list of alternatives is refused, not read as a sequence."""
    with pytest.raises(msgspec.ValidationError, match=r"\$\.tool\[0\]"):
        msgspec.json.decode(b'{"tool":[["oc_get"],["kubectl_get"]]}', type=Step)


def test_pitfall_d9_reason() -> None:
    """D9: the reason names the tool, and 3 > 2."""
    expectation = expect("in-order", max_calls_per_tool={"search": 2})
    assert [
        {
            "code": "too-many-calls",
            # The third of them, the first that is too many.
            "call": 3,
            "expected": "search",
            "observed": "search",
            "count": 3,
            "limit": 2,
        }
    ] == reasons(expectation, "search", "search", "read", "search")


def test_pitfall_e12_reason() -> None:
    """E12: the reason points at the key that differs, and at no value."""
    expectation = expect("exact", step("say", args={"lang": "en", "text": "hi "}))
    found = reasons(expectation, call("say", {"text": "hi", "lang": "en"}))
    assert [
        {
            "code": "args-mismatch",
            "step": 0,
            "call": 0,
            "expected": "say",
            "observed": "say",
            "key": "text",
        }
    ] == found


@pytest.mark.parametrize(
    "observed",
    [
        Call(0, "e", "a"),
        # A hash of the whole tells nothing of one key.
        Call(0, "e", "a", DIGESTER.whole(b'{"x":1}'), None),
    ],
)
def test_args_unobservable(observed: Call) -> None:
    """A call without evidence of its arguments cannot meet a step that needs it."""
    expectation = expect("in-order", step("a", at_least={"x": 1}))
    expected: list[dict[str, Any]] = [
        {
            "code": "args-unobservable",
            "step": 0,
            "call": 0,
            "expected": "a",
            "observed": "a",
        }
    ]
    assert expected == reasons(expectation, observed)


def test_pitfall_j4() -> None:
    """J4: step 1, expected b, observed c; b is missing and c is unexpected."""
    assert [
        {
            "code": "missing-step",
            "step": 1,
            "call": 1,
            "expected": "b",
            "observed": "c",
        },
        {"code": "unexpected-call", "call": 1, "observed": "c"},
    ] == reasons(expect("exact", "a", "b"), "a", "c")


def test_pitfall_j7() -> None:
    """J7: expected and observed are never swapped."""
    # w is served, q has no step.
    assert [{"code": "unexpected-call", "call": 1, "observed": "q"}] == reasons(
        expect("exact", "w"), "w", "q"
    )
    # The other way round: q is expected, and no call is there.
    assert [{"code": "missing-step", "step": 1, "expected": "q"}] == reasons(
        expect("exact", "w", "q"), "w"
    )
