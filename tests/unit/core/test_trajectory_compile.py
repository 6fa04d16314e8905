"""An expectation says what it means, or is refused with the place of the fault."""

from typing import Any

import msgspec
import pytest

from schemas.errors import DecodeError
from schemas.suite import ArgsMatch, MatchMode, Step, Trajectory
from streams.core.declaration import find_faults
from streams.core.trajectory import ArgsNeed, compile_expectation
from tests.unit.core.trajectory_factory import DIGESTER, declare, expect, raw, step

ALIASES = {"A": "a", "self": "self"}

REFUSED: dict[str, tuple[Trajectory, str, str]] = {
    "args-and-hash": (
        declare("exact", "b", step("a", args={}, args_hash="ab" * 32)),
        "$.t.steps[1].argsHash",
        "expected args or argsHash, not both",
    ),
    "subset-without-args": (
        declare("exact", step("a", args_match=ArgsMatch.SUBSET)),
        "$.t.steps[0].argsMatch",
        "expected args to hold calls against",
    ),
    "subset-of-hash": (
        declare("exact", step("a", args_match=ArgsMatch.SUBSET, args_hash="ab" * 32)),
        "$.t.steps[0].argsMatch",
        "expected args to hold calls against",
    ),
    "subset-of-list": (
        declare("exact", step("a", at_least=[1])),
        "$.t.steps[0].args",
        "expected an object, as argsMatch is subset",
    ),
    "subset-of-null": (
        declare("exact", step("a", at_least=b"null")),
        "$.t.steps[0].args",
        "expected an object, as argsMatch is subset",
    ),
    "args-key-twice": (
        declare("exact", step("a", args=b'{"k":1,"k":1}')),
        "$.t.steps[0].args",
        "expected each key once in an object",
    ),
    "args-too-deep": (
        declare("exact", step("a", args=b"[" * 65 + b"]" * 65)),
        "$.t.steps[0].args",
        "expected at most 64 levels",
    ),
    "no-tool": (
        declare("exact", step(())),
        "$.t.steps[0].tool",
        "expected at least one tool",
    ),
    "empty-tool": (
        declare("exact", ""),
        "$.t.steps[0].tool",
        "expected a literal tool name, without *",
    ),
    "empty-alternative": (
        declare("exact", step(["a", ""])),
        "$.t.steps[0].tool[1]",
        "expected a literal tool name, without *",
    ),
    "wildcard-tool": (
        declare("subset", "fs_*"),
        "$.t.steps[0].tool",
        "expected a literal tool name, without *",
    ),
    "alternative-twice": (
        declare("exact", "x", step(["a", "b", "a"])),
        "$.t.steps[1].tool[2]",
        "expected alternatives that differ",
    ),
    "alias-as-tool": (
        declare("exact", step(["b", "A"])),
        "$.t.steps[0].tool[1]",
        "expected a name that the aliases do not rename",
    ),
    "forbidden-step": (
        declare("exact", "b", "a", forbidden=("a",)),
        "$.t.steps[1].tool",
        "expected a tool that is not forbidden",
    ),
    "forbidden-optional-alternative": (
        declare("exact", step(["b", "fs_rm"], optional=True), forbidden=("fs_*",)),
        "$.t.steps[0].tool[1]",
        "expected a tool that is not forbidden",
    ),
    "forbidden-all": (
        declare("exact", "a", forbidden=("*",)),
        "$.t.steps[0].tool",
        "expected a tool that is not forbidden",
    ),
    "forbidden-empty": (
        declare("exact", forbidden=("a", "")),
        "$.t.forbidden[1]",
        "expected a tool name, with * only at its end",
    ),
    "forbidden-leading-wildcard": (
        declare("exact", forbidden=("*_rm",)),
        "$.t.forbidden[0]",
        "expected a tool name, with * only at its end",
    ),
    "forbidden-inner-wildcard": (
        declare("exact", forbidden=("fs_*_rm",)),
        "$.t.forbidden[0]",
        "expected a tool name, with * only at its end",
    ),
    "forbidden-two-wildcards": (
        declare("exact", forbidden=("fs_**",)),
        "$.t.forbidden[0]",
        "expected a tool name, with * only at its end",
    ),
    # Two required steps, one optional.
    "max-calls-below-steps": (
        declare("in-order", "a", "b", step("c", optional=True), max_calls=1),
        "$.t.maxCalls",
        "expected at least one call for each required step",
    ),
    "per-tool-wildcard": (
        declare("in-order", max_calls_per_tool={"fs_*": 1}),
        '$.t.maxCallsPerTool["fs_*"]',
        "expected a literal tool name, without *",
    ),
    "per-tool-alias": (
        declare("in-order", max_calls_per_tool={"A": 1}),
        "$.t.maxCallsPerTool.A",
        "expected a name that the aliases do not rename",
    ),
    "per-tool-below-steps": (
        declare("in-order", "a", "a", max_calls_per_tool={"a": 1}),
        "$.t.maxCallsPerTool",
        "expected a call for each required step",
    ),
    # Three calls for a or b, one a and one b allowed.
    "per-tool-below-alternatives": (
        declare(
            "unordered",
            *[step(["a", "b"])] * 3,
            max_calls_per_tool={"a": 1, "b": 1},
        ),
        "$.t.maxCallsPerTool",
        "expected a call for each required step",
    ),
    "extras-exact": (
        declare("exact", max_extra_calls=0),
        "$.t.maxExtraCalls",
        "expected it with in-order or any-order alone",
    ),
    "extras-unordered": (
        declare("unordered", max_extra_calls=1),
        "$.t.maxExtraCalls",
        "expected it with in-order or any-order alone",
    ),
    "extras-subset": (
        declare("subset", max_extra_calls=1),
        "$.t.maxExtraCalls",
        "expected it with in-order or any-order alone",
    ),
}


