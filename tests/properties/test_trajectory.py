"""Matching holds against a brute-force matcher, and keeps its promises."""

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import product
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from schemas.errors import DecodeError
from schemas.suite import ArgsMatch, MatchMode, Step, Trajectory
from streams.core.arguments import ArgsDigester, canonical
from streams.core.evidence import Call
from streams.core.pairing import align, cover, pair
from streams.core.trajectory import Expectation, Match, compile_expectation, match
from tests.properties.brute_force import ANY, Asked, Seen, Wanted, is_match

DIGESTERS = {"plain": ArgsDigester(), "keyed": ArgsDigester(b"a secret key")}
ALIASES = {"A": "a", "AA": "a", "B": "b", "rm_all": "c"}
MODES = [mode.value for mode in MatchMode]
UNORDERED = ["any-order", "unordered", "subset"]

# A small alphabet, so that calls and steps meet often. Arguments differ in
# type, in spelling (1 and 1.0), in one key, and in having keys at all.
tools = st.sampled_from(["a", "b", "c"])
observed_tools = st.sampled_from(
    ["a", "a", "b", "c", "A", "AA", "B", "rm_all", "rm", "x"]
)
members = st.sampled_from([1, 1.0, 2, "1", True, None, [1, 2], {"k": 1}])
objects = st.dictionaries(st.sampled_from(["x", "y"]), members, max_size=2)
arguments: st.SearchStrategy[Any] = st.one_of(
    objects, objects, st.sampled_from([None, [], "x", 1])
)


@st.composite
def wanted_steps(draw: st.DrawFn) -> Wanted:
    """One step of any kind."""
    how = draw(st.sampled_from(["any", "any", "whole", "members"]))
    args: Any = ANY
    if how == "members":
        args = draw(objects)
    elif how == "whole":
        args = draw(arguments)
    return Wanted(
        tools=tuple(draw(st.lists(tools, min_size=1, max_size=2, unique=True))),
        args=args,
        how="members" if how == "members" else "whole",
        optional=draw(st.booleans()),
    )


@st.composite
def expectations(draw: st.DrawFn, modes: Sequence[str] = MODES) -> Asked:
    """An expectation; it may be one that is refused as impossible to meet."""
    mode = draw(st.sampled_from(modes))
    steps = tuple(draw(st.lists(wanted_steps(), max_size=4)))
    few = st.none() | st.integers(0, 3)
    with_extras = mode in {"in-order", "any-order"}
    return Asked(
        mode=mode,
        steps=steps,
        forbidden=tuple(
            draw(st.lists(st.sampled_from(["rm", "rm*", "r*", "x", "AA"]), max_size=1))
        ),
        max_calls=draw(st.none() | st.none() | st.integers(len(steps), 5)),
        max_extra_calls=draw(few) if with_extras else None,
        max_calls_per_tool=draw(
            st.one_of(
                st.just({}),
                st.dictionaries(tools | st.just("x"), st.integers(0, 4), max_size=2),
            )
        ),
        aliases=ALIASES,
    )


@st.composite
def serving_calls(draw: st.DrawFn, wanted: Wanted) -> Seen:
    """A call made to serve a step."""
    args: Any = draw(arguments) if wanted.args is ANY else wanted.args
    if wanted.how == "members" and draw(st.booleans()):
        args = {**args, "z": draw(members)}
    tool = draw(st.sampled_from(wanted.tools))
    spelt = [tool, *(name for name, means in ALIASES.items() if means == tool)]
    return Seen(draw(st.sampled_from(spelt)), args)


random_calls = st.builds(
    Seen,
    tool=observed_tools,
    args=arguments,
    evidence=st.sampled_from(["inputs", "inputs", "hash", "none"]),
)


@st.composite
def trials(draw: st.DrawFn, modes: Sequence[str] = MODES) -> tuple[Asked, list[Seen]]:
    """An expectation, and at most 5 calls: random ones, or near what is expected."""
    asked = draw(expectations(modes))
    if draw(st.integers(0, 3)) == 0:
        return asked, draw(st.lists(random_calls, max_size=5))
    calls = [
        draw(serving_calls(step))
        for step in asked.steps
        if not step.optional or draw(st.booleans())
    ]
    if draw(st.booleans()):
        calls = draw(st.permutations(calls))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(calls)))
        if draw(st.booleans()):
            calls = [*calls[:at], draw(random_calls), *calls[at:]]
        else:
            calls = [*calls[:at], *calls[at + 1 :]]
    return asked, calls[:5]


