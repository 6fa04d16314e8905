"""Killed, rebalanced, cut off: the newest records are the file grader's all the same."""

import asyncio
import random
import shutil
import signal
from collections.abc import Awaitable, Callable

import pytest

from deploy.kafka.broker import KafkaCluster
from tests.broker.worker.process import WorkerProcess
from tests.broker.worker.site import Site
from tests.broker.worker.workload import Log, Workload, mixed

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka, pytest.mark.chaos]

MakeSite = Callable[..., Awaitable[Site]]
StartKafka = Callable[..., KafkaCluster]

# What is to be interrupted has to take a while.
_RUNS_AT_ONCE = 4
_LIMIT_S = 100


async def _publish_slowly(site: Site, logs: list[Log], seconds: float) -> None:
    """Publishes runs over a stretch of time, as hosts do that are at work."""
    pause_s = seconds / len(logs) * _RUNS_AT_ONCE
    async with site.host() as host:
        for start in range(0, len(logs), _RUNS_AT_ONCE):
            await host.run_all(logs[start : start + _RUNS_AT_ONCE])
            # A rate, not a wait for something to happen.
            await asyncio.sleep(pause_s)


def _work(seed: int) -> Workload:
    return mixed(240, seed=seed, ordinary=1.0)


@pytest.mark.parametrize("topic_events", ["", "events"], ids=["five", "one"])
@pytest.mark.timeout(170)
async def test_five_kills_at_random_moments_change_no_record(
    make_site: MakeSite, topic_events: str
) -> None:
    """SIGKILL and a new start on the same disk, again and again; events come twice."""
    work = _work(31)
    site = await make_site(
        suites=work.suites,
        topic_events=topic_events,
        run_idle_timeout_s=20,
        # Long, so that much is read again.
        commit_interval_s=1.0,
        # A new process with the name of the old takes over at once.
        group_instance_id="w1",
    )
    chance = random.Random(1909)  # noqa: S311 - moments, not secrets
    worker = await site.worker()
    publishing = asyncio.create_task(_publish_slowly(site, work.logs, 20))
    again = 0.0
    for _ in range(5):
        await asyncio.sleep(chance.uniform(0.1, 3.0))
        again += await worker.metric("pathgate_events_duplicate_total")
        await worker.kill()
        worker = await site.worker()
    await publishing
    await site.settles(site.expected(work.events), _LIMIT_S)
    again += await worker.metric("pathgate_events_duplicate_total")
    # Read, stored, not committed, read again.
    assert again > 0


@pytest.mark.parametrize("standbys", [0, 1])
@pytest.mark.timeout(170)
async def test_workers_that_join_and_leave_change_no_record(
    make_site: MakeSite, standbys: int
) -> None:
    """A second joins, the first leaves, a third joins, the second is killed."""
    work = _work(32)
    site = await make_site(
        suites=work.suites, run_idle_timeout_s=20, standby_replicas=standbys
    )
    first = await site.worker("w1")
    publishing = asyncio.create_task(_publish_slowly(site, work.logs, 20))
    second = await site.worker("w2")
    await _shares(first, second)
    assert 0 == await first.stop()
    third = await site.worker("w3")
    await _shares(second, third)
    await second.kill()
    await publishing
    await site.settles(site.expected(work.events), _LIMIT_S)
    assert third.is_running


async def _shares(*workers: WorkerProcess) -> None:
    """Waits until each of them has read something."""
    for worker in workers:
        await worker.shows_that("pathgate_events_received_total", bool)


@pytest.mark.timeout(170)
async def test_an_empty_disk_changes_no_record(make_site: MakeSite) -> None:
    """Killed, its store deleted: the state comes back from the changelog."""
    work = _work(33)
    site = await make_site(
        suites=work.suites, run_idle_timeout_s=20, group_instance_id="w1"
    )
    logs = work.logs
    worker = await site.worker()
    half = len(logs) // 2
    cut = [log[: len(log) // 2] for log in logs[half:]]
    rest = [log[len(log) // 2 :] for log in logs[half:]]
    await site.publish(*logs[:half], *cut)
    await site.commits_all()
    await worker.kill()
    await asyncio.to_thread(shutil.rmtree, site.home / "w1")
    worker = await site.worker()
    await site.publish(*rest)
    await site.settles(site.expected(work.events), _LIMIT_S)


@pytest.mark.timeout(170)
async def test_a_stale_disk_changes_no_record(make_site: MakeSite) -> None:
    """A disk that slept while another worker went on is brought up to date."""
    work = _work(34)
    site = await make_site(suites=work.suites, run_idle_timeout_s=20)
    logs = work.logs
    third = len(logs) // 3
    parts = [
        [*logs[:third], *(log[: len(log) // 2] for log in logs[third:])],
        [log[len(log) // 2 :] for log in logs[third : 2 * third]],
        [log[len(log) // 2 :] for log in logs[2 * third :]],
    ]
    for name, part in zip(("w1", "w2", "w1"), parts, strict=True):
        worker = await site.worker(name)
        await site.publish(*part)
        await site.commits_all()
        if part is not parts[-1]:
            assert 0 == await worker.stop()
    await site.settles(site.expected(work.events), _LIMIT_S)


async def _keep_running(site: Site, name: str, stop: asyncio.Event) -> int:
    """Starts a worker again whenever it falls, as an orchestrator does."""
    falls = 0
    worker = site.start_worker(name)
    while not stop.is_set():
        if not worker.is_running:
            falls += 1
            worker = site.start_worker(name)
        await asyncio.sleep(0.5)
    return falls


@pytest.mark.parametrize("how", ["restart", "kill"])
@pytest.mark.timeout(170)
async def test_a_broker_restart_under_load_changes_no_record(
    start_kafka: StartKafka, make_site: MakeSite, how: str
) -> None:
    """The only broker goes and comes back; the worker may fall, and is started again."""
    cluster = await asyncio.to_thread(start_kafka)
    work = _work(35)
    site = await make_site(on=cluster, suites=work.suites, run_idle_timeout_s=30)
    over = asyncio.Event()
    keeping = asyncio.create_task(_keep_running(site, "w1", over))
    publishing = asyncio.create_task(_publish_slowly(site, work.logs, 12))
    await site.published.wait_for(lambda seen: len(seen.suites) > 10)
    await asyncio.to_thread(cluster.restart_broker, 1, kill=how == "kill")
    await publishing
    await site.settles(site.expected(work.events), _LIMIT_S)
    over.set()
    assert await keeping < 5


@pytest.mark.timeout(170)
async def test_a_worker_that_was_frozen_changes_no_record(make_site: MakeSite) -> None:
    """Stopped in its tracks until the group has given its partitions away, then woken."""
    work = _work(36)
    site = await make_site(suites=work.suites, run_idle_timeout_s=30)
    zombie = await site.worker("w1")
    logs = work.logs
    half = len(logs) // 2
    publishing = asyncio.create_task(_publish_slowly(site, logs[:half], 6))
    await site.published.wait_for(lambda seen: len(seen.suites) > 10)
    zombie.send(signal.SIGSTOP)
    heir = await site.worker("w2")
    await heir.shows_that("pathgate_events_received_total", bool)
    await publishing
    publishing = asyncio.create_task(_publish_slowly(site, logs[half:], 6))
    zombie.send(signal.SIGCONT)
    await publishing
    await site.settles(site.expected(work.events), _LIMIT_S)
    # Whatever the zombie wrote into the changelog: a new disk tells.
    for worker in (zombie, heir):
        await worker.kill()
    await site.worker("w3")
    await site.publish(*logs)
    await site.settles(site.expected(work.events), _LIMIT_S)
