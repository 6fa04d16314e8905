"""Where output goes: data to stdout, everything else to stderr."""

import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from streams.errors import OutputError


class Terminal:
    """The two output streams of a command.

    Args:
        env: The environment, for ``NO_COLOR``, ``FORCE_COLOR`` and ``TERM``.
        no_colour: Whether colours were switched off on the command line.
    """

    def __init__(self, env: Mapping[str, str], *, no_colour: bool = False) -> None:
        self.env = env
        self._no_colour = no_colour

    def write(self, text: str) -> None:
        """Data, as UTF-8 whatever the locale.

        Bytes of file names that are no UTF-8 stand escaped, as on stderr.
        """
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode(errors="backslashreplace"))

    def flush(self) -> None:
        """Hands over what was written, for a reader that follows."""
        sys.stdout.buffer.flush()

    def note(self, text: str) -> None:
        """A line for the person who runs the command."""
        self.flush()
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    @property
    def colours_data(self) -> bool:
        """Whether data may hold colours."""
        return self._colours(sys.stdout)

    @property
    def shows_progress(self) -> bool:
        """Whether somebody watches stderr."""
        return sys.stderr.isatty() and self.env.get("TERM") != "dumb"

    def _colours(self, stream: TextIO) -> bool:
        # no-color.org: any non-empty value switches off, whatever it is.
        if self._no_colour or self.env.get("NO_COLOR"):
            return False
        if self.env.get("FORCE_COLOR"):
            return True
        return stream.isatty() and self.env.get("TERM") != "dumb"


class _Output(io.FileIO):
    """Standard output, whose failures are told from those of other files.

    Args:
        descriptor: Where it goes; left open at the end.
        closed: Whether there is none: what is written is an error.
    """

    def __init__(self, descriptor: int, *, closed: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_closed = closed
        self._is_abandoned = False

    def write(self, data: Any, /) -> int:
        """Writes, as ``FileIO`` does.

        Raises:
            OutputError: Nothing can be written, for another reason than that
                the reader went away.
        """
        if self._is_abandoned:
            return memoryview(data).nbytes
        if self._is_closed:
            raise OutputError(f"{_UNWRITTEN}: it is closed")
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            why = (error.strerror or "no reason given").lower()
            raise OutputError(f"{_UNWRITTEN}: {why}") from error

    def abandon(self) -> None:
        """Drops what is written from here on, and what was kept for writing."""
        self._is_abandoned = True


_UNWRITTEN = "cannot write to standard output"


def prepare_streams() -> None:
    """Sets up the outputs of this process, which may have been started without.

    Python has None in the place of a closed one. A verdict that nobody can have
    read is an error; messages without a standard error lead nowhere.
    """
    # Open to the end, which keeps other files from taking the descriptor.
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as above
    closed = sys.stdout is None
    if closed:
        descriptor, is_watched = os.open(os.devnull, os.O_WRONLY), False
    else:
        descriptor, is_watched = sys.stdout.fileno(), sys.stdout.isatty()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Output(descriptor, closed=closed)),
        encoding=None if closed else sys.stdout.encoding,
        errors="strict" if closed else sys.stdout.errors,
        line_buffering=is_watched,
    )


def abandon_stdout() -> None:
    """Stops Python from complaining at exit about an output that is lost."""
    raw = getattr(sys.stdout.buffer, "raw", None)
    if isinstance(raw, _Output):
        raw.abandon()