def spell_step(wanted: Wanted) -> Step:
    """The step as a suite declares it."""
    fields: dict[str, Any] = {"tool": wanted.tools, "optional": wanted.optional}
    if len(wanted.tools) == 1:
        fields["tool"] = wanted.tools[0]
    if wanted.args is not ANY:
        fields["args"] = msgspec.Raw(json.dumps(wanted.args).encode())
        fields["args_match"] = ArgsMatch(
            "subset" if wanted.how == "members" else "exact"
        )
    return Step(**fields)


def spell(asked: Asked, digester: ArgsDigester) -> Expectation:
    """The compiled expectation; what is refused is no example."""
    trajectory = Trajectory(
        match=MatchMode(asked.mode),
        steps=tuple(map(spell_step, asked.steps)),
        forbidden=asked.forbidden,
        max_calls=asked.max_calls,
        max_extra_calls=asked.max_extra_calls,
        max_calls_per_tool=dict(asked.max_calls_per_tool),
    )
    try:
        return compile_expectation(trajectory, digester, asked.aliases)
    except DecodeError:
        assume(condition=False)
        raise


def spell_call(seen: Seen, sequence: int, digester: ArgsDigester) -> Call:
    """The call as an event's reader keeps it."""
    name = f"event-{sequence}"
    inputs = json.dumps(seen.args).encode()
    if seen.evidence == "none":
        return Call(sequence, name, seen.tool)
    if seen.evidence == "hash":
        sha256 = hashlib.sha256(rfc8785.dumps(seen.args)).hexdigest()
        return Call(sequence, name, seen.tool, digester.whole_from_hash(sha256), None)
    return Call(sequence, name, seen.tool, *digester.both(inputs))


def judge(asked: Asked, calls: Sequence[Seen], key: str = "plain") -> Match:
    """The verdict of the real matcher."""
    digester = DIGESTERS[key]
    expectation = spell(asked, digester)
    return match(expectation, [spell_call(c, i, digester) for i, c in enumerate(calls)])


def check(trial: tuple[Asked, list[Seen]], key: str) -> None:
    asked, calls = trial
    matched = is_match(asked, calls)
    event(f"matched: {matched}")
    assert matched is judge(asked, calls, key).matched


