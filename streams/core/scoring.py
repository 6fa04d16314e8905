"""Exact score arithmetic: decimals are added, one division rounds to a double.

Source: RFC 0246 §A-§C; RFC 0244 §B for the trial statistics.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact
from fractions import Fraction
from functools import reduce
from itertools import accumulate
from math import comb, lcm

import msgspec

from streams.core.policy import Aggregation

ZERO = Decimal(0)
_BY_MEAN = Aggregation.MEAN

# Decimals add exactly, and far faster than fractions, where no digit is cut off.
# What the codec lets through has digits from 1e-1063 to 1e12; sums of millions
# need a few more. A cut digit would raise, never round.
_EXACT = Context(prec=4096, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact])


class Mean(msgspec.Struct, frozen=True, gc=False):
    """An exact rational number: a sum and what it is divided by.

    Args:
        total: Exact.
        divisor: At least 1.
    """

    total: Decimal
    divisor: int

    def __float__(self) -> float:
        """The nearest double."""
        numerator, denominator = self.total.as_integer_ratio()
        # True division of integers is rounded once, correctly.
        return numerator / (denominator * self.divisor)

    @property
    def exact(self) -> Fraction:
        """The number itself."""
        return Fraction(self.total) / self.divisor


def add(values: Sequence[Decimal]) -> Decimal:
    """Exact sum; 0 for nothing."""
    if len(values) == 1:
        # No minus zero, as of a sum.
        return values[0] or ZERO
    return reduce(_EXACT.add, values, ZERO)


def mean(values: Sequence[Decimal], count: int | None = None) -> Mean:
    """Exact mean.

    Args:
        values: Scores, any order.
        count: Divisor; the number of values if None. A larger one counts what
            is missing as 0.

    Returns:
        The mean; 0 for nothing.
    """
    return Mean(add(values), (len(values) if count is None else count) or 1)


def aggregate(values: Sequence[Mean], how: Aggregation) -> Mean:
    """The suite figure of its tasks' figures.

    Args:
        values: One figure a task, any order.
        how: ``mean``, ``median`` (of an even number, the mean of the middle
            two) or ``min``.

    Returns:
        The aggregate; 0 for no task.

    Source: RFC 0246 §A, "the aggregation the host uses for aggregateScore".
    """
    if not values:
        return Mean(ZERO, 1)
    if how == _BY_MEAN:
        return _mean_of_means(values)
    ordered = sorted(values, key=lambda value: value.exact)
    if how == Aggregation.MIN:
        return ordered[0]
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return _mean_of_means(ordered[middle - 1 : middle + 1])


def _mean_of_means(values: Sequence[Mean]) -> Mean:
    divisors = {value.divisor for value in values}
    common = lcm(*divisors)
    if len(divisors) == 1:
        totals = [value.total for value in values]
    else:
        totals = [
            _EXACT.multiply(value.total, Decimal(common // value.divisor))
            for value in values
        ]
    return Mean(add(totals), common * len(values))


def percentile(values: Iterable[int], percent: int) -> int:
    """Nearest-rank percentile.

    Args:
        values: Any order; at least one.
        percent: 1 to 100.

    Returns:
        The smallest value that at least ``percent`` % of the values do not
        exceed.

    Raises:
        ValueError: No values, or ``percent`` out of range.

    Source: this project's choice (DESIGN.md §4, nearest rank).
    """
    ordered = sorted(values)
    if not ordered or not 1 <= percent <= 100:
        raise ValueError(f"expected values and a percent of 1 to 100, got {percent}")
    # Integer ceil: ceil(q * n) with a float q picks a wrong rank for some n.
    return ordered[(percent * len(ordered) + 99) // 100 - 1]


def pass_at_k(trials: int, passed: int, k: int) -> float:
    """Probability that at least one of ``k`` of the trials passes.

    ``1 - C(n-c, k) / C(n, k)``, unbiased; with k = n it is "any passed".
    """
    ways = comb(trials, k)
    return (ways - comb(trials - passed, k)) / ways


def pass_hat_k(trials: int, passed: int, k: int) -> float:
    """Probability that all of ``k`` of the trials pass.

    ``C(c, k) / C(n, k)``, unbiased; with k = n it is "all passed".
    """
    return comb(passed, k) / comb(trials, k)


def pass_curves(
    counts: Sequence[tuple[int, int]], most: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Means over tasks of ``pass_at_k`` and ``pass_hat_k``.

    Args:
        counts: Trials and passed trials, one pair a task; at least one, and
            no fewer trials than ``most``.
        most: Largest k.

    Returns:
        Both, entry k-1 for k = 1 to ``most``; each rounded once.
    """
    tasks = len(counts)
    at = _curve(Counter((n, n - c) for n, c in counts), most)
    hat = _curve(Counter(counts), most)
    return (
        tuple(float((tasks - share) / tasks) for share in at),
        tuple(float(share / tasks) for share in hat),
    )


def _curve(groups: Counter[tuple[int, int]], most: int) -> Iterator[Fraction]:
    """Sums over groups of ``C(m, k) / C(n, k)``, for k = 1 to ``most``."""
    members = {pair: _choices(pair[1], most) for pair in groups}
    wholes = {n: _choices(n, most) for n, _ in groups}
    for _ in range(most):
        sums = dict.fromkeys(wholes, 0)
        for (n, m), weight in groups.items():
            sums[n] += weight * next(members[n, m])
        shares = [Fraction(sums[n], next(wholes[n])) for n in wholes]
        yield sum(shares, Fraction(0))


def _choices(n: int, most: int) -> Iterator[int]:
    """``C(n, k)`` for k = 1 to ``most``, each from the one before it."""
    return accumulate(
        range(2, most + 1), lambda ways, k: ways * (n - k + 1) // k, initial=n
    )
