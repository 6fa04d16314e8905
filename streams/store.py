"""RocksDB as the worker opens it: one bound of memory for all its partitions.

Faust gives each partition a block cache and memtables of its own, so that a worker's
memory grows with its partitions, and for hundreds of thousands of runs. Here one
small cache is shared; what it has no room for is in the system's page cache.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from faust.stores.rocksdb import RocksDBOptions

_KIB, _MIB = 1 << 10, 1 << 20

# All partitions' together.
CACHE_BYTES = 16 * _MIB
MEMTABLES_BYTES = 24 * _MIB

_MEMTABLE_BYTES = 4 * _MIB
# Indices and filters stay in memory: 2 bytes a row of 1 kB with blocks of this size,
# 5 with RocksDB's 4 KiB.
_BLOCK_BYTES = 16 * _KIB
_FILTER_BITS = 10
_OPEN_FILES = 256


class StoreOptions(RocksDBOptions):
    """What every partition's store is opened with."""

    def __init__(self) -> None:
        import rocksdict  # noqa: PLC0415  # only a worker pays for it

        super().__init__(use_rocksdict=True)
        self._cache = rocksdict.Cache(CACHE_BYTES)
        self._memtables = rocksdict.WriteBufferManager(MEMTABLES_BYTES, False)  # noqa: FBT003  # takes no keywords

    def open(self, path: Path, *, read_only: bool = False) -> Any:
        """Opens the store of a partition; Faust never asks for a read-only one."""
        import rocksdict  # noqa: PLC0415

        if read_only:
            raise ValueError(f"a store opened read-only: {path}")
        return rocksdict.Rdict(str(path), self.as_options())

    def as_options(self) -> Any:
        """RocksDB's options, with the cache and the bound that all share."""
        import rocksdict  # noqa: PLC0415

        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(self._cache)
        table.set_block_size(_BLOCK_BYTES)
        table.set_bloom_filter(_FILTER_BITS, block_based=False)
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(create_if_missing=True)
        options.set_max_open_files(_OPEN_FILES)
        options.set_write_buffer_size(_MEMTABLE_BYTES)
        options.set_max_write_buffer_number(3)
        options.set_write_buffer_manager(self._memtables)
        options.set_block_based_table_factory(table)
        return options


def batch_of(rows: Iterable[tuple[Any, bytes | None]]) -> Any:
    """A batch that is written whole or not at all: key and value, None to remove."""
    import rocksdict  # noqa: PLC0415

    batch = rocksdict.WriteBatch(raw_mode=True)
    for key, value in rows:
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    return batch


def unfilling() -> Any:
    """Read options of what passes by once: it stays out of the cache."""
    import rocksdict  # noqa: PLC0415

    options: Any = rocksdict.ReadOptions()
    options.fill_cache(False)  # noqa: FBT003  # takes no keywords
    return options
