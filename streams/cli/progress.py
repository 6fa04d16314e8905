"""How far a long reading has come, for somebody who watches."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from streams.cli.terminal import Terminal

Advance = Callable[[int, int], None]
_REDRAW_S = 0.1


@contextmanager
def show_progress(terminal: Terminal, files: list[str]) -> Iterator[Advance]:
    """Draws a bar on stderr while logs are read; nothing where nobody watches.

    Args:
        terminal: Says whether somebody watches.
        files: The logs; their sizes make the whole, where they are known.

    Yields:
        Takes bytes read and events read, both in all so far.
    """
    if not terminal.shows_progress:
        yield lambda _bytes, _events: None
        return
    from rich.console import Console  # noqa: PLC0415 - only for somebody who watches
    from rich.progress import (  # noqa: PLC0415 - as above
        BarColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.fields[events]:,} events"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, no_color=bool(terminal.env.get("NO_COLOR")))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=_size_of(files), events=0)
        drawn_at = 0.0

        def advance(read_bytes: int, events: int) -> None:
            nonlocal drawn_at
            if time.monotonic() - drawn_at >= _REDRAW_S:
                drawn_at = time.monotonic()
                progress.update(task, completed=read_bytes, events=events)

        yield advance


def _size_of(files: list[str]) -> int | None:
    """Bytes in all; None where they are not known, or compressed."""
    total = 0
    for file in files:
        path = Path(file)
        if file == "-" or path.suffix in {".gz", ".zst"} or not path.is_file():
            return None
        total += path.stat().st_size
    return total
