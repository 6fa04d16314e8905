"""Reads event logs line by line: plain, gzip, zstd or standard input."""

import gzip
import io
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import zstandard

from schemas.events import MAX_EVENT_BYTES

BLOCK_BYTES = 1 << 20
STDIN = "-"


class ReadError(Exception):
    """A log that cannot be opened or read to its end; says which and why."""

    def __init__(self, source: str, why: str, line: int = 0) -> None:
        place = f"{source}:{line}" if line else source
        super().__init__(f"{place}: {why}")
        self.source = source
        self.line = line


class Line(NamedTuple):
    """One line of a log.

    Args:
        number: 1-based.
        data: Its bytes without the line end; None for a line that is longer
            than an event may be, which is skipped and not kept.
    """

    number: int
    data: bytes | None


@contextmanager
def open_log(source: str) -> Iterator[IO[bytes]]:
    """Opens a log for reading.

    Args:
        source: Path of an NDJSON file, of one ending in ``.gz`` or ``.zst``, or
            ``-`` for standard input.

    Raises:
        ReadError: It cannot be opened.
    """
    if source == STDIN:
        yield sys.stdin.buffer
        return
    path = Path(source)
    try:
        raw = path.open("rb")
    except OSError as error:
        why = (error.strerror or "cannot be opened").lower()
        raise ReadError(source, f"expected a readable file: {why}") from error
    with raw:
        if path.suffix == ".gz":
            yield gzip.GzipFile(fileobj=raw)  # type: ignore[misc]  # reads bytes
        elif path.suffix == ".zst":
            reader = zstandard.ZstdDecompressor().stream_reader(
                raw, read_across_frames=True
            )
            yield io.BufferedReader(reader)  # type: ignore[arg-type]  # a raw stream
        else:
            yield raw


def read_lines(
    stream: IO[bytes],
    source: str,
    *,
    follow: Callable[[], bool] | None = None,
    idle: Callable[[], None] | None = None,
) -> Iterator[list[Line]]:
    """Reads a log in blocks of lines.

    Args:
        stream: From ``open_log``.
        source: Its name, for errors.
        follow: Asked at the end of the stream whether to wait for more; None
            stops at the end.
        idle: Called before waiting for more.

    Yields:
        The lines of one block; blank lines are left out but counted. A last
        line without a line end is a line, except while following.

    Raises:
        ReadError: The stream breaks off: truncated or damaged compression.
    """
    number = 0
    rest = b""
    skipping = False
    for block in _blocks(stream, source, follow, idle, lambda: number):
        pieces = (rest + block).split(b"\n")
        rest = pieces.pop()
        lines = []
        for piece in pieces:
            number += 1
            if skipping:
                skipping = False
                lines.append(Line(number, None))
            elif len(piece) > MAX_EVENT_BYTES + 1:
                lines.append(Line(number, None))
            elif piece and not piece.isspace():
                lines.append(Line(number, piece))
        if len(rest) > MAX_EVENT_BYTES + 1:
            skipping, rest = True, b""
        yield lines
    if skipping:
        yield [Line(number + 1, None)]
    elif rest and not rest.isspace():
        yield [Line(number + 1, rest)]


def _blocks(
    stream: IO[bytes],
    source: str,
    follow: Callable[[], bool] | None,
    idle: Callable[[], None] | None,
    line: Callable[[], int],
) -> Iterator[bytes]:
    while True:
        try:
            block = stream.read(BLOCK_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
            raise ReadError(
                source, "expected a whole compressed stream", line() + 1
            ) from error
        except OSError as error:
            why = (error.strerror or "cannot be read").lower()
            raise ReadError(
                source, f"expected a readable file: {why}", line() + 1
            ) from error
        if block:
            yield block
        elif follow is None or not follow():
            return
        else:
            if idle is not None:
                idle()
            time.sleep(FOLLOW_INTERVAL_S)


FOLLOW_INTERVAL_S = 0.2
