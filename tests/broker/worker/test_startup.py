"""What ends a worker, with which code, and what it says."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from deploy.kafka.broker import KafkaCluster, free_ports
from streams.datadir import LAYOUT_VERSION
from streams.serve import check_cluster
from tests.broker.worker.site import PARTITIONS, Site
from tests.broker.worker.workload import GATED, gated_run, mixed

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka]

MakeSite = Callable[..., Awaitable[Site]]
StartKafka = Callable[..., KafkaCluster]

# sysexits.h, as the command line's help has them.
UNAVAILABLE, INTERNAL, CONFIGURATION = 69, 70, 78


async def _recreate(site: Site, topic: str, partitions: int | None) -> None:
    """Deletes a topic; creates it again with so many partitions, if any."""
    admin = AIOKafkaAdminClient(bootstrap_servers=site.bootstrap)
    await admin.start()
    try:
        await admin.delete_topics([topic])
        async with asyncio.timeout(20):
            while topic in await admin.list_topics():
                await asyncio.sleep(0.05)
        if partitions:
            await admin.create_topics([NewTopic(topic, partitions, 1)])
            async with asyncio.timeout(20):
                while topic not in await admin.list_topics():
                    await asyncio.sleep(0.05)
    finally:
        await admin.close()


async def test_a_missing_topic_is_named(make_site: MakeSite) -> None:
    """Exit 78, the topic's name, and the command that helps."""
    site = await make_site(suites=[GATED])
    await _recreate(site, site.names.eval_scored, None)
    worker = site.start_worker()
    assert CONFIGURATION == await worker.ended()
    (line,) = worker.text().splitlines()
    assert f"{site.names.eval_scored}: does not exist" in line
    assert "pathgate topics create" in line


@pytest.mark.parametrize("field", ["tool_called", "runs_changelog", "suite_summary"])
async def test_a_wrong_partition_count_is_named(
    make_site: MakeSite, field: str
) -> None:
    """Exit 78 for a source, a changelog and an output with one partition too many."""
    site = await make_site(suites=[GATED])
    topic: str = getattr(site.names, field)
    await _recreate(site, topic, PARTITIONS + 1)
    worker = site.start_worker()
    assert CONFIGURATION == await worker.ended()
    text = worker.text()
    assert f"{topic}: has {PARTITIONS + 1} partitions, {PARTITIONS} are needed" in text


async def test_an_unreachable_broker_is_named(make_site: MakeSite) -> None:
    """Exit 69 within a minute, with the address that nobody listens on."""
    site = await make_site(suites=[GATED])
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    worker = site.start_worker(bootstrap_servers=address)
    assert UNAVAILABLE == await worker.ended(30)
    assert address in worker.text()


async def test_a_state_directory_in_use_is_refused(make_site: MakeSite) -> None:
    """Exit 78 for a second worker; the first goes on."""
    site = await make_site(suites=[GATED])
    first = await site.worker("w1")
    second = site.start_worker("w2", data_dir=str(site.home / "w1"))
    assert CONFIGURATION == await second.ended()
    assert f"data_dir: {site.home / 'w1'}: another worker uses it" in second.text()
    run = gated_run("acme/run-000000000001")
    await site.publish(run.log)
    await site.settles(site.expected(run.log))
    assert first.is_running


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        ("letter.txt", None, "expected an empty directory or one of pathgate's"),
        ("pathgate.json", None, "expected pathgate's mark"),
        ("pathgate.json", {"cluster_id": "else"}, "is of cluster_id else"),
        ("pathgate.json", {"app_id": "else"}, "is of app_id else"),
        ("pathgate.json", {"layout": 999}, "is of layout 999"),
        ("pathgate.json", {"partitions": 7}, "born with 7 partitions"),
    ],
    ids=["foreign", "damaged", "cluster", "app", "newer", "partitions"],
)
async def test_a_state_directory_that_is_not_ours_is_refused(
    make_site: MakeSite, file: str, change: dict[str, object] | None, says: str
) -> None:
    """Exit 78, and nothing in it is touched."""
    site = await make_site(suites=[GATED])
    path = site.home / "w1"
    path.mkdir()
    mark = {
        "layout": LAYOUT_VERSION,
        "cluster_id": await check_cluster(site.settings),
        "app_id": site.settings.app_id,
        "partitions": PARTITIONS,
    }
    text = "dear mum" if change is None else json.dumps(mark | change)
    (path / file).write_text(text, encoding="utf-8")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    worker = site.start_worker()
    assert CONFIGURATION == await worker.ended()
    assert says in worker.text()
    assert before == {file: file.read_bytes() for file in before}


async def test_sigterm_under_load_drains_and_commits(make_site: MakeSite) -> None:
    """Exit 0 in seconds; what was read is written, the next worker does the rest."""
    work = mixed(200, seed=5, ordinary=1.0)
    site = await make_site(suites=work.suites, run_idle_timeout_s=3)
    worker = await site.worker()
    publishing = asyncio.create_task(site.publish(*work.logs))
    await site.published.wait_for(lambda seen: len(seen.suites) > 5)
    assert 0 == await worker.stop(20)
    (stopped,) = worker.lines("worker_stopped")
    assert stopped["took_s"] < 15
    assert any((await site.group_offsets()).values())
    await publishing
    await site.worker()
    await site.settles(site.expected(work.events))


@pytest.mark.chaos
async def test_sigterm_while_the_broker_is_away_ends_the_worker(
    start_kafka: StartKafka, make_site: MakeSite
) -> None:
    """In bounded time, though it can commit nothing."""
    cluster = await asyncio.to_thread(start_kafka)
    site = await make_site(on=cluster, suites=[GATED])
    worker = await site.worker()
    run = gated_run("acme/run-000000000001", completes=False)
    await site.publish(run.log[:2])
    await asyncio.to_thread(cluster.stop_broker, 1)
    # Below the 120 s that the chart and the compose file leave a worker.
    await worker.stop(100)
    await asyncio.to_thread(cluster.start_broker, 1)
    await site.publish(run.log[2:])
    await site.worker()
    await site.settles(site.expected(run.log))