@pytest.mark.parametrize(
    ("trajectory", "path", "expected"), REFUSED.values(), ids=REFUSED.keys()
)
def test_compile_refuses(trajectory: Trajectory, path: str, expected: str) -> None:
    """What has no meaning or can never be met is refused, with its JSON path."""
    (fault,) = find_faults(trajectory, DIGESTER, ALIASES, "$.t")
    assert (path, expected) == (fault.path, fault.expected)
    with pytest.raises(DecodeError) as caught:
        compile_expectation(trajectory, DIGESTER, ALIASES, "$.t")
    assert (path, expected) == (caught.value.path, caught.value.expected)


@pytest.mark.parametrize(
    "trajectory",
    [
        declare("in-order", forbidden=("a", "a", "a*", "*")),
        declare("in-order", max_calls_per_tool={"z": 0}, forbidden=("z",)),
        declare("in-order", "a", "b", max_calls=2, max_calls_per_tool={"a": 1}),
        declare("in-order", step(["a", "b"]), max_calls_per_tool={"a": 0}),
        declare("in-order", step("a", optional=True), max_calls_per_tool={"a": 0}),
        # In subset every step may be left over, so no limit is too low.
        declare("subset", "a", step("a", optional=True), max_calls=0),
        declare("subset", "a", max_calls_per_tool={"a": 0}),
        declare("any-order", max_extra_calls=0),
        # An alias of itself renames nothing.
        declare("exact", "self", max_calls_per_tool={"self": 1}),
        declare("exact", "a"),
    ],
)
def test_compile_accepts(trajectory: Trajectory) -> None:
    """What is only redundant, or just possible to meet, is no error."""
    compiled = compile_expectation(trajectory, DIGESTER, ALIASES)
    assert trajectory.match is compiled.mode


def test_every_fault_is_found() -> None:
    """All that ``compile`` refuses, once each, and not what follows from another.

    Two required steps: ``maxCalls`` 1 is too few. That ``*`` is no tool is told
    once, and neither held against the forbidden names nor against the limits.
    """
    faulty = declare(
        "exact",
        step(["a*", "b"], args=b"[1]", args_hash="ab" * 32),
        step(["b", "c", "b"], args_match=ArgsMatch.SUBSET),
        step(["A", "d", "e"], at_least=b"[1]", optional=True),
        forbidden=("x*y", "a*", "", "d", "e"),
        max_calls=1,
        max_extra_calls=0,
        max_calls_per_tool={"A": 1, "long name*": 1, "b": 0},
    )
    found = find_faults(faulty, DIGESTER, ALIASES, "$.t")
    assert {fault.path for fault in found} == {
        "$.t.forbidden[0]",
        "$.t.forbidden[2]",
        "$.t.steps[0].tool[0]",
        "$.t.steps[0].argsHash",
        "$.t.steps[1].tool[2]",
        "$.t.steps[1].argsMatch",
        "$.t.steps[2].tool[0]",
        "$.t.steps[2].tool[1]",
        "$.t.steps[2].tool[2]",
        "$.t.steps[2].args",
        "$.t.maxCalls",
        "$.t.maxExtraCalls",
        "$.t.maxCallsPerTool.A",
        '$.t.maxCallsPerTool["long name*"]',
    }
    assert len(found) == 14
    assert find_faults(declare("exact", "a"), DIGESTER, ALIASES) == []


def test_compile_keeps_content_out_of_errors() -> None:
    """An error about arguments names the step, and nothing of the arguments."""
    with pytest.raises(DecodeError) as caught:
        expect("exact", step("a", args=b'{"secret":"s3cr3t","secret":1}'))
    assert "$.steps[0].args: expected each key once in an object" == str(caught.value)


