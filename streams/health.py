"""What is observed of a running worker, for probes and gauges."""

import asyncio
import time
from typing import Any

from streams.app import Worker
from streams.topics import TABLE_NAME
from streams.web import Facts, readiness

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
        now_s = time.monotonic()
        self._tick_s = now_s
        self._progress_s = now_s
        self._connected_s = now_s
        self._processed = -1
        self._rebalancing_since_s: float | None = None
        worker.metrics.progressed(worker.clock.now_s())

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
        since_s = self._rebalancing_since_s
        lost_s = now_s - self._connected_s
        return Facts(
            started=bool(self._worker.hub.assigned) or app.tables.actives_ready,
            recovery_remaining=self._recovery(),
            rebalancing_for_s=None if since_s is None else now_s - since_s,
            broker_lost_for_s=lost_s if lost_s > 2 * LOOK_INTERVAL_S else None,
            crashed=("stream-processors",) if app.crashed else (),
            loop_age_s=now_s - self._tick_s,
            last_progress_age_s=now_s - self._progress_s,
            lag_records=self._lag(),
            draining=self.draining,
        )

    def refresh_gauges(self) -> None:
        """Brings the gauges up to date; called at each scrape."""
        worker = self._worker
        now_s = worker.clock.now_s()
        for topic in worker.names.sources:
            records, last_ms = (
                worker.hub.lag_of(topic) if self._has_consumer else (0, None)
            )
            age_s = 0.0 if last_ms is None else now_s - last_ms / 1000
            worker.metrics.set_lag(topic, records, age_s)
        runs = trials = rows = 0
        for one in worker.hub.assigned.values():
            rows += one.sweeper.row_count
            for entry in one.shard.runs.values():
                runs += not entry.closed
                trials += entry.state.unsealed_trials
        worker.metrics.set_open(runs, trials, worker.hub.oldest_unsealed_s())
        worker.metrics.set_table_rows(TABLE_NAME, rows)
        worker.metrics.set_recovery_remaining(
            TABLE_NAME, sum(self._recovery().values())
        )
        worker.metrics.set_ready(ready=readiness(self.facts()).ok)

    def _look(self, now_s: float) -> None:
        app = self._worker.app
        if app.rebalancing:
            self._rebalancing_since_s = self._rebalancing_since_s or now_s
        else:
            self._rebalancing_since_s = None
        if self._is_connected():
            self._connected_s = now_s
        processed = self._worker.hub.processed_count
        held_up = app.rebalancing or not self._worker.hub.assigned
        if held_up or processed != self._processed or not self._lag():
            self._processed, self._progress_s = processed, now_s

    @property
    def _has_consumer(self) -> bool:
        return self._worker.app._consumer is not None  # noqa: SLF001  # the public name makes one

    def _is_connected(self) -> bool:
        """Whether any broker connection of the consumer is open."""
        if not self._has_consumer:
            return True
        thread: Any = self._worker.consumer._thread  # noqa: SLF001  # aiokafka tells its connections nowhere else
        client = getattr(getattr(thread, "_consumer", None), "_client", None)
        connections = getattr(client, "_conns", {})
        return client is None or any(c.connected() for c in connections.values())

    def _recovery(self) -> dict[str, int]:
        tables: Any = self._worker.app.tables
        if tables.actives_ready:
            return {}
        left: int = tables.recovery.active_remaining_total()
        return {TABLE_NAME: left} if left else {}

    def _lag(self) -> int:
        if not self._has_consumer:
            return 0
        return sum(self._worker.hub.lag_of(t)[0] for t in self._worker.names.sources)
