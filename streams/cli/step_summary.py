"""The page that GitHub Actions shows of a workflow's step."""

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from streams.errors import InputError, OutputError
from streams.render import Format, RunView, Totals, make_renderer
from streams.render.figures import count_of


class StepSummary:
    """The Markdown page of a workflow's step, if there is one.

    Args:
        path: The file to append to; None or empty for no page.
    """

    # GitHub drops a page that is larger than 1 MiB as a whole.
    MAX_BYTES = 1_000_000

    def __init__(self, path: str | None) -> None:
        self._renderer = make_renderer(Format.MARKDOWN)
        self._file = None
        self._room = self.MAX_BYTES
        self._left_out = 0
        if path:
            try:
                self._file = Path(path).open("ab")  # noqa: SIM115 - closed by __exit__
            except OSError as error:
                raise InputError(f"GITHUB_STEP_SUMMARY: {error.strerror}") from error

    def __enter__(self) -> Self:
        """The page itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the file."""
        if self._file is not None:
            # Each page was handed over when it was written.
            with suppress(OSError):
                self._file.close()

    def add(self, view: RunView) -> None:
        """Appends one run while there is room.

        Raises:
            OutputError: It cannot be written.
        """
        if self._file is None:
            return
        data = self._renderer.run(view).encode()
        if len(data) > self._room:
            self._left_out += 1
            return
        self._room -= len(data)
        self._append(self._file, data)

    def end(self, totals: Totals) -> None:
        """Appends the totals.

        Raises:
            OutputError: They cannot be written.
        """
        if self._file is None:
            return
        text = self._renderer.end(totals)
        if self._left_out:
            left_out = count_of(self._left_out, "further run")
            text = f"{left_out} left out: no room.\n\n{text}"
        self._append(self._file, text.encode())

    def _append(self, file: BinaryIO, data: bytes) -> None:
        try:
            file.write(data)
            file.flush()
        except OSError as error:
            raise OutputError(f"GITHUB_STEP_SUMMARY: {error.strerror}") from error
