"""At the bar: sets of scores whose exact mean is the bar, or the nearest beside it."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement
from math import ceil, comb, fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.core.compiled import CompiledSuite
from streams.core.policy import Aggregation
from streams.core.scoring import (
    Mean,
    add,
    aggregate,
    mean,
    pass_at_k,
    pass_curves,
    pass_hat_k,
    percentile,
)
from streams.core.summarize import figures_of_task
from tests.factories import Log, fold, grade, make_context, make_suite, task

THOUSANDTHS = [f"{n / 1000:.3f}" for n in range(1001)]


@cache
def suite_of(size: int, bar: str) -> CompiledSuite:
    return make_suite(task("t"), count=size, rule="mean", passScore=float(bar))


def is_passed(scores: Sequence[str], bar: str) -> bool:
    """Our verdict, by the whole way from bytes of events."""
    suite = suite_of(len(scores), bar)
    log = Log().start()
    for score in scores:
        log.score("t", score)
    context = make_context(suite)
    state, _ = fold(log.lines, context)
    return figures_of_task(state, suite, context.policy, suite.tasks[0]).passed


def meets_exactly(scores: Sequence[str], bar: str) -> bool:
    """The oracle: whole numbers alone, no fraction and no double.

    Scores and bar have three digits at most, so times 1000 they are whole, and
    the mean meets the bar where their sum is at least the bar times their
    number. A mean that is not the bar is at least 1/5000 away from it, so
    rounding it to a double cannot cross the bar.
    """
    total = sum(int(Decimal(score) * 1000) for score in scores)
    return total >= int(Decimal(bar) * 1000) * len(scores)


def sets_at_the_bar() -> Iterator[tuple[tuple[str, ...], str]]:
    """Sets of tenths, with the bars at their mean and one thousandth beside it."""
    tenths = [f"{n / 10:.1f}" for n in range(11)]
    for size in (2, 3, 5):
        for scores in combinations_with_replacement(tenths, size):
            total = sum(int(Decimal(score) * 1000) for score in scores)
            for bar in {
                total // size - 1,
                total // size,
                -(-total // size),
                total // size + 1,
            }:
                if 0 <= bar <= 1000:
                    yield scores, THOUSANDTHS[bar]


def test_verdicts_at_the_bar_are_exact() -> None:
    """Thousands of sets on and next to the bar: our verdict is the oracle's."""
    cases = list(sets_at_the_bar())
    wrong = [case for case in cases if is_passed(*case) is not meets_exactly(*case)]
    assert [] == wrong
    assert len(cases) > 10_000
    # They are hard: both ways of summing doubles decide some of them wrongly.
    for sum_up in (sum, fsum):
        naive = [
            case
            for case in cases
            if (sum_up(map(float, case[0])) / len(case[0]) >= float(case[1]))
            is not meets_exactly(*case)
        ]
        assert len(naive) > 20


