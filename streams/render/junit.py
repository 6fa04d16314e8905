"""Graded runs as JUnit XML: one suite a run, one test case a task."""

from schemas.summary import TaskEntry
from streams.render.figures import visible
from streams.render.story import run_story, task_story
from streams.render.view import RunView, Totals

_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;"}
)
RUN_CASE = "(run)"
UNDECIDED_CASE = "(undecided)"


def escape(text: str) -> str:
    """Text that may stand in XML, in an attribute too; one line stays one.

    Args:
        text: Lines of printable characters, as ``visible`` makes them: XML
            cannot hold the others, escaped or not.
    """
    return text.translate(_ESCAPES)


class JunitRenderer:
    """Writes one document; a closed gate is never green.

    A run that did not pass has a further case ``(run)``: its bar or its
    inventory may fail with every task passed, or with no task at all. Where
    the verdicts are no answer, a last suite has the error ``(undecided)``.
    """

    def start(self) -> str:
        """The XML declaration and the root's start."""
        return '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="pathgate">\n'

    def run(self, view: RunView) -> str:
        """One test suite."""
        record, entries = view.suite, view.suite.summary.tasks
        cases = []
        for entry in entries:
            task = view.record_of(entry)
            told = [] if entry.passed or task is None else task_story(task)
            cases.append(_case(view.suite_key, entry, told))
        failures = sum(not entry.passed for entry in entries)
        if not view.passed:
            cases.append(
                f'  <testcase classname="{_name(view.suite_key)}"'
                f' name="{RUN_CASE}">\n{_failure(run_story(record))}'
                "  </testcase>\n"
            )
            failures += 1
        return (
            f' <testsuite name="{_name(record.run_id)}" tests="{len(cases)}"'
            f' failures="{failures}" errors="0" skipped="0">\n'
            + "".join(cases)
            + " </testsuite>\n"
        )

    def end(self, totals: Totals) -> str:
        """What stays undecided, and the root's end; readers add up themselves."""
        return (_undecided(totals) if totals.undecided else "") + "</testsuites>\n"


def _undecided(totals: Totals) -> str:
    text = _name(str(totals))
    return (
        ' <testsuite name="pathgate" tests="1" failures="0" errors="1" skipped="0">\n'
        f'  <testcase classname="pathgate" name="{UNDECIDED_CASE}">\n'
        f'   <error type="undecided" message="{text}">{text}</error>\n'
        "  </testcase>\n </testsuite>\n"
    )


def _name(text: str) -> str:
    return escape(visible(text))


def _case(classname: str, entry: TaskEntry, told: list[str]) -> str:
    time = ""
    if isinstance(entry.latency_ms, int):
        time = f' time="{entry.latency_ms / 1000:.3f}"'
    head = f'  <testcase classname="{_name(classname)}" name="{_name(entry.task_id)}"'
    if entry.passed:
        return f"{head}{time}/>\n"
    return f"{head}{time}>\n{_failure(told)}  </testcase>\n"


def _failure(told: list[str]) -> str:
    message = told[0] if told else "not passed"
    body = "\n".join(told)
    # In an attribute a line end would become a space; the body keeps its own.
    text = escape(body).replace("&#10;", "\n")
    return f'   <failure type="gate" message="{escape(message)}">{text}</failure>\n'
