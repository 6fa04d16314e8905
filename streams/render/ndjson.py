"""One record a line, the very bytes that the worker publishes."""

from streams.render.view import RunView, Totals


class NdjsonRenderer:
    """Writes suite records, and task records after each if they are wanted.

    Args:
        tasks: Whether task records are wanted.
    """

    def __init__(self, *, tasks: bool) -> None:
        self._tasks = tasks

    def start(self) -> str:
        """Nothing."""
        return ""

    def run(self, view: RunView) -> str:
        """The record's bytes as text; they are UTF-8 and hold no line end."""
        lines = view.lines if self._tasks else view.lines[:1]
        return "".join(line.decode() + "\n" for line in lines)

    def end(self, totals: Totals) -> str:  # noqa: ARG002 - the records say all
        """Nothing."""
        return ""
