"""The formats of CI: valid whatever tools are called, and never falsely green."""

from xml.etree import ElementTree as ET

import pytest

from streams.render import Format, RunView, Totals, make_renderer, view_of
from streams.render.github import MAX_ANNOTATIONS
from tests.factories import Log, grade, make_context, task
from tests.unit.render.views import STEPS, changed_run, passed_run, totals, view

# What would end an attribute, a cell, a line, a command or a document.
HOSTILE = "wire_<b>&\"'|`\n::error::\x00\x1b\uffff%0A]]>"


def render(style: Format, *views: RunView, end: Totals | None = None) -> str:
    renderer = make_renderer(style)
    body = "".join(renderer.run(one) for one in views)
    return renderer.start() + body + renderer.end(end or totals())


# ------------------------------------------------------------------------ json


@pytest.mark.parametrize("tasks", [True, False])
def test_json_is_the_published_bytes(tasks: bool) -> None:  # noqa: FBT001 - a test's parameter
    """One line a record, byte for byte what the worker publishes."""
    log = Log().start().calls("lookup", "refund").score("refund", 0.9).completed(0.9)
    suite = view(log, task("refund", STEPS), passScore=0.7)
    renderer = make_renderer(Format.JSON, tasks=tasks)
    lines = renderer.run(suite).encode().splitlines()
    assert lines == list(suite.lines if tasks else suite.lines[:1])
    assert renderer.start() + renderer.end(totals(passed=1)) == ""


def test_json_keeps_text_beyond_ascii() -> None:
    """UTF-8 stays UTF-8."""
    raw = grade(
        Log().start(suite_id="größe").score("refund", 1).completed(1), make_context()
    ).raw
    shown = make_renderer(Format.JSON).run(view_of(raw[0], raw[1:]))
    assert shown.encode() == raw[0] + b"\n"


# ----------------------------------------------------------------------- junit


def test_junit_has_one_case_a_task() -> None:
    """A run that passed: its tasks and nothing else, times in seconds."""
    log = Log().start().calls("lookup", "refund")
    log.score("refund", 0.9, latencyMs=1250).completed(0.9)
    document = ET.fromstring(  # noqa: S314 - our own output
        render(Format.JUNIT, view(log, task("refund", STEPS), passScore=0.7))
    )
    (suite,) = document.findall("testsuite")
    assert suite.attrib == {
        "name": "acme/run-000000000001",
        "tests": "1",
        "failures": "0",
        "errors": "0",
        "skipped": "0",
    }
    (case,) = suite.findall("testcase")
    assert case.attrib == {
        "classname": "acme.evals.refunds@1.0.0",
        "name": "refund",
        "time": "1.250",
    }
    assert len(case) == 0


def test_junit_failure_tells_why() -> None:
    """The failed task and the run itself, with expected against observed."""
    document = ET.fromstring(render(Format.JUNIT, changed_run()))  # noqa: S314 - our own output
    (suite,) = document.findall("testsuite")
    failures = {
        case.get("name"): case.find("failure") for case in suite.findall("testcase")
    }
    assert list(failures) == ["first", "second", "(run)"]
    assert failures["first"] is None
    second, run = failures["second"], failures["(run)"]
    assert second is not None
    assert second.text is not None
    assert second.text.splitlines() == [
        "trial-failed: trial 1 did not pass",
        "trial 1: forbidden-tool: call 2 (wire_money) is forbidden by wire_*",
        "trial 1: missing-step: step 2 (refund) was not called",
        "trial 1: expected lookup -> [refund]",
        "trial 1: observed lookup -> [wire_money]",
    ]
    assert run is not None
    assert run.get("message") == (
        "below-pass-score: the gating score 0.45 is less than the pass score 0.7"
    )
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")


def test_junit_of_a_run_without_tasks_is_not_green() -> None:
    """An unknown suite has no task to fail, and the gate is closed."""
    raw = grade(Log().start().end(), make_context()).raw
    document = ET.fromstring(render(Format.JUNIT, view_of(raw[0], raw[1:])))  # noqa: S314 - our own output
    (case,) = document.iter("testcase")
    assert case.get("name") == "(run)"
    assert case.find("failure") is not None