MANY = settings(
    max_examples=600,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
SOME = settings(MANY, max_examples=200)


@pytest.mark.parametrize("mode", MODES)
def test_match_agrees_with_brute_force(mode: str) -> None:
    """The verdict is the one that trying every pairing gives."""

    @MANY
    @given(trials([mode]), st.sampled_from(sorted(DIGESTERS)))
    def agree(trial: tuple[Asked, list[Seen]], key: str) -> None:
        check(trial, key)

    agree()


@MANY
@given(trials())
def test_failure_has_reasons(trial: tuple[Asked, list[Seen]]) -> None:
    """No failure without a reason, no reason without a failure; each fits the trial."""
    asked, calls = trial
    outcome = judge(asked, calls)
    assert outcome.matched is (not outcome.reasons)
    assert len(outcome.reasons) <= 20
    assert outcome == judge(asked, calls)
    for reason in outcome.reasons:
        if reason.call is not None:
            assert calls[reason.call].tool == reason.observed
        else:
            assert reason.observed is None
        if reason.step is not None:
            assert "|".join(asked.steps[reason.step].tools) == reason.expected
        if reason.limit is not None and reason.count is not None:
            assert reason.count > reason.limit
    blamed = [reason.step for reason in outcome.reasons if reason.step is not None]
    assert len(set(blamed)) == len(blamed)


@MANY
@given(trials())
def test_forbidden_calls_come_first(trial: tuple[Asked, list[Seen]]) -> None:
    """One reason a forbidden tool that was called, before all others."""
    asked, calls = trial
    reasons = judge(asked, calls).reasons
    plain = replace(asked, mode="in-order", steps=(), max_calls=None)
    plain = replace(plain, max_calls_per_tool={}, max_extra_calls=None)
    denied = dict.fromkeys(c.tool for c in calls if not is_match(plain, [c]))
    head = reasons[: len(denied)]
    assert list(denied) == [r.observed for r in head]
    assert all(r.code == "forbidden-tool" for r in head)
    assert all(r.code != "forbidden-tool" for r in reasons[len(denied) :])


@MANY
@given(trials(["in-order", "exact"]))
def test_wrong_order_means_order(trial: tuple[Asked, list[Seen]]) -> None:
    """The reason is given exactly where the required steps lack nothing but order."""
    asked, calls = trial
    required = tuple(step for step in asked.steps if not step.optional)
    bare = Asked(mode="in-order", steps=required, aliases=ALIASES)
    in_order = is_match(bare, calls)
    in_any_order = is_match(replace(bare, mode="any-order"), calls)
    codes = [reason.code for reason in judge(asked, calls).reasons]
    assert (in_any_order and not in_order) is ("wrong-order" in codes)
    if not in_any_order:
        assert {"missing-step", "args-mismatch", "args-unobservable"} & set(codes)


@SOME
@given(trials(UNORDERED), st.randoms(use_true_random=False))
def test_order_never_counts_without_order(
    trial: tuple[Asked, list[Seen]], random: Any
) -> None:
    """In the modes without order any order of the calls has the same verdict."""
    asked, calls = trial
    shuffled = list(calls)
    random.shuffle(shuffled)
    assert judge(asked, calls).matched is judge(asked, shuffled).matched


@SOME
@given(trials(), st.integers(0, 5), st.sampled_from(["fs_", "fs_read", "fs_rm"]))
def test_forbidden_prefix_always_fails(
    trial: tuple[Asked, list[Seen]], at: int, tool: str
) -> None:
    """A call of a forbidden prefix, wherever it stands, fails the trial."""
    asked, calls = trial
    asked = replace(asked, forbidden=(*asked.forbidden, "fs_*"))
    outcome = judge(asked, [*calls[:at], Seen(tool), *calls[at:]])
    assert not outcome.matched
    assert "forbidden-tool" == outcome.reasons[0].code


@SOME
@given(trials(["in-order", "any-order"]), st.integers(0, 5))
def test_other_calls_change_nothing(trial: tuple[Asked, list[Seen]], at: int) -> None:
    """Without limits, a call that no step names changes no verdict."""
    asked, calls = trial
    asked = replace(asked, max_calls=None, max_extra_calls=None, max_calls_per_tool={})
    more = [*calls[:at], Seen("elsewhere"), *calls[at:]]
    assert judge(asked, calls).matched is judge(asked, more).matched


@SOME
@given(trials())
def test_aliases_are_the_names_they_mean(trial: tuple[Asked, list[Seen]]) -> None:
    """A call by an alias counts as the call it means, forbidden names apart."""
    asked, calls = trial
    asked = replace(asked, forbidden=())
    named = [replace(c, tool=ALIASES.get(c.tool, c.tool)) for c in calls]
    assert judge(asked, calls).matched is judge(asked, named).matched


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda values: (
        st.lists(values, max_size=4)
        | st.dictionaries(st.text(max_size=3), values, max_size=4)
    ),
    max_leaves=12,
)


def shuffle_keys(value: Any, shuffle: Callable[[list[Any]], None]) -> Any:
    """The same value with the keys of every object in another order."""
    if isinstance(value, list):
        return [shuffle_keys(item, shuffle) for item in value]
    if isinstance(value, dict):
        items = [(key, shuffle_keys(item, shuffle)) for key, item in value.items()]
        shuffle(items)
        return dict(items)
    return value


def through_doubles(value: Any) -> Any:
    """The value with its integers as the doubles that JCS takes them for."""
    if isinstance(value, list):
        return [through_doubles(item) for item in value]
    if isinstance(value, dict):
        return {key: through_doubles(item) for key, item in value.items()}
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


@MANY
@given(
    json_values,
    st.randoms(use_true_random=False),
    st.sampled_from(
        [
            json.JSONEncoder(),
            json.JSONEncoder(ensure_ascii=False, separators=(",", ":")),
            json.JSONEncoder(separators=(",", ":")),
            json.JSONEncoder(ensure_ascii=False, indent=1),
        ]
    ),
)
def test_canonical_is_one_form_a_value(
    value: Any, random: Any, encoder: json.JSONEncoder
) -> None:
    """Key order, spaces and escapes never change the form, and it is RFC 8785's."""
    spelt = encoder.encode(shuffle_keys(value, random.shuffle)).encode()
    expected = rfc8785.dumps(through_doubles(value))
    assert expected == canonical(spelt)
    assert expected == canonical(value)
    assert expected == canonical(expected)


