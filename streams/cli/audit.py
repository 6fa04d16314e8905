"""``pathgate audit``: holds a host's own summary against its events."""

import json
from pathlib import Path

import click
import msgspec
from msgspec import UnsetType

from schemas.codec import decode_summary
from schemas.errors import SummaryError
from schemas.records import Disagreement, HostAudit
from schemas.summary import UNKNOWN_SUITE_ID, EvalSummary
from streams.cli.exit_codes import ExitCode, exit_code_for
from streams.cli.grading import CODES, GRADING, Rejections, context_of, grade_files
from streams.cli.options import settings_command, text_or_json
from streams.cli.terminal import Terminal
from streams.core.audit import compare_summaries
from streams.core.compiled import CompiledSuite
from streams.errors import InputError
from streams.render import RunView, view_of
from streams.render.figures import count_of, visible
from streams.render.words import explain_disagreements
from streams.settings import Settings


@settings_command(
    "audit",
    shown=("suites_dir", *GRADING),
    accepted=(),
    codes=CODES,
    examples=(
        "pathgate audit run.ndjson --suites suites/ --summary host.json",
        "pathgate audit day.ndjson --suites suites/ --summary host.json --run RUN",
    ),
    help="Hold a host's own EvalSummary against the events of its run, and print"
    " each point where they disagree. 0 if they agree, 1 if not.",
)
@click.argument("file", metavar="FILE")
@click.option(
    "--summary",
    "summary_file",
    required=True,
    type=click.Path(path_type=Path),
    metavar="HOST.json",
    help="The EvalSummary that the host reported.",
)
@click.option(
    "--run", "run_id", metavar="RUN", help="Which run, where the log holds several."
)
@text_or_json
def audit(
    terminal: Terminal,
    *,
    settings: Settings,
    file: str,
    summary_file: Path,
    run_id: str | None,
    style: str,
) -> ExitCode:
    """Audits one run."""
    host = read_summary(summary_file)
    context = context_of(settings)
    rejections = Rejections()
    views = [
        view_of(run.record, run.tasks)
        for run in grade_files(context, [file], terminal, rejections)
    ]
    # First: what was left out may be why there is nothing to audit.
    rejections.tell(terminal)
    try:
        view = choose_run(views, host, run_id)
    except InputError as error:
        raise InputError(f"{visible(file)}: {error}") from error
    suite = context.suites.get(view.suite_key)
    found = {"summary": in_summary(view, host, suite), "events": in_events(view)}
    count = sum(len(each) for each in found.values())
    if style == "json":
        facts = {"runId": view.suite.run_id, **found}
        terminal.write(json.dumps(msgspec.to_builtins(facts), indent=2) + "\n")
    else:
        for place, side in (("summary", host), ("events", view.suite.host)):
            if isinstance(side, UnsetType):
                continue
            for kind, words in explain_disagreements(
                found[place], side, view.suite.summary
            ):
                terminal.write(f"{place}: {kind}: {words}\n")
        verdict = count_of(count, "disagreement") if count else "agrees"
        terminal.write(f"{visible(view.suite.run_id)}: {verdict}\n")
    undecided = "events were rejected" if rejections.count else ""
    return exit_code_for(not_passed=count, undecided=undecided)


def read_summary(path: Path) -> EvalSummary:
    """The host's scorecard.

    Raises:
        InputError: It cannot be read, or is no ``EvalSummary``.
    """
    try:
        return decode_summary(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except SummaryError as error:
        raise InputError(str(error)) from error


def choose_run(views: list[RunView], host: EvalSummary, run_id: str | None) -> RunView:
    """The run that a scorecard is about.

    Args:
        views: Every run of the log.
        host: The scorecard, which names suite and version but no run.
        run_id: The run that was asked for, if any.

    Raises:
        InputError: There is none, or there are several and none was asked for.
    """
    if run_id is not None:
        chosen = [view for view in views if view.suite.run_id == run_id]
        if not chosen:
            raise InputError(
                f"--run: expected eval.started or eval.scored of {visible(run_id)!r}:"
                " the log holds neither"
            )
        return chosen[0]
    key = f"{host.suite_id}@{host.suite_version}"
    chosen = [view for view in views if view.suite_key == key]
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise InputError(_without_run_of(key, views))
    ids = ", ".join(visible(view.suite.run_id) for view in chosen[:5])
    raise InputError(
        f"the log holds {len(chosen)} runs of {visible(key)}: give --run, such as {ids}"
    )


def _without_run_of(key: str, views: list[RunView]) -> str:
    """What a log lacks that holds no run of a suite."""
    if not views:
        return (
            f"expected eval.started of {visible(key)}, which the summary names; no run"
            " of the log has eval.started or eval.scored, and nothing else can be"
            " graded"
        )
    suites = sorted(
        {
            visible(view.suite_key)
            for view in views
            if view.suite.summary.suite_id != UNKNOWN_SUITE_ID
        }
    )
    its_runs = (
        f"its runs are of {', '.join(suites[:5])}"
        if suites
        else "none of its runs has eval.started"
    )
    return (
        f"the log holds no run of {visible(key)}, which the summary names; {its_runs}"
    )


def in_summary(
    view: RunView, host: EvalSummary, suite: CompiledSuite | None
) -> list[Disagreement]:
    """Where the scorecard differs from ours."""
    tasks = () if suite is None else suite.tasks
    expected = {task.task_id for task in tasks if task.expectation is not None}
    return compare_summaries(view.suite, host, expected=expected)


def in_events(view: RunView) -> list[Disagreement]:
    """Where the verdicts that the host recorded in its events differ from ours."""
    host = view.suite.host
    return list(host.disagreements) if isinstance(host, HostAudit) else []