def test_labels() -> None:
    """A label has the alternatives, and a mark where the step may be left out."""
    compiled = expect(
        "in-order",
        "a",
        step(["a", "b"]),
        step("a", optional=True),
        step(["b", "a"], optional=True),
    )
    assert ("a", "a|b", "a?", "b|a?") == compiled.labels
    assert () == expect("exact").labels
    # That subset asks for no step in particular does not change what they are.
    assert ("a",) == expect("subset", "a").labels


@pytest.mark.parametrize(
    ("steps", "need"),
    [
        ([], ArgsNeed.NONE),
        ([step("a")], ArgsNeed.NONE),
        ([step("b", args={"x": 1})], ArgsNeed.NONE),
        ([step("a", args={"x": 1})], ArgsNeed.WHOLE),
        ([step("a", args_hash="ab" * 32)], ArgsNeed.WHOLE),
        ([step("a"), step(["b", "a"], args=b"null")], ArgsNeed.WHOLE),
        ([step("a", at_least={"x": 1})], ArgsNeed.PARTS),
        ([step("a", at_least={})], ArgsNeed.PARTS),
        ([step("a", args={"x": 1}), step("a", at_least={"x": 1})], ArgsNeed.PARTS),
    ],
)
def test_args_need(steps: list[Step], need: ArgsNeed) -> None:
    """A tool's calls keep what its most demanding step compares, alias or not."""
    compiled = expect("in-order", *steps, aliases={"A": "a", "AA": "a", "B": "b"})
    assert need is compiled.args_need("a")
    assert need is compiled.args_need("A")
    assert need is compiled.args_need("AA")
    assert ArgsNeed.NONE is compiled.args_need("x")


def test_part_keys() -> None:
    """Members are kept where some step compares them; then also for naming them."""
    compiled = expect(
        "in-order",
        step("a", at_least={"x": 1}),
        step(["a", "b"], args={"y": 1, "z": 2}),
        aliases={"A": "a"},
    )
    assert frozenset("xyz") == compiled.part_keys("a")
    assert frozenset("xyz") == compiled.part_keys("A")
    # b is compared as a whole alone.
    assert frozenset() == compiled.part_keys("b")
    assert frozenset() == compiled.part_keys("c")


@pytest.mark.parametrize(
    ("forbidden", "tool", "entry"),
    [
        (("rm",), "rm", "rm"),
        (("rm",), "rmdir", None),
        (("rm*",), "rmdir", "rm*"),
        (("rm*",), "rm", "rm*"),
        (("rm*",), "r", None),
        (("*",), "anything", "*"),
        ((), "rm", None),
        # A literal goes before a prefix, prefixes in declared order.
        (("rm*", "rmdir"), "rmdir", "rmdir"),
        (("r*", "rm*"), "rmdir", "r*"),
        # remove -> rm and erase -> fs_rm are aliases.
        (("rm",), "remove", "rm"),
        (("remove",), "remove", "remove"),
        (("rm", "remove"), "remove", "remove"),
        (("remove",), "rm", None),
        (("rem*",), "remove", "rem*"),
        (("rm*", "rem*"), "remove", "rm*"),
        (("rem*", "rm*"), "remove", "rem*"),
        (("fs_*",), "erase", "fs_*"),
        (("rm",), "erase", None),
    ],
)
def test_is_forbidden(forbidden: tuple[str, ...], tool: str, entry: str | None) -> None:
    """The entry is the one that the observed name or its alias target hits."""
    compiled = expect(
        "in-order", forbidden=forbidden, aliases={"remove": "rm", "erase": "fs_rm"}
    )
    assert entry == compiled.is_forbidden(tool)


@pytest.mark.parametrize("absent", [{}, {"args": raw(b"")}])
def test_step_without_args_has_no_constraint(absent: dict[str, Any]) -> None:
    """Absent arguments are no arguments to compare, however they are decoded."""
    trajectory = Trajectory(match=MatchMode.EXACT, steps=(Step(tool="a", **absent),))
    compiled = compile_expectation(trajectory, DIGESTER, {})
    assert ArgsNeed.NONE is compiled.args_need("a")


@pytest.mark.parametrize(
    ("document", "need"),
    [
        (b'{"tool":"a"}', ArgsNeed.NONE),
        # null is a value to compare, not the absence of one.
        (b'{"tool":"a","args":null}', ArgsNeed.WHOLE),
        (b'{"tool":"a","args":{"x":[1]}}', ArgsNeed.WHOLE),
        (b'{"tool":"a","args":{},"argsMatch":"subset"}', ArgsNeed.PARTS),
    ],
)
def test_decoded_step_compares_its_args(document: bytes, need: ArgsNeed) -> None:
    """A step as suites spell it keeps its constraint."""
    decoded = msgspec.json.decode(document, type=Step)
    trajectory = Trajectory(match=MatchMode.EXACT, steps=(decoded,))
    assert need is compile_expectation(trajectory, DIGESTER, {}).args_need("a")
