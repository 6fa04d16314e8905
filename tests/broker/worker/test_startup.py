"""What ends a worker, with which code, and what it says."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from deploy.kafka.broker import KafkaCluster, free_ports
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
            while topic in await admin.list_topics():  # noqa: ASYNC110 - the broker sets no event
                await asyncio.sleep(0.05)
        if partitions:
            await admin.create_topics([NewTopic(topic, partitions, 1)])
            async with asyncio.timeout(20):
                while topic not in await admin.list_topics():  # noqa: ASYNC110 - as above
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


def _foreign(path: Path) -> None:
    (path / "letters").mkdir(parents=True)
    (path / "letters" / "to-mum.txt").write_text("dear", encoding="utf-8")


def _other_cluster(path: Path) -> None:
    mark = json.loads((path / "pathgate.json").read_bytes())
    (path / "pathgate.json").write_text(json.dumps(mark | {"cluster_id": "else"}))


def _other_app(path: Path) -> None:
    mark = json.loads((path / "pathgate.json").read_bytes())
    (path / "pathgate.json").write_text(json.dumps(mark | {"app_id": "else"}))


def _newer(path: Path) -> None:
    mark = json.loads((path / "pathgate.json").read_bytes())
    (path / "pathgate.json").write_text(json.dumps(mark | {"layout": 999}))


def _damaged(path: Path) -> None:
    (path / "pathgate.json").write_bytes(b"{")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_foreign, "expected an empty directory or one of pathgate's"),
        (_other_cluster, "is of cluster_id else"),
        (_other_app, "is of app_id else"),
        (_newer, "is of layout 999"),
        (_damaged, "expected pathgate's mark"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_state_directory_that_is_not_ours_is_refused(
    make_site: MakeSite, change: Callable[[Path], None], says: str
) -> None:
    """Exit 78, and nothing in it is touched."""
    site = await make_site(suites=[GATED])
    path = site.home / "w1"
    if change is not _foreign:
        path.mkdir()
        mark = {
            "layout": 1,
            "cluster_id": "any",
            "app_id": site.settings.app_id,
            "partitions": PARTITIONS,
        }
        (path / "pathgate.json").write_text(json.dumps(mark), encoding="utf-8")
    change(path)
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


async def test_sigterm_while_the_broker_is_away_ends_the_worker(
    make_site: MakeSite, start_kafka: StartKafka
) -> None:
    """In bounded time, though it can commit nothing."""
    cluster = await asyncio.to_thread(start_kafka)
    site = await make_site(on=cluster, suites=[GATED])
    worker = await site.worker()
    run = gated_run("acme/run-000000000001", completes=False)
    await site.publish(run.log[:2])
    await asyncio.to_thread(cluster.stop_broker, 1)
    await worker.stop(60)
    await asyncio.to_thread(cluster.start_broker, 1)
    await site.publish(run.log[2:])
    await site.worker()
    await site.settles(site.expected(run.log))
