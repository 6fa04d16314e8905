"""Reads event logs line by line: plain, gzip, zstd or standard input."""

import gzip
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

import msgspec
import zstandard

from schemas.events import MAX_EVENT_BYTES

BLOCK_BYTES = 1 << 20
STDIN = "-"
FOLLOW_INTERVAL_S = 0.2

# Enough for the keys before a payload.
_START_BYTES = 1 << 16

# What no text starts with, and what unpacks it: a log that was named or piped as
# if it were plain would be rejected line by line.
_PACKED = ((b"\x1f\x8b", "gzip", ".gz"), (b"\x28\xb5\x2f\xfd", "zstd", ".zst"))

# A zstd block of 4 bytes can stand for 128 KiB: the bound of what one read
# can grow to.
_ZSTD_READ_BYTES = 4096


class ReadError(Exception):
    """A log that cannot be opened or read to its end; says which and why."""

    def __init__(self, source: str, why: str, line: int = 0) -> None:
        place = f"{source}:{line}" if line else source
        super().__init__(f"{place}: {why}")
        self.source = source
        self.line = line


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line of a log.

    Args:
        number: 1-based.
        data: Its bytes without the line end; None for a line that is longer
            than an event may be, which is skipped and not kept.
        start: Of a line that was skipped, the first bytes: they may name its
            run.
        key: Of a record of a topic, its key; files have none.
    """

    number: int
    data: bytes | None
    start: bytes = b""
    key: bytes | None = None


class LogStream(Protocol):
    """What is read of a log."""

    def read(self, size: int, /) -> bytes:
        """Bytes, about ``size`` of them; none at the end."""


class _ZstdStream:
    """Frames one after another; unlike the library's reader, whole or an error."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._rest = b""

    def read(self, _size: int, /) -> bytes:
        """The next bytes; none at the end.

        Raises:
            EOFError: The last frame breaks off.
        """
        while True:
            data = self._rest or self._raw.read(_ZSTD_READ_BYTES)
            if not data:
                if self._frame is not None:
                    raise EOFError
                return b""
            frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
            block = frame.decompress(data)
            self._frame = None if frame.eof else frame
            self._rest = frame.unused_data if frame.eof else b""
            if block:
                return block


@contextmanager
def open_log(source: str) -> Iterator[LogStream]:
    """Opens a log for reading.

    Args:
        source: Path of an NDJSON file, of one ending in ``.gz`` or ``.zst``, or
            ``-`` for standard input.

    Raises:
        ReadError: It cannot be opened.
    """
    if source == STDIN:
        if sys.stdin is None:
            raise ReadError(source, "expected an open standard input")
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
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield unpacked
        elif path.suffix == ".zst":
            yield _ZstdStream(raw)
        else:
            yield raw


class _Splitter:
    """Blocks of bytes to lines, holding no more than one event's bytes."""

    def __init__(self) -> None:
        self.number = 0
        self._rest = b""
        self._skipped: bytes | None = None

    def split(self, block: bytes) -> list[Line]:
        """The lines that end in this block; blank ones are left out but counted."""
        pieces = (self._rest + block).split(b"\n")
        self._rest = pieces.pop()
        lines = []
        if pieces and self._skipped is not None:
            self.number += 1
            lines.append(Line(self.number, None, self._skipped))
            self._skipped = None
            del pieces[0]
        lines += [
            Line(number, piece)
            if len(piece) <= MAX_EVENT_BYTES
            else _line(number, piece)
            for number, piece in enumerate(pieces, self.number + 1)
            if piece and not piece.isspace()
        ]
        self.number += len(pieces)
        # One more than an event may have: a carriage return.
        if len(self._rest) > MAX_EVENT_BYTES + 1:
            if self._skipped is None:
                self._skipped = self._rest[:_START_BYTES]
            self._rest = b""
        return lines

    def end(self) -> list[Line]:
        """The last line, if it has no line end."""
        if self._skipped is not None:
            return [Line(self.number + 1, None, self._skipped)]
        if self._rest and not self._rest.isspace():
            return [_line(self.number + 1, self._rest)]
        return []


def _line(number: int, piece: bytes) -> Line:
    # A carriage return is white space to JSON, but of an event's size no part.
    if len(piece) > MAX_EVENT_BYTES:
        piece = piece.removesuffix(b"\r")
    if len(piece) > MAX_EVENT_BYTES:
        return Line(number, None, piece[:_START_BYTES])
    return Line(number, piece)


def read_lines(
    stream: LogStream,
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
        line without a line end is a line once the stream has ended for good.

    Raises:
        ReadError: The stream breaks off: truncated or damaged compression; or
            it is compressed where plain text was expected.
    """
    splitter = _Splitter()
    is_start = True
    while True:
        block = _read_block(stream, source, splitter.number + 1)
        if block:
            if is_start:
                _refuse_packed(block, source)
                is_start = False
            yield splitter.split(block)
        elif follow is None or not follow():
            break
        else:
            if idle is not None:
                idle()
            time.sleep(FOLLOW_INTERVAL_S)
    yield splitter.end()


def _refuse_packed(block: bytes, source: str) -> None:
    for magic, tool, suffix in _PACKED:
        if block.startswith(magic):
            raise ReadError(
                source,
                f"expected lines of text, and the bytes look {tool}-compressed: unpack"
                f" them first ({tool} -dc), or name a file that ends in {suffix}",
            )


def _read_block(stream: LogStream, source: str, line: int) -> bytes:
    try:
        return stream.read(BLOCK_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        why = "expected a whole compressed stream"
        raise ReadError(source, why, line) from error
    except OSError as error:
        why = (error.strerror or "cannot be read").lower()
        raise ReadError(source, f"expected a readable file: {why}", line) from error
