"""Graded runs for the renderers' tests, made by the grader itself."""

from collections.abc import Mapping
from typing import Any

from streams.render import RunView, Totals, view_of
from tests.factories import Log, grade, make_context, make_suite, task

STEPS = {"steps": [{"tool": "lookup"}, {"tool": "refund"}], "forbidden": ["wire_*"]}


def view(log: Log, *tasks: Mapping[str, Any], **suite: Any) -> RunView:
    """The view of one graded run."""
    raw = grade(log, make_context(make_suite(*tasks, **suite))).raw
    return view_of(raw[0], raw[1:])


def passed_run() -> RunView:
    """One task, on its path, score 0.9."""
    log = Log().start().calls("lookup", "refund").score("refund", 0.9)
    return view(log.completed(0.9), task("refund", STEPS), passScore=0.7)


def changed_run(
    wrong: str = "wire_money", run: str = "acme/run-000000000001"
) -> RunView:
    """RFC 0246's suite example: scores 0.9 and 0.9, the second off its path."""
    log = Log(run=run).start(count=2).calls("lookup", "refund").score("first", 0.9)
    log.calls("lookup", wrong).score("second", 0.9)
    log.completed(0.9, tasks=2, passed_tasks=2)
    return view(log, task("first", STEPS), task("second", STEPS), passScore=0.7)


def totals(**counts: Any) -> Totals:
    """Totals with nothing in them but what is given."""
    return Totals(**({"passed": 0, "not_passed": 0, "changed": 0} | counts))
