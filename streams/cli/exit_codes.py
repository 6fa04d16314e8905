"""Every exit code, what it means, and which error ends in which."""

import signal
from enum import IntEnum

import click

from streams.errors import (
    BrokerUnavailableError,
    ConfigurationError,
    InputError,
    OutputError,
)


class ExitCode(IntEnum):
    """What a command ends with; 69, 70 and 78 are those of ``sysexits.h``."""

    OK = 0
    NOT_PASSED = 1
    USAGE = 2
    UNDECIDED = 3
    BROKER = 69
    INTERNAL = 70
    CONFIGURATION = 78
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


MEANINGS = {
    ExitCode.OK: "all passed, or the command did what it was asked",
    ExitCode.NOT_PASSED: "some run did not pass, or a comparison found a difference",
    ExitCode.USAGE: "usage, an input that cannot be read, or an output that cannot"
    " be written",
    ExitCode.UNDECIDED: "undecided: nothing failed, but events were rejected or"
    " nothing was graded",
    ExitCode.BROKER: "no broker answered",
    ExitCode.INTERNAL: "internal error",
    ExitCode.CONFIGURATION: "configuration: settings, suites, topics or rights",
    ExitCode.INTERRUPTED: "interrupted (SIGINT)",
    ExitCode.BROKEN_PIPE: "the reader of the output went away (SIGPIPE)",
    ExitCode.TERMINATED: "terminated (SIGTERM)",
}


class TerminatedError(BaseException):
    """SIGTERM came; unwinds so that temporary files are removed."""


def exit_code_of(error: BaseException) -> ExitCode:
    """The code that a command ends with when ``error`` stops it."""
    by_type: tuple[tuple[type[BaseException], ExitCode], ...] = (
        (click.Abort, ExitCode.INTERRUPTED),
        (KeyboardInterrupt, ExitCode.INTERRUPTED),
        (TerminatedError, ExitCode.TERMINATED),
        (BrokenPipeError, ExitCode.BROKEN_PIPE),
        (click.ClickException, ExitCode.USAGE),
        (InputError, ExitCode.USAGE),
        (OutputError, ExitCode.USAGE),
        (ConfigurationError, ExitCode.CONFIGURATION),
        (BrokerUnavailableError, ExitCode.BROKER),
    )
    for kind, code in by_type:
        if isinstance(error, kind):
            return code
    return ExitCode.INTERNAL


def exit_code_for(*, not_passed: int, undecided: str) -> ExitCode:
    """The code of graded runs: a failure is told before a doubt.

    Args:
        not_passed: Runs that did not pass.
        undecided: Why an all-passed answer would be no answer; empty if it is.
    """
    if not_passed:
        return ExitCode.NOT_PASSED
    return ExitCode.UNDECIDED if undecided else ExitCode.OK


def terminate(_number: int, _frame: object) -> None:
    """Handler of SIGTERM.

    Raises:
        TerminatedError: Always.
    """
    # A second one is not waited out.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise TerminatedError


def describe(*codes: ExitCode) -> str:
    """The codes a command can end with, for its help; signals left out."""
    return "\n".join(f"  {code.value:>3}  {MEANINGS[code]}" for code in codes)
