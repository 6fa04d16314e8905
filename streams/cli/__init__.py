"""The command line: ``pathgate``."""

import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence

import click

from streams.cli.exit_codes import ExitCode, describe, exit_code_of, terminate
from streams.cli.group import Entry, LazyGroup
from streams.cli.terminal import Terminal, abandon_stdout, prepare_streams
from streams.errors import OutputError, PathgateError

__all__ = ["main", "run"]

PROGRAM = "pathgate"
COMPLETION = "_PATHGATE_COMPLETE"

COMMANDS = {
    "replay": Entry("streams.cli.replay:replay", "Grade event logs, with no broker."),
    "demo": Entry("streams.cli.demo:demo", "Grade a bundled sample of runs."),
    "audit": Entry(
        "streams.cli.audit:audit", "Hold a host's own summary against its events."
    ),
    "impact": Entry("streams.cli.impact:impact", "Say what the gate changes."),
    "suites": Entry("streams.cli.suites:suites", "Check and publish suites."),
    "topics": Entry("streams.cli.topics:topics", "Plan, create and check topics."),
    "worker": Entry("streams.cli.worker:worker", "Run the stream processors."),
    "verify": Entry(
        "streams.cli.verify:verify", "Hold what was published against the events."
    ),
    "doctor": Entry("streams.cli.doctor:doctor", "Say what works here and what not."),
    "config": Entry("streams.cli.config:config", "Show settings and their origin."),
}

SHORT_HELP = """\
pathgate grades agent eval runs on the path they took.

  pathgate demo                             a sample, no broker needed
  pathgate replay run.ndjson --suites DIR   grade a log
  pathgate --help                           all commands
"""


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if wanted and not ctx.resilient_parsing:
        from streams.cli.version import pathgate_version  # noqa: PLC0415 - slow import, rarely needed

        click.echo(f"{PROGRAM} {pathgate_version()}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    invoke_without_command=True,
    examples=(
        "pathgate demo",
        "pathgate replay runs.ndjson --suites suites/",
        "pathgate replay runs.ndjson.gz --suites suites/ --format json | jq .summary",
        "pathgate topics create --bootstrap-servers kafka:9092",
        "pathgate config show",
    ),
    codes=describe(*ExitCode),
)
@click.option("--no-color", is_flag=True, help="Never colour the output.")
@click.option(
    "--traceback",
    "shows_traceback",
    is_flag=True,
    help="Show where an internal error came from, in full.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and end.",
)
@click.pass_context
def root(ctx: click.Context, *, no_color: bool, shows_traceback: bool) -> None:
    """Grade agent eval runs on the path they took (OpenWOP RFC 0246)."""
    ctx.obj = Terminal(ctx.obj, no_colour=no_color)
    ctx.meta["shows_traceback"] = shows_traceback
    if ctx.invoked_subcommand is None:
        click.echo(SHORT_HELP, nl=False, err=True)
        ctx.exit(ExitCode.USAGE)


def run(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs one command line.

    Args:
        arguments: Without the program's name.
        env: The environment.

    Returns:
        The exit code; errors were told on stderr.
    """
    try:
        answer = _dispatch(list(arguments), env)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except SystemExit as ended:
        return int(ended.code or 0)
    except BaseException as error:  # noqa: BLE001 - the outermost frame: every error becomes a code
        code = exit_code_of(error)
        _tell(error, code, shows_traceback="--traceback" in arguments)
        return code
    return ExitCode.OK if answer is None else int(answer)


def _dispatch(arguments: list[str], env: Mapping[str, str]) -> int | None:
    if COMPLETION in env:
        # The shell asks for completions; click answers and ends the process.
        root.main(arguments, prog_name=PROGRAM)
    # Not ``main``: it makes 1, which is "not passed", of a closed pipe.
    with root.make_context(PROGRAM, arguments, obj=env) as context:
        answer: int | None = root.invoke(context)
        return answer


def _tell(error: BaseException, code: ExitCode, *, shows_traceback: bool) -> None:
    """Says on stderr what went wrong, without a stack trace."""
    if isinstance(error, BrokenPipeError | OutputError):
        abandon_stdout()
    if code is ExitCode.BROKEN_PIPE:
        return
    if isinstance(error, click.ClickException):
        error.show()
        return
    if code is ExitCode.INTERRUPTED:
        lines = ["interrupted; what was left is not graded"]
    elif code is ExitCode.TERMINATED:
        lines = ["terminated; what was left is not graded"]
    elif code is ExitCode.INTERNAL and shows_traceback:
        traceback.print_exception(error)
        return
    elif isinstance(error, PathgateError):
        lines = str(error).splitlines() or [type(error).__name__]
    else:
        lines = [_internal(error)]
    for line in lines:
        sys.stderr.write(f"{PROGRAM}: {line}\n")
    sys.stderr.flush()


def _internal(error: BaseException) -> str:
    """An internal error in one line; its text may quote an event, so it is not told."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    if isinstance(error, OSError) and error.strerror:
        # The system's own words, which name nothing.
        place += f" ({error.strerror.lower()})"
    return (
        f"internal error: {type(error).__name__}{place}; run it again as"
        f" `{PROGRAM} --traceback ...` and report what it says"
    )


def main() -> None:
    """Runs the command line of this process and ends it."""
    signal.signal(signal.SIGTERM, terminate)
    prepare_streams()
    sys.exit(run(sys.argv[1:], os.environ))
