"""Numbers and names as a person may read them without being misled."""

from collections.abc import Sequence
from itertools import pairwise

_MIN_DIGITS = 4
_MAX_DIGITS = 17


def show_scores(scores: Sequence[float]) -> list[str]:
    """Scores that stand beside each other, with as many digits as that needs.

    Args:
        scores: Any order, 0 to 1; may be empty.

    Returns:
        One text a score. Different scores have different texts in the same
        order; only 0 is shown as 0 and only 1 as 1. At least four decimals are
        kept, trailing zeros are not: 0.7966 beside 0.8 is never 0.80.
    """
    held = sorted({0.0, 1.0, *scores})
    for digits in range(_MIN_DIGITS, _MAX_DIGITS):
        texts = {score: _fixed(score, digits) for score in held}
        if all(float(texts[a]) < float(texts[b]) for a, b in pairwise(held)):
            return [texts[score] for score in scores]
    return [repr(score) for score in scores]


def show_score(score: float) -> str:
    """One score on its own; see ``show_scores``."""
    return show_scores([score])[0]


def _fixed(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return text or "0"


def show_number(number: float) -> str:
    """A number that is no score: all its digits, none for a whole number."""
    return str(int(number)) if number == int(number) else repr(number)


def count_of(number: int, noun: str) -> str:
    """``1 trial``, ``2 trials``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def visible(text: str) -> str:
    r"""A name from an event, safe to print on one line of a terminal.

    What moves a cursor, ends a line or turns the direction of writing is
    written out (``\x1b``): a tool's name is chosen by whoever wrote the tool.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


def _escaped(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