@pytest.mark.parametrize("views", [(), (passed_run(),), (changed_run(),)])
def test_junit_of_undecided_runs_has_an_error(views: tuple[RunView, ...]) -> None:
    """An error of its own beside all runs, in the words of the other formats."""
    end = totals(
        passed=len(views), undecided="1 event rejected" if views else "nothing graded"
    )
    document = ET.fromstring(render(Format.JUNIT, *views, end=end))  # noqa: S314 - our own output
    *runs, last = document.findall("testsuite")
    assert len(runs) == len(views)
    assert (last.get("tests"), last.get("errors")) == ("1", "1")
    (case,) = last.findall("testcase")
    (error,) = case.findall("error")
    assert (case.get("name"), error.get("type")) == ("(undecided)", "undecided")
    assert error.get("message") == error.text == str(end)


def test_junit_is_well_formed_whatever_tools_are_called() -> None:
    """Markup is escaped, and what XML cannot hold is written out."""
    document = ET.fromstring(  # noqa: S314 - our own output
        render(Format.JUNIT, changed_run(wrong=HOSTILE))
    )
    texts = [failure.text for failure in document.iter("failure")]
    assert "wire_<b>&\"'|`\\n::error::\\x00\\x1b" in (texts[0] or "")


# -------------------------------------------------------------------- markdown


def test_markdown_is_a_table_a_run() -> None:
    """Heading with the verdict in words, reasons, one row a task."""
    lines = render(Format.MARKDOWN, changed_run()).splitlines()
    assert lines[0] == "### NOT PASSED: acme/run-000000000001"
    assert "- RFC 0244 would have passed this run" in lines
    table = [line for line in lines if line.startswith("|")]
    assert table[:3] == [
        "| task | verdict | score | in the gate | why |",
        "| --- | --- | --- | --- | --- |",
        "| first | PASSED | 0.9 | 0.9 |  |",
    ]
    assert table[3].startswith("| second | NOT PASSED | 0.9 | 0 | trial-failed: ")
    assert r"observed lookup -&gt; \[wire\_money\]" in table[3]
    assert len(table) == 4


def test_markdown_table_survives_hostile_names() -> None:
    """No name adds a cell, a row, markup or a mention."""
    shown = render(Format.MARKDOWN, changed_run(wrong=HOSTILE + "@acme/team #1"))
    rows = [line for line in shown.splitlines() if line.startswith("| second")]
    (row,) = rows
    unescaped = row.replace(r"\|", "")
    assert unescaped.count("|") == 6
    assert "<b>" not in row
    assert "@acme" not in row
    assert "#1" not in row


# ---------------------------------------------------------------------- github


def test_github_annotates_runs_then_tasks_then_totals() -> None:
    """Errors for what failed, nothing for a run that passed."""
    end = totals(passed=1, not_passed=1, changed=1)
    lines = render(Format.GITHUB, passed_run(), changed_run(), end=end).splitlines()
    assert [line.split("::")[1] for line in lines] == [
        "error title=acme/run-000000000001 did not pass",
        "error title=acme/run-000000000001 second did not pass",
        "error title=pathgate",
    ]
    assert "RFC 0244 would have passed this run" in lines[0]
    assert "%0Atrial 1: observed lookup -> [wire_money]" in lines[1]


def test_github_is_quiet_about_passes() -> None:
    """One notice with the totals; a doubt makes it a warning."""
    shown = render(Format.GITHUB, passed_run(), end=totals(passed=1))
    assert shown == ("::notice title=pathgate::1 run graded: 1 passed, 0 not passed\n")
    doubt = totals(passed=1, undecided="1 event rejected")
    assert render(Format.GITHUB, end=doubt).startswith("::warning ")


def test_github_keeps_to_fifty_annotations() -> None:
    """Runs come before tasks, and what is left out is counted.

    60 runs with one failed task each make 120 annotations; 49 are shown.
    """
    runs = [changed_run(run=f"acme/run-{n:012}") for n in range(60)]
    end = totals(not_passed=60)
    lines = render(Format.GITHUB, *runs, end=end).splitlines()
    assert len(lines) == MAX_ANNOTATIONS == 50
    assert all(" did not pass::" in line for line in lines[:49])
    assert not any(" second did not pass" in line for line in lines)
    assert lines[-1].endswith("(71 more annotations are left out)")


def test_github_command_cannot_be_ended_by_a_name() -> None:
    """Each annotation stays on its line, and a name starts none."""
    run, end = changed_run(wrong=HOSTILE), totals(not_passed=1)
    shown = render(Format.GITHUB, run, end=end)
    assert all(line.startswith("::error title=") for line in shown.splitlines())
    assert "\x1b" not in shown
    # A % of a name would be read as an escape.
    assert "%250A]]>" in shown
