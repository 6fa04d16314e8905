"""``pathgate replay``: grades event logs, with no broker."""

from collections.abc import Callable
from typing import TypeVar

import click

from streams.cli.exit_codes import ExitCode
from streams.cli.grading import (
    CODES,
    GRADING,
    Rejections,
    Tally,
    context_of,
    grade_files,
    print_runs,
    read_all,
)
from streams.cli.options import settings_command
from streams.cli.terminal import Terminal
from streams.core.context import Context
from streams.render import Format, make_renderer, view_of
from streams.render.figures import count_of
from streams.replay import FileGrader, GradedRun
from streams.replay.reader import STDIN
from streams.settings import Settings

Function = TypeVar("Function", bound=Callable[..., ExitCode])


def format_option() -> Callable[[Function], Function]:
    """``--format`` of the commands that print graded runs."""
    return click.option(
        "--format",
        "style",
        type=click.Choice([style.value for style in Format]),
        default=Format.TEXT.value,
        show_default=True,
        help="How the verdicts are written.",
    )


@settings_command(
    "replay",
    shown=("suites_dir", *GRADING, "bootstrap_servers"),
    codes=(*CODES, ExitCode.BROKER),
    examples=(
        "pathgate replay runs.ndjson --suites suites/",
        "pathgate replay day-*.ndjson.zst --suites suites/ --format json --tasks",
        "kcat -C -t agent.events -e | pathgate replay - --suites suites/",
        "pathgate replay run.ndjson --suites suites/ --format junit > gate.xml",
        "pathgate replay host.ndjson --suites suites/ --follow",
        "pathgate replay --from-topics --bootstrap-servers kafka:9092",
    ),
    help="Grade event logs: NDJSON, plain, .gz or .zst, '-' for standard input."
    " The same core as the worker's: the same events give the same records.",
)
@click.argument("files", nargs=-1, metavar="FILE...")
@format_option()
@click.option("--tasks", is_flag=True, help="Add task records to --format json.")
@click.option(
    "--from-topics",
    is_flag=True,
    help="Grade all that the event topics hold instead, in no consumer group.",
)
@click.option(
    "--follow", is_flag=True, help="Wait for more, and print each run as it ends."
)
def replay(  # noqa: PLR0913 - one keyword an option of the command line
    terminal: Terminal,
    *,
    settings: Settings,
    files: tuple[str, ...],
    style: str,
    tasks: bool,
    follow: bool,
    from_topics: bool,
) -> ExitCode:
    """Grades the logs, or the topics."""
    if bool(files) is from_topics or (from_topics and follow):
        raise click.UsageError("give FILE..., or --from-topics alone")
    if from_topics:
        from streams.cli.from_topics import grade_topics  # noqa: PLC0415 - the broker's client is slow to import, and logs need none

        rejections = Rejections()
        runs = grade_topics(settings, terminal, rejections)
        return print_runs(runs, rejections, terminal, Format(style), tasks=tasks)
    if follow and (len(files) > 1 or files[0] == STDIN):
        raise click.UsageError("--follow takes one file that grows")
    if follow and style not in {Format.TEXT, Format.JSON}:
        raise click.UsageError("--follow prints text or json")
    context = context_of(settings)
    if follow:
        return follow_file(context, files[0], terminal, Format(style), tasks=tasks)
    rejections = Rejections()
    runs = grade_files(context, list(files), terminal, rejections)
    return print_runs(runs, rejections, terminal, Format(style), tasks=tasks)


def follow_file(
    context: Context, file: str, terminal: Terminal, style: Format, *, tasks: bool
) -> ExitCode:
    """Prints each run as it ends, and again when a later event changes it.

    Raises:
        KeyboardInterrupt: As it came; what stood open was told.
    """
    renderer = make_renderer(style, colour=terminal.colours_data, tasks=tasks)
    rejections = Rejections()
    tally = Tally()

    def emit(run: GradedRun) -> None:
        view = view_of(run.record, run.tasks)
        tally.add(view)
        terminal.write(renderer.run(view))
        terminal.flush()

    with FileGrader(context, rejections.add, emit) as grader:
        try:
            read_all(grader, [file], terminal, follow=lambda: True)
        finally:
            rejections.tell(terminal)
            totals = tally.totals(rejections)
            terminal.note(f"{totals} ({count_of(grader.events, 'event')} read)")
    return ExitCode.OK
