"""Bounds processes to a share of a processor each, where the system lets us.

As an orchestrator's CPU limit does: control groups, of version 1 or 2. With it,
several workers can be held against one on a machine whose processors they, the
broker and the loader would otherwise fight for.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PERIOD_US = 20_000
_ROOT = Path("/sys/fs/cgroup")
_V1 = _ROOT / "cpu"


class Quota:
    """A share of one processor for each process that is given; see ``open_quota``."""

    def __init__(self, home: Path, share: float) -> None:
        self._home = home
        self._share = share
        self._groups: list[Path] = []

    def bind(self, pid: int) -> None:
        """Bounds one process, with all its threads, from now on.

        Raises:
            OSError: Control groups may not be made here.
        """
        group = self._home / f"pathgate-bench-{os.getpid()}-{len(self._groups)}"
        group.mkdir()
        self._groups.append(group)
        quota_us = int(PERIOD_US * self._share)
        if self._home == _V1:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        (group / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        """Removes the groups of processes that have ended."""
        for group in self._groups:
            with suppress(OSError):
                group.rmdir()


@contextmanager
def open_quota(share: float) -> Iterator[Quota | None]:
    """A quota, tried out on nothing; None where control groups are not ours.

    Args:
        share: Of one processor, for each process; above 0.
    """
    home = _V1 if _V1.is_dir() else _ROOT
    trial = home / f"pathgate-bench-{os.getpid()}"
    try:
        trial.mkdir()
        is_ours = any(
            (trial / name).exists() for name in ("cpu.cfs_quota_us", "cpu.max")
        )
        trial.rmdir()
    except OSError:
        is_ours = False
    if not is_ours:
        yield None
        return
    quota = Quota(home, share)
    try:
        yield quota
    finally:
        quota.close()
