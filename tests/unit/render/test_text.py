"""The terminal's format: what a person sees at a glance."""

import re

import pytest

from streams.render import Format, make_renderer, view_of
from streams.render.story import run_story
from tests.factories import Log, grade, make_context, make_suite, task
from tests.unit.render.views import STEPS, changed_run, passed_run, totals, view

RENDERER = make_renderer(Format.TEXT)


def test_run_that_passed_is_one_line() -> None:
    """Verdict, run, suite, score, tasks."""
    assert RENDERER.run(passed_run()) == (
        "PASSED  acme/run-000000000001  acme.evals.refunds@1.0.0  score 0.9  tasks 1/1\n"
    )


def test_run_that_the_gate_closed_tells_where_and_why() -> None:
    """RFC 0246's example: both scores, the trial, expected against observed.

    Scores 0.9 and 0.9 with one trial gated to 0: the mean is 0.9, in the gate
    (0.9 + 0) / 2 = 0.45.
    """
    assert (
        RENDERER.run(changed_run())
        == """\
NOT PASSED  acme/run-000000000001  acme.evals.refunds@1.0.0  score 0.9, in the gate 0.45  tasks 1/2
  below-pass-score: the gating score 0.45 is less than the pass score 0.7
  RFC 0244 would have passed this run
  NOT PASSED  task second  score 0.9, in the gate 0
    trial-failed: trial 1 did not pass
    trial 1  off path  score 0.9, in the gate 0  host: passed
      forbidden-tool: call 2 (wire_money) is forbidden by wire_*
      missing-step: step 2 (refund) was not called
      expected lookup -> [refund]
      observed lookup -> [wire_money]
  host trial-passed-off-path: task second: the host passed trial 1 off the expected path
  host suite-passed-ungated: the host says passed, the events say not passed
  host counts-differ: passedCount: the host says 2, the events say 1

"""
    )


NAMED = (
    "the suite and version it names are not loaded, or another event contradicts its"
    " eval.started"
)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (Log().start("acme.evals.nobody").score("refund"), NAMED),
        # Both suites are loaded: nobody can say which one is evaluated.
        (Log().start().start("acme.evals.other").score("refund"), NAMED),
        (Log().score("refund"), "no eval.started names its suite"),
    ],
    ids=["not-loaded", "two-starts", "no-start"],
)
def test_why_no_suite_is_known_is_never_a_wrong_cause(log: Log, expected: str) -> None:
    """A record tells whether a start was read, not which of two causes followed."""
    suites = make_suite(), make_suite(suite_id="acme.evals.other")
    raw = grade(log, make_context(*suites)).raw
    one = view_of(raw[0], raw[1:])
    assert f"unknown-suite: {expected}" in " ".join(RENDERER.run(one).split())
    # What the other formats write.
    assert [f"unknown-suite: {expected}"] == run_story(one.suite)


def test_pass_with_a_trial_off_its_path_says_so() -> None:
    """Under ``any`` a task may pass with a bad trial; it is not hidden.

    Gating scores 1 and 0: 0.5 meets the bar of 0.5.
    """
    log = Log().start().calls("lookup", "refund").score("refund", 1)
    log.calls("wire_money").score("refund", 1, passed=False)
    shown = RENDERER.run(
        view(
            log.completed(1), task("refund", STEPS), count=2, rule="any", passScore=0.5
        )
    )
    assert shown.splitlines()[0].endswith(
        "score 1, in the gate 0.5  tasks 1/1  1 trial off path"
    )


def test_incomplete_run_says_how_it_ended() -> None:
    """A run that stops before its last trial is not read as a plain failure."""
    log = Log().start().calls("lookup", "refund").score("refund", 1).end("run.failed")
    shown = RENDERER.run(view(log, task("refund", STEPS), count=2, passScore=0.5))
    head, *rest = shown.splitlines()
    assert head.endswith("tasks 0/1  failed")
    assert "  incomplete: 1 of 2 trials were scored" in rest
    assert "  run-failed: the run failed before its trials were done" in rest


def test_long_trajectory_is_cut_and_says_so() -> None:
    """Fifty calls are shown, the others counted."""
    log = Log().start().calls(*["look"] * 60).score("refund", 1)
    shown = RENDERER.run(view(log.completed(1), task("refund", STEPS), passScore=0.5))
    assert " ".join(shown.split()).count("look ->") == 50
    assert "(10 more)" in shown


def test_empty_trajectory_says_so() -> None:
    """A trial that called nothing shows no empty line."""
    log = Log().start().score("refund", 1).completed(1)
    shown = RENDERER.run(view(log, task("refund", STEPS), passScore=0.5))
    assert "observed (no call)" in shown


def test_lines_are_no_wider_than_a_terminal() -> None:
    """All but the head, whose ids are not broken, keep to 100 columns."""
    log = Log().start().calls(*["look_up_the_order"] * 40).score("refund", 1)
    shown = RENDERER.run(view(log.completed(1), task("refund", STEPS), passScore=0.5))
    assert max(map(len, shown.splitlines()[1:])) <= 100


def test_name_of_a_tool_cannot_write_on_the_terminal() -> None:
    """Control characters are written out."""
    shown = RENDERER.run(changed_run(wrong="wire_\x1b[2J\nPASSED"))
    assert "\x1b" not in shown
    assert r"wire_\x1b[2J\nPASSED" in shown


def test_colour_changes_no_word() -> None:
    """Taken out, the colours leave the same text."""
    coloured = make_renderer(Format.TEXT, colour=True)
    run = changed_run()
    shown = coloured.run(run) + coloured.end(totals(not_passed=1, changed=1))
    assert "\x1b[31mNOT PASSED\x1b[0m" in shown
    plain = RENDERER.run(run) + RENDERER.end(totals(not_passed=1, changed=1))
    assert re.sub(r"\x1b\[[0-9]+m", "", shown) == plain


def test_totals_are_one_line() -> None:
    """Counts, what RFC 0244 would have passed, and a doubt if there is one."""
    assert RENDERER.end(totals(passed=3, not_passed=2, changed=1)) == (
        "5 runs graded: 3 passed, 2 not passed (RFC 0244 would have passed 1 of them)\n"
    )
    assert RENDERER.end(totals(passed=1, undecided="2 events rejected")) == (
        "1 run graded: 1 passed, 0 not passed; undecided: 2 events rejected\n"
    )
