"""``audit``, ``suites check``, ``topics plan``, ``demo``: what needs no broker."""

import json
import shlex
from pathlib import Path

import pytest

from streams.settings import Settings
from streams.topics import table_from
from tests.factories import Log, task
from tests.unit.cli.command import bad_log, call, good_log, write_log, write_suites


@pytest.fixture
def suites(tmp_path: Path) -> str:
    return str(write_suites(tmp_path))


def host_summary(path: Path, **changes: object) -> str:
    """The scorecard of ``good_log``, with what a host might say instead.

    One task with score 0.9 on its path: aggregate and gate are 0.9.
    """
    summary: dict[str, object] = {
        "suiteId": "acme.evals.refunds",
        "suiteVersion": "1.0.0",
        "aggregateScore": 0.9,
        "passed": True,
        "taskCount": 1,
        "passedCount": 1,
        "tasks": [
            {"taskId": "refund", "score": 0.9, "passed": True, "gatedScore": 0.9}
        ],
        "gatedAggregateScore": 0.9,
    }
    path.write_text(json.dumps(summary | changes))
    return str(path)


# ----------------------------------------------------------------------- audit


def test_audit_of_a_host_that_agrees_is_0(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """Said in a word."""
    file = write_log(tmp_path / "a.ndjson", good_log())
    summary = host_summary(tmp_path / "host.json")
    ended = call(capfd, "audit", file, "--suites", suites, "--summary", summary)
    assert ended == (0, "acme/run-000000000001: agrees\n", "")


def test_audit_of_a_host_without_the_gate_is_1(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """The scorecard of RFC 0244 for a run off its path, point for point."""
    file = write_log(tmp_path / "a.ndjson", bad_log())
    tasks = [{"taskId": "refund", "score": 0.9, "passed": True}]
    summary = host_summary(tmp_path / "host.json", tasks=tasks)
    flags = ("--suites", suites, "--summary", summary)
    ended = call(capfd, "audit", file, *flags)
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert lines[0] == (
        "summary: suite-passed-ungated: the host says passed, the events say not passed"
    )
    assert (
        "summary: gated-score-missing: task refund: the host says nothing,"
        " the events say 0"
    ) in lines
    assert (
        "events: trial-passed-off-path: task refund: the host passed trial 1 off the"
        " expected path"
    ) in lines
    assert lines[-1].endswith(f": {len(lines) - 1} disagreements")
    told = json.loads(call(capfd, "audit", file, *flags, "--format", "json").out)
    assert told["runId"] == "acme/run-000000000002"
    assert len(told["summary"]) + len(told["events"]) == len(lines) - 1


def test_audit_names_the_counts_that_differ(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """Of tasks and tasks passed, in the scorecard and in the events alike."""
    log = Log(run="acme/run-1").start().calls("lookup", "refund").score("refund", 0.9)
    file = write_log(tmp_path / "a.ndjson", log.completed(0.9, tasks=2).end())
    summary = host_summary(tmp_path / "host.json", taskCount=3, passedCount=0)
    ended = call(capfd, "audit", file, "--suites", suites, "--summary", summary)
    assert ended.out.splitlines() == [
        "summary: counts-differ: taskCount: the host says 3, the events say 1",
        "summary: counts-differ: passedCount: the host says 0, the events say 1",
        "events: counts-differ: taskCount: the host says 2, the events say 1",
        "acme/run-1: 3 disagreements",
    ]


def test_audit_of_a_forged_scorecard_is_1(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """Of another version, with costs that no event tells, for the run asked for."""
    file = write_log(tmp_path / "a.ndjson", good_log(), bad_log())
    entry = {"taskId": "refund", "score": 0.9, "passed": True, "gatedScore": 0.9}
    summary = host_summary(
        tmp_path / "host.json",
        suiteVersion="2.0.0",
        totalCostUsd=0.5,
        tasks=[entry | {"latencyMs": 7}],
    )
    flags = ("--suites", suites, "--summary", summary, "--run")
    ended = call(capfd, "audit", file, *flags, "acme/run-000000000001")
    assert (ended.code, ended.err) == (1, "")
    said = [
        line.removeprefix("summary: field-differs: ") for line in ended.out.splitlines()
    ]
    assert said == [
        "suiteVersion: the host says 2.0.0, the events say 1.0.0",
        "totalCostUsd: the host says 0.5, the events say nothing",
        "task refund: latencyMs: the host says 7, the events say nothing",
        "acme/run-000000000001: 3 disagreements",
    ]


def test_audit_over_rejected_events_is_undecided(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """Agreement that rests on unread lines is none."""
    file = write_log(tmp_path / "a.ndjson", good_log(), extra=[b"{"])
    summary = host_summary(tmp_path / "host.json")
    ended = call(capfd, "audit", file, "--suites", suites, "--summary", summary)
    assert ended.code == 3
    assert ended.err.startswith("1 event rejected: ")


def test_audit_asks_which_of_several_runs(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """A scorecard names no run, so that it is not guessed."""
    file = write_log(tmp_path / "a.ndjson", good_log(), bad_log())
    flags = ("--suites", suites, "--summary", host_summary(tmp_path / "host.json"))
    ended = call(capfd, "audit", file, *flags)
    assert ended.code == 2
    assert "holds 2 runs of acme.evals.refunds@1.0.0: give --run" in ended.err
    assert (
        call(capfd, "audit", file, *flags, "--run", "acme/run-000000000001").code == 0
    )
    assert (
        call(capfd, "audit", file, *flags, "--run", "acme/run-000000000002").code == 1
    )
    assert call(capfd, "audit", file, *flags, "--run", "acme/none").code == 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "$: expected one JSON document"),
        ("{}", "expected"),
    ],
)
def test_audit_of_no_scorecard_is_2(
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    suites: str,
    content: str | None,
    expected: str,
) -> None:
    """The file is named."""
    file = write_log(tmp_path / "a.ndjson", good_log())
    summary = tmp_path / "host.json"
    if content is not None:
        summary.write_text(content)
    flags = ("--suites", suites, "--summary", str(summary))
    ended = call(capfd, "audit", file, *flags)
    assert ended.code == 2
    assert ended.err.startswith(f"pathgate: {summary}: ")
    assert expected in ended.err


def test_audit_of_another_suite_is_2(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """A scorecard of a suite that no run is of."""
    file = write_log(tmp_path / "a.ndjson", good_log())
    summary = host_summary(tmp_path / "host.json", suiteVersion="2.0.0")
    ended = call(capfd, "audit", file, "--suites", suites, "--summary", summary)
    assert ended.code == 2
    assert ended.err == (
        f"pathgate: {file}: the log holds no run of acme.evals.refunds@2.0.0, which"
        " the summary names; its runs are of acme.evals.refunds@1.0.0\n"
    )


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            (),
            (
                "expected eval.started of acme.evals.refunds@1.0.0, which the summary"
                " names; no run of the log has eval.started or eval.scored, and nothing"
                " else can be graded"
            ),
        ),
        (
            ("--run", "acme/run-1"),
            (
                "--run: expected eval.started or eval.scored of 'acme/run-1': the log"
                " holds neither"
            ),
        ),
    ],
)
def test_audit_of_a_bare_verdict_says_what_was_expected(
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    suites: str,
    flags: tuple[str, ...],
    expected: str,
) -> None:
    """``eval.completed`` alone is the host's word, with no event to hold it against."""
    file = write_log(tmp_path / "a.ndjson", Log(run="acme/run-1").completed(0.9))
    summary = host_summary(tmp_path / "host.json")
    ended = call(capfd, "audit", file, "--suites", suites, "--summary", summary, *flags)
    assert ended == (2, "", f"pathgate: {file}: {expected}\n")


def test_audit_of_a_run_without_its_start_says_so(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """Which suite a run is of stands in ``eval.started`` alone."""
    log = Log(run="acme/run-1").score("refund", 0.9).completed(0.9)
    file = write_log(tmp_path / "a.ndjson", log)
    summary = host_summary(tmp_path / "host.json")
    ended = call(capfd, "audit", file, "--suites", suites, "--summary", summary)
    assert ended.code == 2
    assert ended.err.endswith("names; none of its runs has eval.started\n")


def test_audit_of_a_rejected_start_tells_the_line(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """Why a log has nothing to audit may lie in the lines that were left out."""
    file = write_log(tmp_path / "a.ndjson", extra=[b"{"])
    summary = host_summary(tmp_path / "host.json")
    ended = call(capfd, "audit", file, "--suites", suites, "--summary", summary)
    assert ended.code == 2
    assert f"  {file}:1: $: " in ended.err


# ---------------------------------------------------------------------- impact


def test_impact_names_what_the_gate_changes(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """Of a good and a bad run with one score, RFC 0244 passes both, the gate one.

    The bad trial counts 0 in the gate: its run's gated score is 0. Its task's
    rule is ``all``, which RFC 0244 decides by the host's verdict alone.
    """
    file = write_log(tmp_path / "a.ndjson", good_log(), bad_log())
    ended = call(capfd, "impact", file, "--suites", suites)
    assert ended.code == 1
    head, *_tasks, runs, tasks, trials = ended.out.splitlines()
    assert head == (
        "acme/run-000000000002  passes no longer  score 0.9, in the gate 0"
        "  below-pass-score"
    )
    assert runs == "2 runs: 2 passed by RFC 0244, 1 by RFC 0246"
    assert tasks.startswith("2 tasks: ")
    assert trials == "2 trials: 1 off path"
    told = json.loads(
        call(capfd, "impact", file, "--suites", suites, "--format", "json").out
    )
    assert told["runs"] == {"graded": 2, "passedByRfc0244": 2, "passed": 1}
    assert told["changed"][0] == {
        "runId": "acme/run-000000000002",
        "suite": "acme.evals.refunds@1.0.0",
        "taskId": None,
        "score": 0.9,
        "gatedScore": 0.0,
        "passed": False,
        "reasons": ["below-pass-score"],
    }


def test_impact_of_nothing(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """No change is 0; nothing graded, or unread lines, are no answer."""
    good = write_log(tmp_path / "a.ndjson", good_log())
    assert call(capfd, "impact", good, "--suites", suites).code == 0
    empty = write_log(tmp_path / "b.ndjson")
    assert call(capfd, "impact", empty, "--suites", suites).code == 3
    broken = write_log(tmp_path / "c.ndjson", good_log(), extra=[b"{"])
    ended = call(capfd, "impact", broken, "--suites", suites)
    assert (ended.code, ended.err.split(":")[0]) == (3, "1 event rejected")


def test_impact_without_the_suites_is_no_answer(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """A wrong directory is 3 and named, not a gate that changes nothing."""
    other = Log(run="acme/run-000000000003").start(suite_id="acme.evals.other").end()
    headless = Log(run="acme/run-000000000004").score("refund", 1).end()
    lost = write_log(tmp_path / "a.ndjson", good_log(), other, other, headless)
    ended = call(capfd, "impact", lost, "--suites", suites)
    assert (ended.code, ended.err) == (
        3,
        "2 runs not compared: not among the suites: acme.evals.other@1.0.0\n",
    )
    told = json.loads(
        call(capfd, "impact", lost, "--suites", suites, "--format", "json").out
    )
    assert told["uncomparedRuns"] == 2
    assert told["unknownSuites"] == ["acme.evals.other@1.0.0"]
    alone = write_log(tmp_path / "b.ndjson", headless)
    ended = call(capfd, "impact", alone, "--suites", suites)
    assert (ended.code, ended.err) == (
        3,
        "1 run not compared: no eval.started names a suite\n",
    )
    changed = write_log(tmp_path / "c.ndjson", bad_log(), other)
    assert call(capfd, "impact", changed, "--suites", suites).code == 1


def test_impact_of_missing_evidence_is_none(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """A run closed for a call that cannot be read: no trial was off its path."""
    log = good_log()
    damaged = log.lines[1].replace(b'"toolName":"lookup"', b'"toolName":7')
    file = write_log(tmp_path / "a.ndjson", log, extra=[damaged])
    ended = call(capfd, "impact", file, "--suites", suites)
    assert ended.out.splitlines() == [
        "1 run: 0 passed by RFC 0244, 0 by RFC 0246",
        "1 task: 1 passed by RFC 0244, 1 by RFC 0246",
        "1 trial: 0 off path",
    ]
    # Rejected events leave it undecided.
    assert ended.code == 3


# ---------------------------------------------------------------------- suites


def test_suites_check_lists_what_is_gated(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """How many tasks have an expectation shows a gate that gates nothing."""
    file = str(tmp_path / "suites" / "refunds.json")
    ended = call(capfd, "suites", "check", suites)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.split("  ") == [
        "acme.evals.refunds@1.0.0",
        "1 task",
        "1 with an expectation",
        "1 trial",
        f"{file}\n",
    ]
    told = json.loads(call(capfd, "suites", "check", suites, "--format", "json").out)
    assert told == [
        {
            "suite": "acme.evals.refunds@1.0.0",
            "file": file,
            "tasks": 1,
            "expectations": 1,
            "trials": 1,
            "passRule": "all",
            "passScore": 0.7,
        }
    ]


def test_suites_check_tells_every_error(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """78, one line an error, with file and JSON path."""
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text('{"suiteId": 1}')
    ended = call(capfd, "suites", "check", str(tmp_path))
    assert (ended.code, ended.out) == (78, "")
    first, second = ended.err.splitlines()
    assert first.startswith(f"pathgate: {tmp_path / 'a.json'}: $: ")
    assert second.startswith(f"pathgate: {tmp_path / 'b.json'}: $.")


def test_suites_check_doubts_white_space_around_names(
    capfd: pytest.CaptureFixture[str], suites: str
) -> None:
    """Names are literal, so it is allowed, and warned of with its place."""
    file = Path(suites) / "refunds.json"
    document = json.loads(file.read_text())
    trajectory = {
        "steps": [{"tool": "look up"}, {"tool": ["a", " b"]}],
        "forbidden": ["rm ", "wire *", "rm", "fs_*"],
        "maxCallsPerTool": {"a\t": 1},
    }
    document["tasks"] = [task("t"), task("refund", trajectory)]
    file.write_text(json.dumps(document))
    ended = call(capfd, "suites", "check", suites)
    assert (ended.code, len(ended.out.splitlines())) == (0, 1)
    head = f"pathgate: warning: {file}: $.tasks[1].expected.trajectory."
    tail = ": white space around a tool's name is taken literally"
    assert [
        line.removeprefix(head).removesuffix(tail) for line in ended.err.splitlines()
    ] == ["steps[1].tool[1]", "forbidden[0]", "forbidden[1]", r'maxCallsPerTool["a\t"]']


def test_suites_check_tells_what_it_skips(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, suites: str
) -> None:
    """What is loaded stays; hidden files and other things are no suites."""
    folder = Path(suites)
    (folder / "more" / "deep").mkdir(parents=True)
    (folder / "more" / "deep" / "a.json").write_text("{}")
    (folder / "Old.JSON").write_text("{}")
    for name in ("empty", "notes", "..2026_01_01"):
        (folder / name).mkdir()
    (folder / "notes" / "a.md").write_text("")
    (folder / "..2026_01_01" / "a.json").write_text("{}")
    (folder / ".draft.JSON").write_text("{}")
    ended = call(capfd, "suites", "check", suites)
    assert ended.code == 0
    assert len(ended.out.splitlines()) == 1
    told = [
        f"{folder / 'Old.JSON'}: skipped: expected a name that ends in .json",
        f"{folder / 'more'}: skipped: a directory below is not looked into",
    ]
    assert ended.err.splitlines() == [f"pathgate: warning: {line}" for line in told]
    # With nothing else there they are why.
    (folder / "refunds.json").unlink()
    ended = call(capfd, "suites", "check", suites)
    assert (ended.code, ended.err.count(": skipped: ")) == (78, 2)
    none = str(tmp_path / "none")
    ended = call(capfd, "suites", "check", none)
    assert (ended.code, len(ended.err.splitlines())) == (78, 1)


# ---------------------------------------------------------------------- topics


def test_topics_plan_prints_table_and_commands(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """One row and one command a topic, the command with all its settings."""
    ended = call(capfd, "topics", "plan", "--partitions", "12")
    assert (ended.code, ended.err) == (0, "")
    table = table_from(Settings.load({"partitions": 12}, {}))
    text, commands = ended.out.split("\n\n")
    assert [row.split()[0] for row in text.splitlines()[1:]] == [s.name for s in table]
    for spec, line in zip(table, commands.splitlines(), strict=True):
        words = shlex.split(line)
        assert words[:3] == ["kafka-topics.sh", "--bootstrap-server", "127.0.0.1:9092"]
        assert words[words.index("--topic") + 1] == spec.name
        assert words[words.index("--partitions") + 1] == str(spec.partitions)
        given = {words[at + 1] for at, word in enumerate(words) if word == "--config"}
        assert given == {f"{name}={value}" for name, value in spec.configs.items()}
    assert ended.out.count("--partitions 12") == len(table) - 1


def test_topics_plan_as_json_and_by_role(capfd: pytest.CaptureFixture[str]) -> None:
    """The same table for programs; a role narrows it."""
    told = json.loads(call(capfd, "topics", "plan", "--format", "json").out)
    names = [spec.name for spec in table_from(Settings.load({}, {}))]
    assert [row["name"] for row in told] == names
    flags = ("--format", "json", "--role", "internal")
    told = json.loads(call(capfd, "topics", "plan", *flags).out)
    assert [row["name"] for row in told] == names[-2:]


def test_topics_that_clash_are_78(capfd: pytest.CaptureFixture[str]) -> None:
    """Told before any broker is asked."""
    ended = call(capfd, "topics", "plan", "--topic-gate-alert", "eval.scored")
    assert ended.code == 78
    assert "give topic_gate_alert another name" in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "check"),
        ("topics", "create"),
        ("suites", "publish", "{suites}"),
        ("verify",),
        ("replay", "--from-topics"),
    ],
)
def test_unreachable_broker_is_69(
    capfd: pytest.CaptureFixture[str], suites: str, arguments: tuple[str, ...]
) -> None:
    """The address and the reason in one line, and no trace."""
    words = [word.format(suites=suites) for word in arguments]
    # Port 1 of loopback: nothing listens on tcpmux here.
    ended = call(capfd, *words, "--bootstrap-servers", "127.0.0.1:1")
    assert (ended.code, ended.out) == (69, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("pathgate: 127.0.0.1:1: ")


# ------------------------------------------------------------------------ demo


def test_demo_shows_what_the_gate_changes(capfd: pytest.CaptureFixture[str]) -> None:
    """Two of four runs are passed by RFC 0244 and closed by the gate."""
    ended = call(capfd, "demo")
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == (
        "4 runs graded: 2 passed, 2 not passed (RFC 0244 would have passed 2 of them)"
    )
    assert ended.out.count("RFC 0244 would have passed this run") == 2


def test_demo_can_be_done_by_hand(capfd: pytest.CaptureFixture[str]) -> None:
    """The command it names prints the same, and ends with 1."""
    demo = call(capfd, "demo")
    words = shlex.split(demo.err.splitlines()[-1])
    assert words[0] == "pathgate"
    ended = call(capfd, *words[1:])
    assert (ended.code, ended.out) == (1, demo.out)


def test_demo_is_the_same_everywhere(capfd: pytest.CaptureFixture[str]) -> None:
    """Settings of the environment do not change the sample's verdicts."""
    env = {"PATHGATE_AGGREGATION": "min", "PATHGATE_SUITES_DIR": "/nowhere"}
    assert call(capfd, "demo", env=env).out == call(capfd, "demo").out
