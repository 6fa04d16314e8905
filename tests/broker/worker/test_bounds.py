"""What a worker holds goes back once its runs are over."""

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.broker.worker.process import WorkerProcess
from tests.broker.worker.site import Site
from tests.broker.worker.workload import GATED, Event, gated_run

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka, pytest.mark.chaos]

MakeSite = Callable[..., Awaitable[Site]]

RUNS = 50_000


def _events(first: int, last: int) -> Iterator[Event]:
    """Small runs, one in ten of which stops in the middle."""
    for number in range(first, last):
        log = gated_run(f"acme/run-{number:012d}").log
        yield from log[:2] if number % 10 == 0 else log


def _rss_mib(worker: WorkerProcess) -> float:
    """Resident memory of the process."""
    for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(worker.pid)


@pytest.mark.timeout(300)
async def test_rows_and_memory_come_back_down(make_site: MakeSite) -> None:
    """50,000 runs, 5,000 of them abandoned: rows go to none, memory to a plateau."""
    site = await make_site(
        suites=[GATED],
        run_idle_timeout_s=5.0,
        late_window_s=2.0,
        closed_retention_s=4.0,
        late_start_window_s=10.0,
        cache_runs=2000,
    )
    worker = await site.worker()
    peaks = []
    async with site.host() as host:
        for first in range(0, RUNS, RUNS // 5):
            await host.send_all(_events(first, first + RUNS // 5))
            peaks.append(_rss_mib(worker))
    await worker.shows_that(
        "pathgate_runs_finished_total", lambda found: found >= RUNS, 200
    )
    assert RUNS / 10 == await worker.metric(
        "pathgate_runs_finished_total", outcome="abandoned"
    )
    await worker.shows("pathgate_state_rows", 0, 60)
    assert 0 == await worker.metric("pathgate_runs_open")
    rows = {one.key: one.value for one in await site.read(site.names.runs_changelog)}
    assert [] == [key for key, value in rows.items() if value is not None]
    # Half as many again need no more memory than the first did.
    await site.published.refresh()
    before = _rss_mib(worker)
    async with site.host() as host:
        await host.send_all(_events(RUNS, RUNS * 3 // 2))
    await worker.shows_that(
        "pathgate_runs_finished_total", lambda found: found >= RUNS * 3 // 2, 200
    )
    await worker.shows("pathgate_state_rows", 0, 60)
    after = _rss_mib(worker)
    print(json.dumps({"peaks": peaks, "before": before, "after": after}))  # noqa: T201 - the figures, for -s
    assert after < before + 60
