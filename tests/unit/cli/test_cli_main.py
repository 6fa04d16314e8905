"""The command line as a whole: help, errors, exit codes, signals, import cost."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from streams.cli import COMMANDS, run
from streams.cli.exit_codes import MEANINGS, ExitCode, TerminatedError, exit_code_of
from streams.cli.group import Entry
from streams.errors import (
    AccessDeniedError,
    BrokerUnavailableError,
    ConfigurationError,
    InputError,
    OutputError,
    PathgateError,
)
from streams.settings import SettingsError
from streams.suites import SuitesError
from streams.topics import TopicsError
from tests.unit.cli.command import (
    ROOT,
    call,
    clean_env,
    command_of,
    good_log,
    spawn,
    write_log,
    write_suites,
)

LEAVES = [
    ("replay",),
    ("demo",),
    ("audit",),
    ("impact",),
    ("suites", "check"),
    ("suites", "publish"),
    ("topics", "plan"),
    ("topics", "create"),
    ("topics", "check"),
    ("worker",),
    ("verify",),
    ("doctor",),
    ("config", "show"),
    ("config", "schema"),
]


@pytest.mark.parametrize("leaf", LEAVES)
def test_command_has_help_with_examples_and_codes(
    capfd: pytest.CaptureFixture[str], leaf: tuple[str, ...]
) -> None:
    """Each can be looked up, and says how it is used and what it ends with."""
    for flag in ("--help", "-h"):
        ended = call(capfd, *leaf, flag)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith(f"Usage: pathgate {' '.join(leaf)} ")
        assert f"\nExamples:\n  pathgate {leaf[0]}" in ended.out
        assert "\nExit codes:\n    0  " in ended.out
        assert "\n    2  usage" in ended.out


def test_every_command_is_listed(capfd: pytest.CaptureFixture[str]) -> None:
    """The list, the table of exit codes, and nothing on stderr."""
    ended = call(capfd, "--help")
    assert (ended.code, ended.err) == (0, "")
    for name, entry in COMMANDS.items():
        assert f"  {name}" in ended.out
        assert entry.summary in ended.out
    for code, meaning in MEANINGS.items():
        assert f"{code.value:>5}  {meaning}" in ended.out
    assert {leaf[0] for leaf in LEAVES} == set(COMMANDS)


def test_no_arguments_give_short_help(capfd: pytest.CaptureFixture[str]) -> None:
    """A few lines on stderr, and no script takes it for a success."""
    ended = call(capfd)
    assert (ended.code, ended.out) == (2, "")
    assert "pathgate demo" in ended.err
    assert len(ended.err.splitlines()) < 10


def test_version_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    """One line, on stdout."""
    ended = call(capfd, "--version")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("pathgate ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["repaly"], "No such command 'repaly'. Did you mean 'replay'?"),
        (["topics", "chekc"], "No such command 'chekc'. Did you mean 'check'?"),
        (["xyzzy"], "No such command 'xyzzy'."),
        (
            ["replay", "--sutes", "x"],
            "No such option: --sutes (Possible options: --suites",
        ),
        (["replay", "--suites", "x"], "give FILE..., or --from-topics alone"),
        (["demo", "--format", "yaml"], "'yaml' is not one of 'text'"),
        (["topics"], "Commands:\n  plan    "),
    ],
)
def test_misspelling_is_answered_with_what_was_meant(
    capfd: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    """Usage errors are 2, on stderr, with the nearest name."""
    ended = call(capfd, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert expected in ended.err
    assert "Traceback" not in ended.err


# ------------------------------------------------------------------ exit codes


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (click.UsageError("x"), 2),
        (InputError("x"), 2),
        (OutputError("x"), 2),
        (BrokerUnavailableError("x"), 69),
        (ConfigurationError("x"), 78),
        (SettingsError(("x",)), 78),
        (SuitesError(("x",)), 78),
        (TopicsError(()), 78),
        (AccessDeniedError("x"), 78),
        (PathgateError("x"), 70),
        (ZeroDivisionError("x"), 70),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (BrokenPipeError(), 141),
        (TerminatedError(), 143),
    ],
)
def test_error_has_its_code(error: BaseException, code: int) -> None:
    """One table decides what a command ends with."""
    assert exit_code_of(error) == code


def test_every_code_has_a_meaning() -> None:
    """None is printed that is not explained."""
    assert set(MEANINGS) == set(ExitCode)


class _Fail:
    """A command that fails with whatever it is given."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self) -> None:
        raise self.error


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    command = click.Command("fail", callback=_Fail(error))
    monkeypatch.setattr(sys.modules[__name__], "FAILING", command, raising=False)
    monkeypatch.setitem(COMMANDS, "fail", Entry(f"{__name__}:FAILING", "Fails."))


