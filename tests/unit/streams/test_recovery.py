"""What a store holds of a changelog after the process was killed."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faust.stores.rocksdb import RocksDBOptions, Store

ROOT = Path(__file__).parents[3]
BATCH = 50

# Ends without a word to the store, as by SIGKILL.
_FILL = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from streams.recovery import unlogged_writes
from tests.unit.streams.test_recovery import BATCH, LOGGED, open_store, records

where, batches = sys.argv[1], int(sys.argv[2])
store = open_store(Path(where))
if sys.argv[3] == "within":
    with unlogged_writes() as write:
        for number in range(batches):
            write(store, 0, records(number * BATCH))
        os._exit(0)
try:
    with unlogged_writes() as write:
        for number in range(batches):
            write(store, 0, records(number * BATCH))
        if sys.argv[3] == "error":
            raise TimeoutError
except TimeoutError:
    pass
store._db_for_partition(0).put(store.offset_key, b"%d" % LOGGED)
os._exit(0)
"""
LOGGED = 1_000_000


def open_store(path: Path) -> Any:
    """A store of Faust's with one partition, as far as recovery uses it."""
    database = RocksDBOptions(
        use_rocksdict=True, write_buffer_size=64 * 1024, block_cache_size=1 << 20
    ).open(path)
    return SimpleNamespace(
        offset_key=Store.offset_key, _db_for_partition=lambda _: database
    )


def records(first: int) -> list[Any]:
    """Rows of 1 kB, one a key, with their offsets; and one that is removed again."""
    rows = [
        SimpleNamespace(offset=at, key=b"r%06d" % at, value=b"x" * 1024)
        for at in range(first, first + BATCH)
    ]
    gone = [
        SimpleNamespace(offset=first, key=b"gone", value=value)
        for value in (b"row", None)
    ]
    return [*gone, *rows]


def left_by(path: Path, batches: int, how: str) -> tuple[int | None, list[int]]:
    """Offset and rows that a process left behind that was killed.

    Args:
        path: Of the store.
        batches: Written without a log.
        how: Killed "within" the context, or after it was left by an "error" or
            the "end", and another offset was written in the ordinary way.
    """
    subprocess.run(
        [sys.executable, "-c", _FILL, str(path), str(batches), how],
        check=True,
        cwd=ROOT,
    )
    store = open_store(path)
    rows = dict(store._db_for_partition(0).items())
    offset = rows.pop(store.offset_key, None)
    return None if offset is None else int(offset), sorted(int(key[1:]) for key in rows)


def test_a_kill_leaves_an_offset_and_all_rows_up_to_it(tmp_path: Path) -> None:
    """What was in memory is lost with its offset, and read again."""
    offset, rows = left_by(tmp_path, 40, "within")
    assert offset is not None
    assert 0 < offset < 40 * BATCH - 1
    assert list(range(offset + 1)) == rows


@pytest.mark.parametrize("how", ["end", "error"])
def test_nothing_is_left_in_memory_for_a_later_write_to_pass(
    tmp_path: Path, how: str
) -> None:
    """An offset that is logged outlives a kill: what it stands on must, too."""
    offset, rows = left_by(tmp_path, 3, how)
    assert offset == LOGGED
    assert list(range(3 * BATCH)) == rows
