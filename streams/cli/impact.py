"""``pathgate impact``: what the gate changes against RFC 0244."""

import json
from bisect import insort

import click
import msgspec

from schemas.reasons import RunReason
from schemas.summary import UNKNOWN_SUITE_ID
from streams.cli.exit_codes import ExitCode, exit_code_for
from streams.cli.grading import CODES, GRADING, Rejections, context_of, grade_files
from streams.cli.options import settings_command, text_or_json
from streams.cli.terminal import Terminal
from streams.render import RunView, view_of
from streams.render.figures import count_of, show_scores, visible
from streams.render.view import gated_aggregate_of, gated_of
from streams.settings import Settings

_TOLD_SUITES = 10


class Changed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One verdict that the gate changes.

    Args:
        run_id: The run.
        suite: ``suiteId@version``.
        task_id: The task; None for the run itself.
        score: The measured score.
        gated_score: What it counts in the gate.
        passed: The verdict of RFC 0246; RFC 0244's is the other.
        reasons: Codes of why the gate is closed.
    """

    run_id: str
    suite: str
    task_id: str | None
    score: float
    gated_score: float
    passed: bool
    reasons: tuple[str, ...]


class Tally(msgspec.Struct, kw_only=True, rename="camel"):
    """How many verdicts there are, and how many passes under each rule."""

    graded: int = 0
    passed_by_rfc0244: int = msgspec.field(default=0, name="passedByRfc0244")
    passed: int = 0

    def add(self, *, legacy: bool, passed: bool) -> None:
        """Counts one verdict."""
        self.graded += 1
        self.passed_by_rfc0244 += legacy
        self.passed += passed


class Impact(msgspec.Struct, kw_only=True, rename="camel"):
    """What the gate changes over some logs.

    Args:
        runs: Verdicts of runs.
        tasks: Verdicts of tasks.
        off_path_trials: Trials that took another path than was expected.
        trials: All trials.
        uncompared_runs: Runs, of ``runs``, whose suite is not loaded: neither rule
            can pass them.
        unknown_suites: ``suiteId@version`` that they name, sorted; a run without
            ``eval.started`` names none.
        changed: Each verdict that differs, by run, the run before its tasks.
    """

    runs: Tally = msgspec.field(default_factory=Tally)
    tasks: Tally = msgspec.field(default_factory=Tally)
    trials: int = 0
    off_path_trials: int = 0
    uncompared_runs: int = 0
    unknown_suites: list[str] = msgspec.field(default_factory=list)
    changed: list[Changed] = msgspec.field(default_factory=list)

    def add(self, view: RunView) -> None:
        """Takes one graded run."""
        record = view.suite
        self.runs.add(legacy=record.legacy_passed, passed=view.passed)
        self.trials += sum(len(task.trials) for task in view.tasks)
        self.off_path_trials += view.off_path_count
        if any(one.code == RunReason.UNKNOWN_SUITE for one in record.reasons):
            self._add_uncompared(view)
        if record.legacy_passed is not view.passed:
            self.changed.append(
                Changed(
                    run_id=record.run_id,
                    suite=view.suite_key,
                    task_id=None,
                    score=record.summary.aggregate_score,
                    gated_score=gated_aggregate_of(record),
                    passed=view.passed,
                    reasons=tuple(reason.code for reason in record.reasons),
                )
            )
        for task in view.tasks:
            entry = task.task
            self.tasks.add(legacy=task.legacy_passed, passed=entry.passed)
            if task.legacy_passed is not entry.passed:
                self.changed.append(
                    Changed(
                        run_id=task.run_id,
                        suite=view.suite_key,
                        task_id=entry.task_id,
                        score=entry.score,
                        gated_score=gated_of(entry),
                        passed=entry.passed,
                        reasons=tuple(reason.code for reason in task.reasons),
                    )
                )

    def _add_uncompared(self, view: RunView) -> None:
        self.uncompared_runs += 1
        is_named = view.suite.summary.suite_id != UNKNOWN_SUITE_ID
        if is_named and view.suite_key not in self.unknown_suites:
            insort(self.unknown_suites, view.suite_key)


@settings_command(
    "impact",
    shown=("suites_dir", *GRADING),
    accepted=(),
    codes=CODES,
    examples=(
        "pathgate impact runs.ndjson --suites suites/",
        "pathgate impact day-*.ndjson.zst --suites suites/ --format json",
    ),
    help="Say what the gate changes: the runs and tasks that RFC 0244 passed and"
    " RFC 0246 does not. 0 if it changes no verdict, 1 if it does, 3 if it changes"
    " none of those that could be compared.",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@text_or_json
def impact(
    terminal: Terminal, *, settings: Settings, files: tuple[str, ...], style: str
) -> ExitCode:
    """Compares the two rules over the same events."""
    rejections = Rejections()
    found = Impact()
    for run in grade_files(context_of(settings), list(files), terminal, rejections):
        found.add(view_of(run.record, run.tasks))
    if style == "json":
        terminal.write(json.dumps(msgspec.to_builtins(found), indent=2) + "\n")
    else:
        _write(terminal, found)
    rejections.tell(terminal)
    if found.uncompared_runs:
        terminal.note(_uncompared(found))
    is_answer = found.runs.graded and not found.uncompared_runs and not rejections.count
    undecided = "" if is_answer else "in doubt"
    return exit_code_for(not_passed=len(found.changed), undecided=undecided)


def _uncompared(found: Impact) -> str:
    """Which runs say nothing about the gate, and what was missing."""
    text = f"{count_of(found.uncompared_runs, 'run')} not compared: "
    if not found.unknown_suites:
        return text + "no eval.started names a suite"
    shown = [visible(key) for key in found.unknown_suites[:_TOLD_SUITES]]
    left_out = len(found.unknown_suites) - len(shown)
    more = f" and {left_out} more" if left_out else ""
    return f"{text}not among the suites: {', '.join(shown)}{more}"


def _write(terminal: Terminal, found: Impact) -> None:
    for one in found.changed:
        measured, gate = show_scores([one.score, one.gated_score])
        task = f"  task {visible(one.task_id)}" if one.task_id else ""
        verdict = "passed now" if one.passed else "passes no longer"
        why = f"  {', '.join(one.reasons)}" if one.reasons else ""
        terminal.write(
            f"{visible(one.run_id)}{task}  {verdict}  score {measured}, in the gate"
            f" {gate}{why}\n"
        )
    for noun, tally in (("run", found.runs), ("task", found.tasks)):
        terminal.write(
            f"{count_of(tally.graded, noun)}: {tally.passed_by_rfc0244} passed by"
            f" RFC 0244, {tally.passed} by RFC 0246\n"
        )
    terminal.write(
        f"{count_of(found.trials, 'trial')}: {found.off_path_trials} off path\n"
    )
