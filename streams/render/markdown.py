"""Graded runs for a pull request: one table a run."""

import re

from schemas.records import HostAudit, SuiteRecord, TaskRecord
from schemas.summary import TaskEntry
from streams.render.figures import show_scores, visible
from streams.render.story import run_story, task_story
from streams.render.view import (
    RunView,
    Totals,
    gated_aggregate_of,
    gated_of,
    verdict_word,
)
from streams.render.words import explain_disagreements

# What Markdown takes for more than a character inside a line or a table.
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
# A forge makes mentions, references and links of what is shown, not of what is
# written, so that no backslash helps; an empty comment parts the two.
_ACTIVE = re.compile(r"(@|#|:(?=//))")


def plain(text: str) -> str:
    """Text that Markdown shows as it is, in a table too."""
    shown = visible(text).replace("&", "&amp;").replace("<", "&lt;")
    shown = _SPECIAL.sub(r"\\\1", shown.replace(">", "&gt;"))
    return _ACTIVE.sub(r"\1<!-- -->", shown)


class MarkdownRenderer:
    """Writes a heading, the reasons and a table for each run."""

    def start(self) -> str:
        """Nothing."""
        return ""

    def run(self, view: RunView) -> str:
        """One run."""
        record = view.suite
        summary = record.summary
        facts = (
            f"{plain(view.suite_key)}, {_pair(record)}, {summary.passed_count} of"
            f" {summary.task_count} tasks passed, {record.outcome.value}."
        )
        verdict = verdict_word(passed=view.passed)
        lines = [f"### {verdict}: {plain(record.run_id)}", "", facts]
        notes = [f"- {plain(line)}" for line in run_story(record)]
        if isinstance(record.host, HostAudit):
            notes += [
                f"- host {kind}: {plain(words)}"
                for kind, words in explain_disagreements(
                    record.host.disagreements, record.host, summary
                )
            ]
        if notes:
            lines += ["", *notes]
        lines += [
            "",
            "| task | verdict | score | in the gate | why |",
            "| --- | --- | --- | --- | --- |",
        ]
        lines += [_row(entry, view.record_of(entry)) for entry in summary.tasks]
        return "\n".join(lines) + "\n\n"

    def end(self, totals: Totals) -> str:
        """The totals."""
        return f"**{plain(str(totals))}**\n"


def _pair(record: SuiteRecord) -> str:
    gated = gated_aggregate_of(record)
    measured, gate = show_scores([record.summary.aggregate_score, gated])
    return f"score {plain(measured)}, in the gate {plain(gate)}"


def _row(entry: TaskEntry, record: TaskRecord | None) -> str:
    measured, gate = show_scores([entry.score, gated_of(entry)])
    cells = [
        plain(entry.task_id),
        verdict_word(passed=entry.passed),
        plain(measured),
        plain(gate),
        "" if record is None or entry.passed else _why(record),
    ]
    return "| " + " | ".join(cells) + " |"


def _why(record: TaskRecord) -> str:
    return "<br>".join(plain(line) for line in task_story(record))
