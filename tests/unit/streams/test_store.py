"""What a worker's stores may use together, however many partitions it has."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streams.app import create_app
from streams.settings import Settings
from streams.store import CACHE_BYTES, MEMTABLES_BYTES, StoreOptions
from streams.tables import RUN_PREFIX, PartitionRows, RunTable, run_key

ROWS = 2_000
WRITTEN_S = 20.0


def filled(path: Path, options: StoreOptions) -> Any:
    """A store with rows of 1 kB on the disk, none of them in the cache."""
    store = options.open(path)
    for number in range(ROWS):
        store.put(run_key(f"{number:05}"), bytes(1000) + b"%d" % number)
    store.flush()
    return store


def cached(store: Any) -> int:
    """Bytes of rows in the cache that a store uses."""
    return int(store.property_int_value("rocksdb.block-cache-usage"))


def rows_of(store: Any) -> PartitionRows:
    """The rows of a partition with this store."""
    table = SimpleNamespace(
        changelog_topic=SimpleNamespace(get_topic_name=lambda: "changelog"),
        data=SimpleNamespace(_db_for_partition=lambda _: store),
    )
    return PartitionRows(cast("RunTable", table), 0)


def test_partitions_share_one_cache(tmp_path: Path) -> None:
    """What one reads takes room of all."""
    options = StoreOptions()
    one, other = (filled(tmp_path / name, options) for name in ("one", "other"))
    assert CACHE_BYTES == one.property_int_value("rocksdb.block-cache-capacity")
    empty = cached(other)
    assert rows_of(one).get(run_key("00100")) is not None
    assert cached(other) == cached(one) > empty


def test_a_scan_leaves_the_cache_as_it_is(tmp_path: Path) -> None:
    """A sweep goes over every row, and asks for none again."""
    store = filled(tmp_path, StoreOptions())
    empty = cached(store)
    assert len(rows_of(store).scan(RUN_PREFIX, ROWS + 1)) == ROWS
    assert cached(store) == empty


def test_memtables_of_many_partitions_are_bounded_together(tmp_path: Path) -> None:
    """20 partitions with 3 MB each, of which none reached its own bound.

    Only one that is written to gives room, so that it is a bound with a margin.
    """
    options = StoreOptions()
    stores = [options.open(tmp_path / str(number)) for number in range(20)]
    for number in range(3):
        for store in stores:
            store.put(b"r%d" % number, bytes(1_000_000))

    def held() -> int:
        sizes = [
            store.property_int_value("rocksdb.cur-size-all-mem-tables")
            for store in stores
        ]
        return sum(sizes)

    # What is being written to the disk counts until it is there.
    deadline_s = time.monotonic() + WRITTEN_S
    while held() > 1.5 * MEMTABLES_BYTES and time.monotonic() < deadline_s:
        time.sleep(0.05)
        for store in stores:
            store.put(b"r0", b"")
    assert held() <= 1.5 * MEMTABLES_BYTES


def test_no_store_is_opened_for_reading_alone(tmp_path: Path) -> None:
    """Rather than a store that can be written to where none was asked for."""
    with pytest.raises(ValueError, match="read-only"):
        StoreOptions().open(tmp_path, read_only=True)


@pytest.mark.asyncio
async def test_the_table_of_runs_opens_its_stores_so(tmp_path: Path) -> None:
    """Faust's own options would give each partition a cache."""
    settings = Settings.load({"data_dir": str(tmp_path)}, {})
    app = create_app(settings, lambda _topic, _left: None)
    table = RunTable(app, name="runs", key_type=bytes, value_type=bytes)
    store: Any = table.data
    assert isinstance(store.rocksdb_options, StoreOptions)
