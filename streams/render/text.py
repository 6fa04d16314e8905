"""Graded runs for a person at a terminal."""

import textwrap

from schemas.records import HostAudit, Outcome, SuiteRecord, TaskRecord, TrialEntry
from schemas.summary import TaskEntry
from streams.render.figures import count_of, show_score, show_scores, visible
from streams.render.story import PASSED_BEFORE, named, run_reasons, trial_story
from streams.render.view import (
    RunView,
    Totals,
    failed_trials,
    gated_aggregate_of,
    gated_of,
    verdict_word,
)
from streams.render.words import explain_disagreements, explain_rule

_WIDTH = 100
_RED, _GREEN, _YELLOW = "31", "32", "33"


class TextRenderer:
    """Writes a line for a run that passed, and for another what went wrong.

    Args:
        colour: Whether to colour the verdicts; the words stand either way.
    """

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour

    def start(self) -> str:
        """Nothing."""
        return ""

    def run(self, view: RunView) -> str:
        """One run: its verdict, why, and each task and trial that failed."""
        lines = [self._head(view)]
        if not view.passed:
            lines += self._why(view)
        lines += self._host(view)
        if not view.passed:
            lines.append("")
        return "\n".join(lines) + "\n"

    def end(self, totals: Totals) -> str:
        """The totals."""
        code = _RED if totals.not_passed else _GREEN
        if not totals.not_passed and totals.undecided:
            code = _YELLOW
        return self._paint(str(totals), code) + "\n"

    def _head(self, view: RunView) -> str:
        record, summary = view.suite, view.suite.summary
        facts = [
            visible(view.suite_key),
            _scores_of(record),
            f"tasks {summary.passed_count}/{summary.task_count}",
        ]
        if record.outcome is not Outcome.COMPLETE:
            facts.append(record.outcome.value)
        if view.passed and view.off_path_count:
            facts.append(f"{count_of(view.off_path_count, 'trial')} off path")
        word = self._verdict(passed=view.passed)
        return f"{word}  {visible(record.run_id)}  " + "  ".join(facts)

    def _why(self, view: RunView) -> list[str]:
        lines = [_wrap(line, 2) for line in run_reasons(view.suite)]
        rule = explain_rule(view.suite)
        if rule:
            lines.append("  " + self._paint(rule, _YELLOW))
        for entry in view.suite.summary.tasks:
            if not entry.passed:
                lines += self._task(entry, view.record_of(entry))
        return lines

    def _task(self, entry: TaskEntry, record: TaskRecord | None) -> list[str]:
        head = f"  {self._verdict(passed=False)}  task {visible(entry.task_id)}"
        lines = [f"{head}  {_task_scores(entry)}"]
        if record is None:
            return lines
        if record.legacy_passed:
            lines[0] += "  " + self._paint(PASSED_BEFORE, _YELLOW)
        lines += [_wrap(named(reason), 4) for reason in record.reasons]
        for trial in failed_trials(record):
            lines += _trial(trial)
        return lines

    def _host(self, view: RunView) -> list[str]:
        host = view.suite.host
        if not isinstance(host, HostAudit):
            return []
        return [
            _wrap(f"host {kind}: {words}", 2)
            for kind, words in explain_disagreements(
                host.disagreements, host, view.suite.summary
            )
        ]

    def _verdict(self, *, passed: bool) -> str:
        word = verdict_word(passed=passed)
        return self._paint(word, _GREEN if passed else _RED)

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


def _scores_of(record: SuiteRecord) -> str:
    measured, gated = record.summary.aggregate_score, gated_aggregate_of(record)
    return _pair(measured, gated)


def _task_scores(entry: TaskEntry) -> str:
    return _pair(entry.score, gated_of(entry))


def _pair(measured: float, gated: float) -> str:
    if measured == gated:
        return f"score {show_score(measured)}"
    shown, gate = show_scores([measured, gated])
    return f"score {shown}, in the gate {gate}"


def _trial(trial: TrialEntry) -> list[str]:
    path = "  off path" if trial.matched is False else ""
    host = "passed" if trial.host_passed else "not passed"
    scores = _pair(trial.score, trial.gating_score)
    lines = [f"    trial {trial.trial}{path}  {scores}  host: {host}"]
    lines += [_wrap(line, 6) for line in trial_story(trial)]
    return lines


def _wrap(text: str, indent: int) -> str:
    return textwrap.fill(
        text,
        width=_WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 4),
        break_long_words=False,
        break_on_hyphens=False,
    )
