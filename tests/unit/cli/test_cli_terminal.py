"""Colours and progress: only where somebody looks, and only if wanted."""

import os
import pty
import subprocess
import tempfile
from pathlib import Path

import pytest

from streams.cli.exit_codes import ExitCode
from tests.unit.cli.command import (
    ROOT,
    bad_log,
    clean_env,
    command_of,
    good_log,
    write_log,
    write_suites,
)

RED = b"\x1b[31m"


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    suites = str(write_suites(tmp_path))
    return ["replay", write_log(tmp_path / "a.ndjson", bad_log()), "--suites", suites]


def read_all(descriptor: int) -> bytes:
    """What a pseudo-terminal was written, to its end."""
    data = b""
    while True:
        try:
            block = os.read(descriptor, 65_536)
        except OSError:  # the other side is closed
            return data
        if not block:
            return data
        data += block


def on_terminal(
    arguments: list[str], *, stream: str, **env: str
) -> tuple[int, bytes, bytes]:
    """Runs a command with one of its streams a terminal; that, and the other."""
    ours, theirs = pty.openpty()
    kept = clean_env()
    kept.pop("NO_COLOR", None)
    kept.pop("FORCE_COLOR", None)
    # A file: a pipe that nobody reads meanwhile would fill up.
    with tempfile.TemporaryFile() as beside:
        other = beside.fileno()
        streams = {"stdout": other, "stderr": other, stream: theirs}
        with subprocess.Popen(
            command_of(*arguments),
            cwd=ROOT,
            env=kept | {"TERM": "xterm-256color"} | env,
            stdout=streams["stdout"],
            stderr=streams["stderr"],
        ) as process:
            os.close(theirs)
            seen = read_all(ours)
        os.close(ours)
        beside.seek(0)
        return process.returncode, seen, beside.read()


def test_terminal_gets_colour(arguments: list[str]) -> None:
    """Data on a terminal is coloured, what is piped beside it is not."""
    code, out, err = on_terminal(arguments, stream="stdout")
    assert code == 1
    assert RED + b"NOT PASSED" in out
    assert b"\x1b" not in err


@pytest.mark.parametrize("env", [{"NO_COLOR": "0"}, {"TERM": "dumb"}])
def test_terminal_gets_no_colour_where_it_is_not_wanted(
    arguments: list[str], env: dict[str, str]
) -> None:
    """Any value of NO_COLOR counts, and a dumb terminal knows none."""
    _code, out, _err = on_terminal(arguments, stream="stdout", **env)
    assert b"NOT PASSED" in out
    assert b"\x1b" not in out


def test_flag_switches_colour_off(arguments: list[str]) -> None:
    """The command line goes over FORCE_COLOR."""
    _code, out, _err = on_terminal(
        ["--no-color", *arguments], stream="stdout", FORCE_COLOR="1"
    )
    assert b"\x1b" not in out


def piped(arguments: list[str], **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command_of(*arguments),
        cwd=ROOT,
        env=clean_env(**env),
        capture_output=True,
        check=False,
    )


def test_pipe_gets_no_colour_unless_forced(arguments: list[str]) -> None:
    """A file or another program gets words alone."""
    assert b"\x1b" not in piped(arguments).stdout
    assert RED in piped(arguments, FORCE_COLOR="1").stdout
    assert b"\x1b" not in piped(arguments, FORCE_COLOR="1", NO_COLOR="1").stdout


def test_pipe_gets_no_progress(arguments: list[str]) -> None:
    """Nobody watches: stderr holds messages alone, here none."""
    assert piped(arguments, FORCE_COLOR="1").stderr == b""


def test_terminal_gets_progress_on_stderr(tmp_path: Path) -> None:
    """The bar is drawn beside the data, and taken away at the end."""
    logs = [good_log(f"acme/run-{n:012}") for n in range(3000)]
    file = write_log(tmp_path / "a.ndjson", *logs)
    suites = str(write_suites(tmp_path))
    code, err, out = on_terminal(["replay", file, "--suites", suites], stream="stderr")
    assert code == 0
    assert b"events" in err
    assert out.count(b"PASSED  ") == 3000
    assert b"\x1b" not in out


def test_output_is_utf8_whatever_the_locale(tmp_path: Path) -> None:
    """Names beyond ASCII do not crash a container without a locale."""
    suites = str(write_suites(tmp_path))
    file = write_log(tmp_path / "a.ndjson", good_log("acme/größe-0000000000"))
    done = piped(
        ["replay", file, "--suites", suites],
        LC_ALL="C",
        PYTHONUTF8="0",
        PYTHONCOERCECLOCALE="0",
    )
    assert done.returncode == 0
    assert "acme/größe-0000000000".encode() in done.stdout


def redirected(
    redirect: str, arguments: list[str], folder: Path
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirect}', "sh", *command_of(*arguments)],
        capture_output=True,
        cwd=folder,
        env=clean_env(),
        check=False,
    )


def test_closed_input_is_unreadable(tmp_path: Path) -> None:
    """A service manager may start a command so."""
    suites = str(write_suites(tmp_path))
    done = redirected("<&-", ["replay", "-", "--suites", suites], tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == b"pathgate: -: expected an open standard input\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["demo"],
        ["--help"],
        ["replay", "--help"],
        ["--version"],
        ["config", "show", "--format", "json"],
        ["replay", "a.ndjson", "--suites", "suites", "--format", "junit"],
    ],
)
@pytest.mark.parametrize(
    ("redirect", "why"),
    [(">/dev/full", "no space left on device"), (">&-", "it is closed")],
)
def test_output_that_cannot_be_written_is_told(
    tmp_path: Path, arguments: list[str], redirect: str, why: str
) -> None:
    """A full disk or no output at all: a line and a code, and never a verdict."""
    write_log(tmp_path / "a.ndjson", good_log())
    write_suites(tmp_path)
    done = redirected(redirect, arguments, tmp_path)
    assert done.returncode == ExitCode.USAGE
    line = f"pathgate: cannot write to standard output: {why}\n"
    assert done.stderr.decode() == line


def test_closed_outputs_are_no_verdict(tmp_path: Path) -> None:
    """With nobody to tell, the code remains."""
    log, suites = write_log(tmp_path / "a.ndjson", good_log()), write_suites(tmp_path)
    arguments = ["replay", log, "--suites", str(suites)]
    assert redirected(">&- 2>&-", arguments, tmp_path).returncode == ExitCode.USAGE
    assert redirected("2>&-", arguments, tmp_path).returncode == ExitCode.OK
    # What writes nothing misses no output.
    done = redirected(">&-", ["replay", "none", "--suites", str(suites)], tmp_path)
    assert b"none: expected a readable file" in done.stderr


def test_step_summary_on_a_full_disk_is_told(tmp_path: Path) -> None:
    """The page of a workflow's step is an output too."""
    suites = str(write_suites(tmp_path))
    log = write_log(tmp_path / "a.ndjson", good_log())
    done = piped(
        ["replay", log, "--suites", suites, "--format", "github"],
        GITHUB_STEP_SUMMARY="/dev/full",
    )
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == b"pathgate: GITHUB_STEP_SUMMARY: No space left on device\n"


def test_a_file_name_that_is_no_utf8_is_shown_escaped(tmp_path: Path) -> None:
    """File names are bytes; the output stays UTF-8."""
    suites = write_suites(tmp_path)
    name = os.fsencode(suites / "refunds.json").replace(b"refunds", b"\xff")
    (suites / "refunds.json").rename(os.fsdecode(name))
    done = piped(["suites", "check", str(suites)])
    assert done.returncode == 0
    assert b"\\udcff.json" in done.stdout