def test_internal_error_is_one_line_without_its_text(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text may quote an event; type, place and a hint are enough."""
    fail_with(monkeypatch, ValueError("the customer said XYZZY"))
    ended = call(capfd, "fail")
    assert (ended.code, ended.out) == (70, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("pathgate: internal error: ValueError at ")
    assert "pathgate --traceback" in line
    assert "XYZZY" not in ended.err


def test_internal_error_is_shown_in_full_when_asked_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for the trace gets it."""
    fail_with(monkeypatch, ValueError("XYZZY"))
    ended = call(capfd, "--traceback", "fail")
    assert ended.code == 70
    assert "Traceback" in ended.err
    assert "ValueError: XYZZY" in ended.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("a.ndjson: expected a readable file"), 2),
        (ConfigurationError("a: one\nb: two"), 78),
        (BrokerUnavailableError("127.0.0.1:9092: refused"), 69),
    ],
)
def test_error_of_the_user_is_told_line_by_line(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: PathgateError,
    code: int,
) -> None:
    """Its own text and nothing else, even with --traceback."""
    fail_with(monkeypatch, error)
    told = "".join(f"pathgate: {line}\n" for line in str(error).splitlines())
    assert call(capfd, "fail") == (code, "", told)
    assert call(capfd, "--traceback", "fail") == (code, "", told)


# ------------------------------------------------------- a process of its own


def test_help_imports_no_engine() -> None:
    """The command line answers before Faust, aiokafka or msgspec are loaded."""
    script = (
        "import sys\nfrom streams.cli import run\nrun(['--help'], {})\n"
        "print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=clean_env(),
    )
    loaded = set(done.stderr.split())
    heavy = {"faust", "aiokafka", "rocksdict", "prometheus_client", "msgspec", "rich"}
    assert heavy & loaded == set()
    assert "streams.cli" in loaded


def test_terminated_command_removes_its_files(tmp_path: Path) -> None:
    """SIGTERM ends with 143, unwinds, and says that the rest is not graded."""
    suites = write_suites(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = spawn(
        ["replay", "-", "--suites", str(suites)],
        stdin=subprocess.PIPE,
        env=clean_env(TMPDIR=str(scratch)),
    )
    with process:
        # The pipe is full once the reader has taken what fits, so that the
        # process is in the midst of reading.
        assert process.stdin is not None
        process.stdin.write(b"\n" * 200_000)
        process.stdin.flush()
        process.send_signal(signal.SIGTERM)
        _out, err = process.communicate(timeout=30)
    assert process.returncode == 143
    assert err.decode() == "pathgate: terminated; what was left is not graded\n"
    assert list(scratch.iterdir()) == []


def test_closed_pipe_is_no_verdict(tmp_path: Path) -> None:
    """``| head`` ends the command with 141, never with 0 or 1, and in silence."""
    suites = write_suites(tmp_path)
    logs = [good_log(f"acme/run-{n:012}") for n in range(3000)]
    file = write_log(tmp_path / "a.ndjson", *logs)
    process = spawn(["replay", file, "--suites", str(suites)])
    with process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        process.wait(timeout=60)
    assert (process.returncode, err) == (141, b"")


def test_program_ends_with_the_code(tmp_path: Path) -> None:
    """What ``run`` returns is what the process ends with."""
    for arguments, code in (
        (["demo"], 0),
        (["nothing"], 2),
        (["config", "show", "--web-port", "x"], 78),
    ):
        done = subprocess.run(
            command_of(*arguments),
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env=clean_env(),
        )
        assert done.returncode == code


def test_shell_completion_is_answered() -> None:
    """The shell can ask for the commands."""
    env = clean_env(
        _PATHGATE_COMPLETE="bash_complete", COMP_WORDS="pathgate re", COMP_CWORD="1"
    )
    done = subprocess.run(
        command_of(), capture_output=True, text=True, check=False, cwd=ROOT, env=env
    )
    assert "replay" in done.stdout
    assert done.stderr == ""


def test_unknown_setting_in_the_environment_stops_a_command(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A misspelt variable is not ignored."""
    ended = call(capfd, "topics", "plan", env={"PATHGATE_PARTITION": "12"})
    assert ended == (
        78,
        "",
        (
            "pathgate: PATHGATE_PARTITION: no such setting"
            " (did you mean PATHGATE_PARTITIONS?)\n"
        ),
    )


def test_exit_code_is_a_plain_number() -> None:
    """``sys.exit`` takes it as it is."""
    assert run(["demo", "--help"], dict(os.environ)) == 0
