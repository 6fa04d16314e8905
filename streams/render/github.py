"""Graded runs as workflow commands of GitHub Actions."""

from streams.render.figures import show_scores, visible
from streams.render.story import run_story, task_story
from streams.render.view import RunView, Totals, gated_aggregate_of

# What GitHub shows at most of one job; what is beyond is dropped by it.
MAX_ANNOTATIONS = 50


def data_of(text: str) -> str:
    """Text as the message of a command: line ends would end the command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def property_of(text: str) -> str:
    """Text as a property of a command."""
    return data_of(text).replace(":", "%3A").replace(",", "%2C")


class GithubRenderer:
    """Writes at most 50 annotations: the runs that failed first, then tasks.

    The totals are always the last of them. Holds no more than those 50.
    """

    def __init__(self) -> None:
        self._runs: list[str] = []
        self._tasks: list[str] = []
        self._left_out = 0

    def start(self) -> str:
        """Nothing."""
        return ""

    def run(self, view: RunView) -> str:
        """Nothing yet: the order is by weight, so all stand at the end."""
        if view.passed:
            return ""
        self._keep(self._runs, _run_error(view))
        for entry in view.suite.summary.tasks:
            record = view.record_of(entry)
            if entry.passed or record is None:
                continue
            title = f"{record.run_id} {entry.task_id} did not pass"
            self._keep(self._tasks, _command("error", title, task_story(record)))
        return ""

    def _keep(self, kept: list[str], command: str) -> None:
        if len(kept) < MAX_ANNOTATIONS:
            kept.append(command)
        else:
            self._left_out += 1

    def end(self, totals: Totals) -> str:
        """All annotations."""
        commands = [*self._runs, *self._tasks]
        shown = commands[: MAX_ANNOTATIONS - 1]
        left_out = self._left_out + len(commands) - len(shown)
        text = str(totals)
        if left_out:
            text += f" ({left_out} more annotations are left out)"
        level = "error" if totals.not_passed else "notice"
        if totals.undecided and not totals.not_passed:
            level = "warning"
        return "".join([*shown, _command(level, "pathgate", [text])])


def _run_error(view: RunView) -> str:
    record = view.suite
    measured, gate = show_scores(
        [record.summary.aggregate_score, gated_aggregate_of(record)]
    )
    head = f"{view.suite_key}: score {measured}, in the gate {gate}"
    title = f"{record.run_id} did not pass"
    return _command("error", title, [head, *run_story(record)])


def _command(level: str, title: str, lines: list[str]) -> str:
    message = data_of("\n".join(visible(line) for line in lines))
    return f"::{level} title={property_of(visible(title))}::{message}\n"
