"""``pathgate demo``: a bundled sample of runs, graded end to end."""

from importlib.resources import as_file, files

import click
import msgspec

from streams.cli.exit_codes import ExitCode
from streams.cli.grading import Rejections, context_of, grade_files, print_runs
from streams.cli.group import ExampleCommand
from streams.cli.replay import format_option
from streams.cli.terminal import Terminal
from streams.render import Format
from streams.settings import Settings

STORY = """\
Four runs of two suites. In two of them the agent gave good answers by a wrong path:
a refund without looking at the policy, and tickets closed that nobody may close.
RFC 0244 passed both; the gate does not. Nothing was written, no broker was asked.
The same by hand, which ends with exit code 1 because some run did not pass:
"""


@click.command(
    "demo",
    cls=ExampleCommand,
    codes=(ExitCode.OK, ExitCode.USAGE),
    examples=("pathgate demo", "pathgate demo --format markdown"),
    help="Grade a bundled sample of runs, two of which RFC 0244 passes and the gate"
    " does not. No broker, no arguments; ends with 0.",
)
@format_option()
@click.pass_obj
def demo(terminal: Terminal, *, style: str) -> ExitCode:
    """Grades the sample."""
    with as_file(files("streams").joinpath("sample")) as sample:
        suites, log = str(sample / "suites"), str(sample / "runs.ndjson")
        # The sample's verdicts are its own, whatever the environment says.
        settings = msgspec.structs.replace(Settings(), suites_dir=suites)
        rejections = Rejections()
        runs = grade_files(context_of(settings), [log], terminal, rejections)
        print_runs(runs, rejections, terminal, Format(style))
        terminal.note(f"\n{STORY}  pathgate replay {log} --suites {suites}")
    return ExitCode.OK
