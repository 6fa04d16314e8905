"""``pathgate replay``: verdicts as exit codes, data on stdout alone."""

import gzip
import io
import json
import signal
import time
from pathlib import Path

import pytest
import zstandard

from streams.cli.step_summary import StepSummary
from tests.factories import Log, grade, make_context, make_suite, task
from tests.unit.cli.command import (
    STEPS,
    bad_log,
    call,
    good_log,
    spawn,
    write_log,
    write_suites,
)


@pytest.fixture
def suites(tmp_path: Path) -> str:
    return str(write_suites(tmp_path))


def test_all_passed_is_0(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """One line a run, the totals, nothing on stderr."""
    file = write_log(tmp_path / "a.ndjson", good_log())
    ended = call(capfd, "replay", file, "--suites", suites)
    assert ended == (
        0,
        (
            "PASSED  acme/run-000000000001  acme.evals.refunds@1.0.0  score 0.9  tasks 1/1\n"
            "1 run graded: 1 passed, 0 not passed\n"
        ),
        "",
    )


def test_a_run_that_did_not_pass_is_1(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """One wrong path among good ones is told as such."""
    file = write_log(tmp_path / "a.ndjson", good_log(), bad_log())
    ended = call(capfd, "replay", file, "--suites", suites)
    assert ended.code == 1
    assert "forbidden-tool: call 2 (wire_x) is forbidden by wire_*" in ended.out
    assert ended.out.splitlines()[-1] == (
        "2 runs graded: 1 passed, 1 not passed (RFC 0244 would have passed 1 of them)"
    )


def test_rejected_events_are_undecided(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """A pass that rests on unread lines is 3, and stderr names each line."""
    extra = [b"{", b'{"eventId": 1, "secret": "XYZZY"}']
    file = write_log(tmp_path / "a.ndjson", good_log(), extra=extra)
    first = len(good_log().lines) + 1
    ended = call(capfd, "replay", file, "--suites", suites)
    assert ended.code == 3
    assert ended.out.endswith("undecided: 2 events rejected\n")
    head, *lines = ended.err.splitlines()
    assert head.startswith("2 events rejected: ")
    assert [line.split(": ")[0] for line in lines] == [
        f"  {file}:{first}",
        f"  {file}:{first + 1}",
    ]
    assert "XYZZY" not in ended.err + ended.out


def test_rejections_beyond_the_tenth_are_counted(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """A log of rubbish does not flood the terminal."""
    file = write_log(tmp_path / "a.ndjson", good_log(), extra=[b"{"] * 25)
    ended = call(capfd, "replay", file, "--suites", suites)
    lines = ended.err.splitlines()
    assert len(lines) == 12
    assert lines[-1] == "  and 15 more"


def test_failure_is_told_before_a_doubt(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """Rejected events do not turn a failure into a maybe."""
    file = write_log(tmp_path / "a.ndjson", bad_log(), extra=[b"{"])
    assert call(capfd, "replay", file, "--suites", suites).code == 1


def test_nothing_graded_is_undecided(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """An empty log, or one of ordinary runs, is no pass."""
    ordinary = Log().calls("lookup").end()
    for file in (
        write_log(tmp_path / "empty.ndjson"),
        write_log(tmp_path / "ordinary.ndjson", ordinary),
    ):
        ended = call(capfd, "replay", file, "--suites", suites)
        assert ended == (
            3,
            "0 runs graded: 0 passed, 0 not passed; undecided: nothing was graded\n",
            "",
        )


def test_unreadable_input_is_2(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """A missing file and a broken archive are told in one line, without a trace."""
    broken = tmp_path / "b.ndjson.gz"
    broken.write_bytes(gzip.compress(b"x" * 10_000)[:-20])
    packed = tmp_path / "c.ndjson"
    packed.write_bytes(gzip.compress(b"\n".join(good_log().lines)))
    for file in (str(tmp_path / "none.ndjson"), str(broken), str(packed)):
        ended = call(capfd, "replay", file, "--suites", suites)
        assert ended.code == 2
        (line,) = ended.err.splitlines()
        assert line.startswith(f"pathgate: {file}")


def test_suites_are_needed(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without suites there is nothing to grade against: 78."""
    file = write_log(tmp_path / "a.ndjson", good_log())
    ended = call(capfd, "replay", file)
    assert (ended.code, ended.out) == (78, "")
    assert "--suites DIR" in ended.err


def test_suites_come_from_the_environment_too(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """A setting like any other; the flag goes over it."""
    file = write_log(tmp_path / "a.ndjson", good_log())
    env = {"PATHGATE_SUITES_DIR": suites}
    assert call(capfd, "replay", file, env=env).code == 0
    flags = ("--suites", str(tmp_path / "none"))
    assert call(capfd, "replay", file, *flags, env=env).code == 78


def test_settings_change_the_verdict(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A budget without figures closes the gate, unless it is told not to."""
    suites = str(write_suites(tmp_path, maxCostUsd=1))
    file = write_log(tmp_path / "a.ndjson", good_log())
    assert call(capfd, "replay", file, "--suites", suites).code == 1
    flags = ("--suites", suites, "--missing-budget", "open")
    assert call(capfd, "replay", file, *flags).code == 0


@pytest.mark.parametrize("kind", ["plain", "gz", "zst", "stdin"])
def test_log_is_read_from_anywhere(
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    suites: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """Plain, compressed and piped logs give the same output."""
    plain = tmp_path / "a.ndjson"
    file = write_log(plain, good_log())
    expected = call(capfd, "replay", file, "--suites", suites)
    if kind == "gz":
        file = f"{plain}.gz"
        Path(file).write_bytes(gzip.compress(plain.read_bytes()))
    elif kind == "zst":
        file = f"{plain}.zst"
        packed = zstandard.ZstdCompressor().compress(plain.read_bytes())
        Path(file).write_bytes(packed)
    elif kind == "stdin":
        file = "-"
        piped = io.TextIOWrapper(io.BytesIO(plain.read_bytes()))
        monkeypatch.setattr("sys.stdin", piped)
    assert call(capfd, "replay", file, "--suites", suites) == expected


def test_json_is_the_records_bytes(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """Stdout holds the very bytes that the worker publishes; totals go to stderr."""
    context = make_context(make_suite(task("refund", STEPS), passScore=0.7))
    records = [line.decode() for line in grade(good_log(), context).raw]
    file = write_log(tmp_path / "a.ndjson", good_log())
    arguments = ("replay", file, "--suites", suites, "--format", "json")
    ended = call(capfd, *arguments)
    assert ended.out.splitlines() == records[:1]
    assert ended.err == "1 run graded: 1 passed, 0 not passed\n"
    assert call(capfd, *arguments, "--tasks").out.splitlines() == records


@pytest.mark.parametrize("style", ["text", "json", "markdown", "junit", "github"])
def test_exit_code_is_the_formats_no_matter(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str, style: str
) -> None:
    """However it is written, the verdict is the same."""
    good = write_log(tmp_path / "a.ndjson", good_log())
    bad = write_log(tmp_path / "b.ndjson", bad_log())
    flags = ("--suites", suites, "--format", style)
    assert call(capfd, "replay", good, *flags).code == 0
    assert call(capfd, "replay", bad, *flags).code == 1
    assert call(capfd, "replay", good, bad, *flags).code == 1


def test_step_summary_is_appended(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """In a workflow the page of the step gets the tables, after what was there."""
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    file = write_log(tmp_path / "a.ndjson", bad_log())
    env = {"GITHUB_STEP_SUMMARY": str(page)}
    flags = ("--suites", suites, "--format", "github")
    ended = call(capfd, "replay", file, *flags, env=env)
    assert ended.code == 1
    assert ended.out.startswith("::error ")
    text = page.read_text()
    assert text.startswith("before\n### NOT PASSED: acme/run-000000000002\n")
    assert text.endswith(
        "**1 run graded: 0 passed, 1 not passed"
        " (RFC 0244 would have passed 1 of them)**\n"
    )
    # Other formats write no page.
    call(capfd, "replay", file, "--suites", suites, env=env)
    assert page.read_text() == text


def test_step_summary_keeps_to_its_room(
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    suites: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page that GitHub would drop as a whole is cut, and says so."""
    monkeypatch.setattr(StepSummary, "MAX_BYTES", 1000)
    page = tmp_path / "summary.md"
    logs = [bad_log(f"acme/run-{n:012}") for n in range(5)]
    file = write_log(tmp_path / "a.ndjson", *logs)
    flags = ("--suites", suites, "--format", "github")
    call(capfd, "replay", file, *flags, env={"GITHUB_STEP_SUMMARY": str(page)})
    text = page.read_text()
    shown = text.count("### ")
    assert 0 < shown < 5
    assert f"{5 - shown} further runs left out: no room." in text


def test_content_reaches_no_output(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Arguments of a call are compared and never shown."""
    steps = {"steps": [{"tool": "refund", "args": {"who": "expected-XYZZY"}}]}
    suites = write_suites(tmp_path)
    document = json.loads((suites / "refunds.json").read_text())
    document["tasks"] = [task("refund", steps)]
    (suites / "refunds.json").write_text(json.dumps(document))
    log = Log().start().call("refund", {"who": "observed-XYZZY"}).score("refund", 1)
    file = write_log(tmp_path / "a.ndjson", log.completed(1))
    for style in ("text", "json", "markdown", "junit", "github"):
        flags = ("--suites", str(suites), "--format", style, "--tasks")
        ended = call(capfd, "replay", file, *flags)
        assert ended.code == 1
        assert "XYZZY" not in ended.out + ended.err


# ---------------------------------------------------------------------- follow


@pytest.mark.parametrize(
    "arguments",
    [("-", "--follow"), ("a", "b", "--follow"), ("a", "--follow", "--format", "junit")],
)
def test_follow_takes_one_growing_file(
    capfd: pytest.CaptureFixture[str], suites: str, arguments: tuple[str, ...]
) -> None:
    """What cannot be followed is refused as usage."""
    assert call(capfd, "replay", *arguments, "--suites", suites).code == 2


def test_follow_prints_runs_as_they_end(tmp_path: Path, suites: str) -> None:
    """A run is printed when it ends, and again when a late call changes it."""
    file = tmp_path / "a.ndjson"
    file.write_bytes(b"")
    process = spawn(
        ["replay", str(file), "--suites", suites, "--follow", "--format", "json"]
    )
    late = Log(first=2).call("wire_x", event_id="evt-late-0000000001")
    log = Log().start()
    log.next = 3
    log.calls("lookup", "refund").score("refund", 0.9).completed(0.9)
    with process:
        assert process.stdout is not None
        with file.open("ab", buffering=0) as growing:
            growing.write(b"".join(line + b"\n" for line in log.lines))
            first = json.loads(process.stdout.readline())
            growing.write(late.lines[0] + b"\n")
            deadline_s = time.monotonic() + 20
            # A late call is folded in; the next end of its run prints it.
            growing.write(log.lines[-1] + b"\n")
            second = json.loads(process.stdout.readline())
            assert time.monotonic() < deadline_s
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=30)
    assert (first["summary"]["passed"], second["summary"]["passed"]) == (True, False)
    assert process.returncode == 130
    assert err.decode().splitlines() == [
        (
            "1 run graded: 0 passed, 1 not passed (RFC 0244 would have passed 1 of them)"
            " (7 events read)"
        ),
        "pathgate: interrupted; what was left is not graded",
    ]