@SOME
@given(
    st.dictionaries(st.text(max_size=2), json_values, max_size=4),
    st.randoms(use_true_random=False),
)
def test_digests_ignore_key_order(value: dict[str, Any], random: Any) -> None:
    """Arguments in any key order have the same digests, whole and by member."""
    digester = DIGESTERS["keyed"]
    shuffled = shuffle_keys(value, random.shuffle)
    one = json.dumps(value).encode()
    other = json.dumps(shuffled, indent=1, ensure_ascii=False).encode()
    assert digester.both(one) == digester.both(other)
    assert (digester.whole(one), digester.parts(one)) == digester.both(other)


masks_of_calls = st.lists(st.integers(0, 31), max_size=6)


def served_sets(masks: Sequence[int], taken: int = 0) -> set[int]:
    """Every set of steps, as a mask, that some pairing serves."""
    if not masks:
        return {taken}
    found = served_sets(masks[1:], taken)
    for step in range(5):
        if masks[0] >> step & 1 and not taken >> step & 1:
            found |= served_sets(masks[1:], taken | 1 << step)
    return found


@SOME
@given(masks_of_calls, st.permutations(range(5)))
def test_pair_is_optimal(masks: list[int], order: list[int]) -> None:
    """No pairing serves more, and none serves an earlier step instead."""
    pairs = pair(masks, order)
    assert len(set(pairs.values())) == len(pairs)
    assert all(masks[call] >> step & 1 for step, call in pairs.items())
    possible = served_sets(masks)
    assert max(s.bit_count() for s in possible) == len(pairs)
    # Greedy in order: a step is served if it can be, beside those before it.
    best = 0
    for step in order:
        if any(s & (best | 1 << step) == best | 1 << step for s in possible):
            best |= 1 << step
    assert best == sum(1 << step for step in pairs)


@SOME
@given(
    st.dictionaries(st.integers(1, 31), st.integers(0, 3), max_size=4),
    st.permutations(range(5)),
)
def test_cover_counts_like_calls(room: dict[int, int], order: list[int]) -> None:
    """Counted calls are paired as single ones are."""
    masks = [mask for mask, calls in room.items() for _ in range(calls)]
    served = cover(room, order)
    assert sorted(pair(masks, order)) == sorted(
        s for held in served.values() for s in held
    )
    assert all(len(held) <= room[mask] for mask, held in served.items())


def best_alignment(masks: Sequence[int], steps: int, optional: int) -> int | None:
    """The most steps served in order, by trying everything; None if impossible."""
    if not steps:
        return 0
    last = steps - 1
    counts = []
    if optional >> last & 1:
        counts.append(best_alignment(masks, last, optional))
    for call, mask in enumerate(masks):
        if mask >> last & 1:
            before = best_alignment(masks[:call], last, optional)
            counts.append(None if before is None else before + 1)
    return max((count for count in counts if count is not None), default=None)


@SOME
@given(masks_of_calls, st.integers(0, 5), st.integers(0, 31))
def test_align_is_optimal(masks: list[int], steps: int, optional: int) -> None:
    """Required steps are all served in order, and as many optional as can be."""
    masks = [mask & (1 << steps) - 1 for mask in masks]
    optional &= (1 << steps) - 1
    pairs = align(masks, steps, optional)
    expected = best_alignment(masks, steps, optional)
    assert expected == (None if pairs is None else len(pairs))
    if pairs is not None:
        calls = [pairs[step] for step in sorted(pairs)]
        assert sorted(set(calls)) == calls
        assert all(masks[call] >> step & 1 for step, call in pairs.items())
        assert all(step in pairs for step in range(steps) if not optional >> step & 1)


@SOME
@given(expectations())
def test_limits_are_refused_if_they_cannot_be_met(asked: Asked) -> None:
    """``maxCallsPerTool`` is refused exactly where it leaves a required step no call."""
    trajectory = Trajectory(
        match=MatchMode(asked.mode),
        steps=tuple(spell_step(replace(step, args=ANY)) for step in asked.steps),
        max_calls_per_tool=dict(asked.max_calls_per_tool),
    )
    required = [
        step.tools
        for step in asked.steps
        if not step.optional and asked.mode != "subset"
    ]
    can_be_met = any(
        all(chosen.count(t) <= limit for t, limit in asked.max_calls_per_tool.items())
        for chosen in product(*required)
    )
    context: AbstractContextManager[object] = (
        nullcontext()
        if can_be_met
        else pytest.raises(DecodeError, match=r"^\$\.maxCallsPerTool: ")
    )
    with context:
        compile_expectation(trajectory, DIGESTERS["plain"], {})
