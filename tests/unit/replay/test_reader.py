"""Logs line by line: plain, packed, broken off, followed."""

import gzip
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
import zstandard

from schemas.events import MAX_EVENT_BYTES
from streams.replay import Line, ReadError, open_log, read_lines, reader

LINES = b'{"a":1}\n\n  \r\n{"b":2}\r\n{"c":3}'
# As much of a line that is too long as may name its run: 64 KiB.
START = b"x" * 65_536
READ = [Line(1, b'{"a":1}'), Line(4, b'{"b":2}\r'), Line(5, b'{"c":3}')]


def read_all(stream: IO[bytes], source: str = "log") -> list[Line]:
    return [line for block in read_lines(stream, source) for line in block]


def read_file(path: Path) -> list[Line]:
    with open_log(str(path)) as stream:
        return [line for block in read_lines(stream, str(path)) for line in block]


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("log.ndjson", bytes),
        ("log.ndjson.gz", gzip.compress),
        ("log.ndjson.zst", zstd),
    ],
)
def test_packed_or_not_the_lines_are_the_same(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    """Blank lines are left out but counted; the last needs no line end."""
    path = tmp_path / name
    path.write_bytes(pack(LINES))
    assert READ == read_file(path)


@pytest.mark.parametrize(("name", "pack"), [("a.gz", gzip.compress), ("a.zst", zstd)])
def test_packed_logs_may_be_joined(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    """Frame after frame, an empty one among them, a line across two."""
    path = tmp_path / name
    path.write_bytes(pack(LINES) + pack(b"") + pack(b"4\n"))
    assert Line(5, b'{"c":3}4') == read_file(path)[-1]


@pytest.mark.parametrize("name", ["a.ndjson", "a.ndjson.zst"])
def test_an_empty_log_has_no_lines(tmp_path: Path, name: str) -> None:
    """No bytes at all."""
    path = tmp_path / name
    path.write_bytes(b"")
    assert [] == read_file(path)


@pytest.mark.parametrize(("name", "pack"), [("a.gz", gzip.compress), ("a.zst", zstd)])
def test_a_packed_log_that_breaks_off_is_an_error(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    """Never taken for a whole one: it would be graded as abandoned runs."""
    rows = b"".join(b'{"n":%d}\n' % (n * n) for n in range(200_000))
    data = pack(rows)
    for cut in (len(data) // 2, len(data) - 1, 5):
        path = tmp_path / name
        path.write_bytes(data[:cut])
        with pytest.raises(ReadError, match="expected a whole compressed") as caught:
            read_file(path)
        assert str(path) == caught.value.source
        assert caught.value.line >= 1


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
def test_bytes_that_are_not_packed_are_an_error(tmp_path: Path, name: str) -> None:
    """Named as packed, plain inside."""
    path = tmp_path / name
    path.write_bytes(LINES)
    with pytest.raises(ReadError, match=rf"{name}:1: expected a whole compressed"):
        read_file(path)


@pytest.mark.parametrize(
    ("pack", "tool", "suffix"),
    [(gzip.compress, "gzip", ".gz"), (zstd, "zstd", ".zst")],
)
def test_packed_bytes_in_place_of_text_are_an_error(
    tmp_path: Path, pack: Callable[[bytes], bytes], tool: str, suffix: str
) -> None:
    """Once, with what to do; standard input, a wrong name, and packed twice."""
    expected = (
        f"expected lines of text, and the bytes look {tool}-compressed: unpack them"
        f" first ({tool} -dc), or name a file that ends in {suffix}"
    )
    with pytest.raises(ReadError) as caught:
        read_all(io.BytesIO(pack(LINES)), "-")
    assert str(caught.value) == f"-: {expected}"
    for name, data in (("a.log", pack(LINES)), (f"a{suffix}", pack(pack(LINES)))):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ReadError) as caught:
            read_file(path)
        assert str(caught.value) == f"{path}: {expected}"


def test_a_damaged_gzip_is_an_error(tmp_path: Path) -> None:
    """Its check sum is wrong."""
    data = bytearray(gzip.compress(LINES))
    data[-6] ^= 1
    path = tmp_path / "a.gz"
    path.write_bytes(data)
    with pytest.raises(ReadError, match="expected a whole compressed"):
        read_file(path)


def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Which, and why."""
    with (
        pytest.raises(
            ReadError, match=r"no\.ndjson: expected a readable file: no such"
        ),
        open_log(str(tmp_path / "no.ndjson")),
    ):
        pass
    with (
        pytest.raises(ReadError, match="expected a readable file: is a directory"),
        open_log(str(tmp_path)),
    ):
        pass


def test_a_log_that_cannot_be_read_is_an_error() -> None:
    """The system's reason, in its words, and the place."""

    class Failing(io.BytesIO):
        def read(self, _size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(ReadError, match=r"log:1: expected .*: input/output error"):
        read_all(Failing())

    class Nameless(io.BytesIO):
        def read(self, _size: int | None = -1) -> bytes:
            raise OSError

    with pytest.raises(ReadError, match=r"log:1: expected .*: cannot be read"):
        read_all(Nameless())


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes as they come."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES)))
    with open_log("-") as stream:
        assert LINES == stream.read(100)


def test_a_line_that_is_too_long_is_skipped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Across blocks, at the end, and at the very limit; the next one is read."""
    most = b"x" * MAX_EVENT_BYTES
    data = b"a\n" + most + b"\r\n" + most + b"xx\nb\n" + 3 * most + b"\nc\n" + 2 * most
    expected = [
        Line(1, b"a"),
        Line(2, most),
        Line(3, None, START),
        Line(4, b"b"),
        Line(5, None, START),
        Line(6, b"c"),
        Line(7, None, START),
    ]
    assert expected == read_all(io.BytesIO(data))
    for size in (1000, MAX_EVENT_BYTES + 1, 10 * MAX_EVENT_BYTES):
        monkeypatch.setattr(reader, "BLOCK_BYTES", size)
        assert expected == read_all(io.BytesIO(data))


def test_any_size_of_block_gives_the_same_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A line may end anywhere."""
    for size in range(1, len(LINES) + 2):
        monkeypatch.setattr(reader, "BLOCK_BYTES", size)
        assert READ == read_all(io.BytesIO(LINES))


def test_what_is_left_of_a_skipped_line_is_not_kept() -> None:
    """Memory holds no more than one event's bytes."""
    splitter = reader._Splitter()
    for _ in range(8):
        assert [] == splitter.split(b"x" * MAX_EVENT_BYTES)
        assert len(splitter._rest) <= MAX_EVENT_BYTES + 1
    assert [Line(1, None, START)] == splitter.end()


class Growing:
    """A log that grows while it is followed."""

    def __init__(self, *blocks: bytes) -> None:
        self.blocks = list(blocks)

    def read(self, _size: int) -> bytes:
        return self.blocks.pop(0)


def test_following_waits_for_more_and_ends_when_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A half line is a line only when the end is the end."""
    monkeypatch.setattr(reader, "FOLLOW_INTERVAL_S", 0)
    stream = Growing(b"a\nb", b"", b"c\nd", b"", b"")
    answers: Iterator[bool] = iter([True, True, False])
    idle: list[int] = []
    blocks = list(
        read_lines(
            stream, "log", follow=lambda: next(answers), idle=lambda: idle.append(1)
        )
    )
    assert [[Line(1, b"a")], [Line(2, b"bc")], [Line(3, b"d")]] == blocks
    assert [1, 1] == idle


def test_following_needs_nobody_to_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """``idle`` may be left out."""
    monkeypatch.setattr(reader, "FOLLOW_INTERVAL_S", 0)
    answers = iter([True, False])
    stream = Growing(b"a\n", b"", b"")
    lines = list(read_lines(stream, "log", follow=lambda: next(answers)))
    assert [[Line(1, b"a")], []] == lines


def test_an_error_names_source_and_line() -> None:
    """The line where there is one."""
    assert "log:3: why" == str(ReadError("log", "why", 3))
    assert "log: why" == str(ReadError("log", "why"))
    assert ("log", 3) == (ReadError("log", "why", 3).source, 3)


def test_a_standard_input_that_is_closed_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`pathgate replay - <&-`: Python has no stream there."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ReadError, match="-: expected an open standard input"):
        open_log("-").__enter__()