@given(st.lists(st.sampled_from(THOUSANDTHS), min_size=1, max_size=9), st.data())
def test_any_order_gives_the_same_verdict(
    scores: list[str], data: st.DataObject
) -> None:
    """The verdict at the mean itself does not depend on the order of the scores."""
    total = sum(int(Decimal(score) * 1000) for score in scores)
    bar = THOUSANDTHS[total // len(scores)]
    shuffled = data.draw(st.permutations(scores))
    assert is_passed(scores, bar)
    assert is_passed(shuffled, bar)


@pytest.mark.parametrize(
    ("score", "passed"),
    [
        ("0.7", True),
        ("0.70", True),
        ("7e-1", True),
        ("0.6999999999999999", False),
        # Nearer to the double of 0.7 than to any other: printed as 0.7, compared as 0.7.
        ("0.69999999999999999999", True),
    ],
)
def test_the_printed_number_is_the_compared_number(score: str, *, passed: bool) -> None:
    """A reader who compares the figures as printed gets the same verdict."""
    suite = make_suite(task("t"), passScore=0.7)
    outcome = grade(Log().start().score("t", score), make_context(suite))
    assert passed is outcome.passed
    assert passed is (outcome.record.summary.aggregate_score >= 0.7)


means = st.builds(
    Mean,
    st.sampled_from([*THOUSANDTHS, "1e-300", "0.1234567890123456789"]).map(Decimal),
    st.integers(1, 9),
)


@given(st.lists(means, min_size=1, max_size=12))
def test_aggregates_are_those_of_a_sorted_list(values: list[Mean]) -> None:
    """Mean, minimum and median, against their definitions in fractions."""
    exact = sorted(Fraction(value.total) / value.divisor for value in values)
    total = sum(exact, Fraction(0))
    assert total == aggregate(values, Aggregation.MEAN).exact * len(values)
    assert exact[0] == aggregate(values, Aggregation.MIN).exact
    median = aggregate(values, Aggregation.MEDIAN).exact
    assert exact[(len(exact) - 1) // 2] + exact[len(exact) // 2] == 2 * median


@given(means)
def test_the_double_of_a_mean_is_the_nearest(value: Mean) -> None:
    """Rounded once, as a fraction is."""
    assert float(Fraction(value.total) / value.divisor) == float(value)


def test_nothing_has_the_mean_0() -> None:
    """No value: 0, in every aggregation."""
    assert Mean(Decimal(0), 1) == mean([]) == mean([], 0)
    assert {0} == {aggregate([], how).exact for how in Aggregation}


def test_a_larger_divisor_counts_what_is_missing_as_0() -> None:
    """One score of 1 over two is a half."""
    assert Fraction(1, 2) == mean([Decimal(1)], 2).exact


def test_sums_lose_no_digit() -> None:
    """A million and the smallest number the codec lets through."""
    tiny = Decimal("0." + 63 * "0" + "1e-999")
    assert Fraction(10**12) + Fraction(tiny) == Fraction(add([Decimal(10**12), tiny]))
    assert add([Decimal(10**12), tiny]) > 10**12


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(1, 100))
def test_percentile_is_the_nearest_rank(values: list[int], percent: int) -> None:
    """The smallest value that at least that share of the values does not exceed."""
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 < percent * len(values)


def test_percentile_has_no_float_error_in_its_rank() -> None:
    """7 % of 100 values is the 7th; with a float 0.07 x 100 rounds up to rank 8."""
    assert 8 == ceil(0.07 * 100)
    assert 7 == percentile(range(1, 101), 7)
    assert 950 == percentile(range(1, 1001), 95)
    assert 1000 == percentile(range(1, 1001), 100)


@pytest.mark.parametrize(("values", "percent"), [([], 95), ([1], 0), ([1], 101)])
def test_percentile_refuses_what_has_no_rank(values: list[int], percent: int) -> None:
    """No values, or a percent out of range."""
    with pytest.raises(ValueError, match=rf"got {percent}"):
        percentile(values, percent)


@pytest.mark.parametrize(
    ("trials", "passed"), [(n, c) for n in range(1, 7) for c in range(n + 1)]
)
def test_pass_figures_are_shares_of_all_choices(trials: int, passed: int) -> None:
    """Both estimators equal the share among all ways to choose k of the trials."""
    verdicts = [number < passed for number in range(trials)]
    for k in range(1, trials + 1):
        chosen = list(combinations(verdicts, k))
        some = Fraction(sum(map(any, chosen)), len(chosen))
        every = Fraction(sum(map(all, chosen)), len(chosen))
        assert (float(some), float(every)) == (
            pass_at_k(trials, passed, k),
            pass_hat_k(trials, passed, k),
        )


@given(
    st.lists(
        st.integers(0, 3).flatmap(
            lambda more: st.tuples(st.just(4 + more), st.integers(0, 4 + more))
        ),
        min_size=1,
        max_size=9,
    )
)
def test_curves_are_means_over_tasks(counts: list[tuple[int, int]]) -> None:
    """Entry k-1 is the mean of the tasks' shares at k, rounded once."""
    at, hat = pass_curves(counts, 4)
    for k in range(1, 5):
        every = [Fraction(comb(c, k), comb(n, k)) for n, c in counts]
        none = [Fraction(comb(n - c, k), comb(n, k)) for n, c in counts]
        assert float(sum(every, Fraction(0)) / len(counts)) == hat[k - 1]
        assert float(1 - sum(none, Fraction(0)) / len(counts)) == at[k - 1]
