"""Where output goes: data to stdout, everything else to stderr."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO


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


def ensure_streams() -> None:
    """Gives a process that was started with closed outputs ones that lead nowhere.

    Python has None in their place, and what is written would be an error.
    """
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - kept to the end
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - kept to the end


def abandon_stdout() -> None:
    """Stops Python from complaining at exit about a pipe that was closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
