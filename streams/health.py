"""What is observed of a running worker, for probes and gauges."""

import asyncio
import time
from typing import Any

from streams.app import Worker
from streams.topics import TABLE_NAME
from streams.web import Facts

LOOK_INTERVAL_S = 1.0


class Observed:
    """Observes one worker; asks no broker.

    Args:
        worker: The worker.

    Attributes:
        draining: Whether it was told to stop.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.draining = False
        self._tick_s = time.monotonic()
        self._progress_s = time.monotonic()
        self._processed = -1
        self._rebalancing_since_s: float | None = None

    async def watch(self) -> None:
        """Looks at the worker every second, until cancelled."""
        while True:
            now_s = time.monotonic()
            self._tick_s = now_s
            self._look(now_s)
            await asyncio.sleep(LOOK_INTERVAL_S)

    def facts(self) -> Facts:
        """What is observed now."""
        app = self._worker.app
        now_s = time.monotonic()
        started = bool(self._worker.hub.assigned)
        since_s = self._rebalancing_since_s
        return Facts(
            started=started or app.tables.actives_ready,
            recovery_remaining=self._recovery(),
            rebalancing_for_s=None if since_s is None else now_s - since_s,
            crashed=("stream-processors",) if app.crashed else (),
            loop_age_s=now_s - self._tick_s,
            last_progress_age_s=now_s - self._progress_s,
            lag_records=sum(self._lag().values()),
            draining=self.draining,
        )

    def refresh_gauges(self) -> None:
        """Brings the gauges up to date; called at each scrape."""
        worker = self._worker
        by_topic: dict[str, int] = dict.fromkeys(worker.names.sources, 0)
        lag = self._lag()
        for topic in by_topic:
            by_topic[topic] = lag.get(topic, 0)
        for topic, records in by_topic.items():
            worker.metrics.set_lag(topic, records, self._age_s() if records else 0.0)
        runs = trials = rows = 0
        for one in worker.hub.assigned.values():
            rows += one.sweeper.row_count
            for entry in one.shard.runs.values():
                if not entry.closed:
                    runs += 1
                    trials += len(entry.state.unsealed)
        worker.metrics.set_open(runs, trials)
        worker.metrics.set_table_rows(TABLE_NAME, rows)
        remaining = sum(self._recovery().values())
        worker.metrics.set_recovery_remaining(TABLE_NAME, remaining)
        ready = bool(worker.hub.assigned) and not self.draining
        worker.metrics.set_ready(ready=ready)

    def _age_s(self) -> float:
        return time.monotonic() - self._progress_s

    def _look(self, now_s: float) -> None:
        app = self._worker.app
        if app.rebalancing:
            self._rebalancing_since_s = self._rebalancing_since_s or now_s
        else:
            self._rebalancing_since_s = None
        processed = self._worker.hub.processed_count
        if processed != self._processed or not sum(self._lag().values()):
            self._processed, self._progress_s = processed, now_s

    def _recovery(self) -> dict[str, int]:
        tables: Any = self._worker.app.tables
        if tables.actives_ready:
            return {}
        left: int = tables.recovery.active_remaining_total()
        return {TABLE_NAME: left} if left else {}

    def _lag(self) -> dict[str, int]:
        lag: dict[str, int] = {}
        if self._worker.app._consumer is None:  # noqa: SLF001  # the public name makes one
            return lag
        for tp, records in self._worker.consumer.committed_lag().items():
            lag[tp.topic] = lag.get(tp.topic, 0) + records
        return lag
