"""The wall clock, for what closes abandoned runs; no verdict reads it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Gives the time."""

    def now_s(self) -> float:
        """Seconds since the epoch."""


class SystemClock:
    """The machine's clock."""

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return time.time()
