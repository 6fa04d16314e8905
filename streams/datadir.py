"""The worker's state directory: one worker's, of one cluster, or refused."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from streams.errors import ConfigurationError

LAYOUT_VERSION = 1
_LOCK = "worker.lock"
_MARK = "pathgate.json"


class DataDirError(ConfigurationError):
    """The state directory cannot be used; the text says what to do."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What a state directory belongs to.

    Args:
        layout: Version of what is in it.
        cluster_id: The Kafka cluster whose changelogs it is a copy of.
        app_id: Consumer group and first part of the changelogs' names.
        partitions: Partitions the tables were born with.
    """

    layout: int
    cluster_id: str
    app_id: str
    partitions: int


class DataDir:
    """A locked state directory; released when closed.

    Args:
        path: The directory; made if it is missing.
        mark: What it has to belong to.

    Raises:
        DataDirError: Another worker holds it, it belongs to another cluster or
            app or partition count, or it is of a newer layout.
    """

    def __init__(self, path: Path, mark: Mark) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise DataDirError(
                f"data_dir: {path}: cannot be written: {error.strerror}"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise DataDirError(
                f"data_dir: {path}: another worker uses it; give each its own"
            ) from None
        try:
            self._claim(mark)
        except DataDirError:
            self.close()
            raise

    def __enter__(self) -> Self:
        """The directory itself; leaving releases it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Releases the directory, whatever happened."""
        self.close()

    def close(self) -> None:
        """Lets another worker have it."""
        os.close(self._lock)

    def _claim(self, mark: Mark) -> None:
        file = self.path / _MARK
        if not file.exists():
            if self._foreign():
                raise DataDirError(
                    f"data_dir: {self.path}: expected an empty directory or one of"
                    " pathgate's; it holds something else"
                )
            file.write_bytes(msgspec.json.encode(mark))
            return
        try:
            found = msgspec.json.decode(file.read_bytes(), type=Mark)
        except (OSError, msgspec.DecodeError) as error:
            raise DataDirError(
                f"data_dir: {file}: expected pathgate's mark; remove the directory,"
                " the state comes back from the changelog"
            ) from error
        if found == mark:
            return
        if found.partitions != mark.partitions and found.app_id == mark.app_id:
            raise DataDirError(
                f"data_dir: {self.path}: born with {found.partitions} partitions, the"
                f" topics have {mark.partitions}: runs would change partition but not"
                ' their state; see "Another number of partitions" in deploy/README.md'
            )
        for name in Mark.__struct_fields__:
            theirs, ours = getattr(found, name), getattr(mark, name)
            if theirs != ours:
                raise DataDirError(
                    f"data_dir: {self.path}: is of {name} {theirs}, not {ours}; use"
                    " another directory, or remove it: the state comes back from the"
                    " changelog"
                )

    def _foreign(self) -> bool:
        return any(entry.name != _LOCK for entry in self.path.iterdir())
