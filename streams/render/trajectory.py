"""Expected against observed calls, with what the reasons name in brackets."""

from collections.abc import Sequence

from schemas.records import TrialEntry
from streams.render.figures import visible

ARROW = " -> "


def expected_line(trial: TrialEntry) -> str:
    """The expected steps; those that a reason names stand in brackets."""
    steps = trial.expected if isinstance(trial.expected, tuple) else ()
    named = {reason.step for reason in trial.reasons}
    return _join(steps, named) or "(no call)"


def observed_line(trial: TrialEntry) -> str:
    """The observed calls; those that a reason names stand in brackets."""
    calls = trial.observed if isinstance(trial.observed, tuple) else ()
    named = {reason.call for reason in trial.reasons}
    text = _join(calls, named)
    rest = trial.calls - len(calls)
    if rest > 0:
        text += f"{ARROW}({rest} more)"
    return text or "(no call)"


def _join(names: Sequence[str], named: set[int | None]) -> str:
    return ARROW.join(
        f"[{visible(name)}]" if place in named else visible(name)
        for place, name in enumerate(names)
    )
