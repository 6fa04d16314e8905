"""Finished runs on disk, so that memory does not grow with their number."""

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from streams.core.bloom import BloomFilter


class Spooled(NamedTuple):
    """One finished run.

    Args:
        run_id: The run.
        row: Its stored state (``streams.core.rows``), so that a late event can
            be folded in.
        record: Bytes of its suite record; empty for a run that publishes none.
        tasks: Bytes of its task records, one a line.
        baseline: Run it names as baseline, or None.
        aggregate: Its ``aggregateScore``.
        is_open: Whether it was put aside ungraded: more may come, and its
            records are still to be made.
    """

    run_id: str
    row: bytes
    record: bytes
    tasks: bytes
    baseline: str | None
    aggregate: float
    is_open: bool = False


_SCHEMA = """
CREATE TABLE runs (run_id TEXT PRIMARY KEY, row BLOB, record BLOB, tasks BLOB,
                   baseline TEXT, aggregate REAL, is_open INTEGER)
"""
_OPEN = "CREATE INDEX open_runs ON runs (run_id) WHERE is_open"
_BATCH = 512


class Spool:
    """A temporary store of finished runs, removed when closed."""

    def __init__(self) -> None:
        # The folder outlives no one: it is removed by ``close``.
        self._folder = tempfile.TemporaryDirectory(prefix="pathgate-")
        self._db = sqlite3.connect(
            Path(self._folder.name) / "runs.sqlite", isolation_level=None
        )
        # Large pages and a table by row number: a run's bytes are appended, and
        # only its id goes to a random place. A fifth of the time of an index
        # that holds the bytes (measured with 6 KB a run).
        self._db.execute("PRAGMA page_size=16384")
        self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode=OFF")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute("PRAGMA cache_size=-16000")
        self._db.execute(_SCHEMA)
        self._db.execute(_OPEN)
        self._pending: dict[str, Spooled] = {}
        self._members = BloomFilter()

    def __enter__(self) -> Self:
        """The spool itself; leaving removes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Removes the store, whatever happened."""
        self.close()

    def put(self, run: Spooled) -> None:
        """Stores a run, over an earlier version of it."""
        self._members.add(run.run_id)
        self._pending[run.run_id] = run
        if len(self._pending) >= _BATCH:
            self._flush()

    def get(self, run_id: str) -> Spooled | None:
        """The stored run, or None."""
        if run_id not in self._members:
            return None
        pending = self._pending.get(run_id)
        if pending is not None:
            return pending
        found = self._db.execute(
            "SELECT * FROM runs WHERE run_id = ?", (run_id,)
        ).fetchone()
        return None if found is None else Spooled(*found)

    def aggregate_of(self, run_id: str) -> float | None:
        """``aggregateScore`` of a stored run that has a record, or None."""
        found = self.get(run_id)
        return found.aggregate if found is not None and found.record else None

    def with_baseline(self) -> list[str]:
        """Ids of the stored runs that name a baseline."""
        self._flush()
        rows = self._db.execute("SELECT run_id FROM runs WHERE baseline IS NOT NULL")
        return [run_id for (run_id,) in rows.fetchall()]

    def some_open(self) -> list[str]:
        """Ids of a few of the runs that were put aside; empty when none is."""
        self._flush()
        rows = self._db.execute(
            "SELECT run_id FROM runs WHERE is_open ORDER BY run_id LIMIT ?", (_BATCH,)
        )
        return [run_id for (run_id,) in rows.fetchall()]

    def __iter__(self) -> Iterator[Spooled]:
        """All stored runs, by run id."""
        self._flush()
        for found in self._db.execute("SELECT * FROM runs ORDER BY run_id"):
            yield Spooled(*found)

    def close(self) -> None:
        """Removes the store."""
        self._db.close()
        self._folder.cleanup()

    def _flush(self) -> None:
        if not self._pending:
            return
        self._db.execute("BEGIN")
        self._db.executemany(
            "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)",
            self._pending.values(),
        )
        self._db.execute("COMMIT")
        self._pending.clear()
