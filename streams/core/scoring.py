"""Exact score arithmetic: sums and means as fractions, rounded once.

Source: RFC 0246 §A-§C; RFC 0244 §B for the trial statistics.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import comb

from streams.core.policy import Aggregation

ZERO = Fraction(0)


def mean(values: Sequence[Fraction], count: int | None = None) -> Fraction:
    """Exact mean.

    Args:
        values: Scores, any order.
        count: Divisor; the number of values if None. A larger one counts what
            is missing as 0.

    Returns:
        The mean; 0 for nothing.
    """
    divisor = len(values) if count is None else count
    return sum(values, ZERO) / divisor if divisor else ZERO


def aggregate(values: Sequence[Fraction], how: Aggregation) -> Fraction:
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
        return ZERO
    if how == Aggregation.MEAN:
        return mean(values)
    ordered = sorted(values)
    if how == Aggregation.MIN:
        return ordered[0]
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


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


def pass_at_k(trials: int, passed: int, k: int) -> Fraction:
    """Probability that at least one of ``k`` of the trials passes.

    ``1 - C(n-c, k) / C(n, k)``, unbiased; with k = n it is "any passed".
    """
    return 1 - Fraction(comb(trials - passed, k), comb(trials, k))


def pass_hat_k(trials: int, passed: int, k: int) -> Fraction:
    """Probability that all of ``k`` of the trials pass.

    ``C(c, k) / C(n, k)``, unbiased; with k = n it is "all passed".
    """
    return Fraction(comb(passed, k), comb(trials, k))
