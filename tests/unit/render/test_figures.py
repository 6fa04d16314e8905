"""Numbers and names as a person reads them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.render.figures import (
    count_of,
    show_number,
    show_score,
    show_scores,
    visible,
)

SCORES = st.floats(0, 1, allow_nan=False)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.7966, 0.8], ["0.7966", "0.8"]),
        ([0.9, 0.45], ["0.9", "0.45"]),
        ([1.0, 0.0], ["1", "0"]),
        ([2 / 3], ["0.6667"]),
        # Four decimals would show 0.8 twice, or a 1 that is none.
        ([0.79999, 0.8], ["0.79999", "0.8"]),
        ([0.99999], ["0.99999"]),
        ([0.00001], ["0.00001"]),
        ([0.8, 0.8], ["0.8", "0.8"]),
        ([], []),
    ],
)
def test_scores_have_as_many_digits_as_they_need(
    scores: list[float], expected: list[str]
) -> None:
    """At least four decimals, more where two scores would look the same."""
    assert show_scores(scores) == expected


def test_neighbouring_doubles_are_told_apart() -> None:
    """0.7 and the next double below differ in the 16th decimal."""
    below = 0.7 - 2**-53
    assert show_scores([below, 0.7]) == [repr(below), "0.7"]


@given(st.lists(SCORES, max_size=5))
def test_shown_scores_are_ordered_as_the_scores_are(scores: list[float]) -> None:
    """Who compares what is printed gets the verdict that was computed."""
    shown = [float(text) for text in show_scores(scores)]
    for a, x in zip(scores, shown, strict=True):
        for b, y in zip(scores, shown, strict=True):
            assert (a < b) == (x < y)


@given(SCORES)
def test_only_zero_and_one_are_shown_as_such(score: float) -> None:
    """A score that just misses the top is not the top."""
    assert (show_score(score) == "1") == (score == 1)
    assert (show_score(score) == "0") == (score == 0)
    # Half of the fourth decimal at most.
    assert abs(Fraction(show_score(score)) - Fraction(score)) <= Fraction(1, 20_000)


@pytest.mark.parametrize(
    ("number", "expected"), [(3, "3"), (3.0, "3"), (0.25, "0.25"), (1e-07, "1e-07")]
)
def test_other_numbers_have_all_digits(number: float, expected: str) -> None:
    """Costs and counts are printed as they are."""
    assert show_number(number) == expected


def test_counts_agree_with_their_noun() -> None:
    """One run, two runs."""
    assert [count_of(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mcp__gh__search", "mcp__gh__search"),
        ("größe", "größe"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\nb", r"a\nb"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2028b", r"a\u2028b"),
    ],
)
def test_name_cannot_move_the_cursor(name: str, expected: str) -> None:
    """Whatever a tool is called, it stays on its line and in its direction."""
    assert visible(name) == expected
    assert visible(name).isprintable()
