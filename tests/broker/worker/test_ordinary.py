"""Runs that are no evals leave nothing; runs that seemed to be none lose nothing."""

import json
import zlib
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from tests.broker.worker.site import PARTITIONS, Site, reason_codes
from tests.broker.worker.workload import CALL, GATED, Log, RunLog, gated_run, mixed

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka]

MakeSite = Callable[..., Awaitable[Site]]

ONE_TOPIC = pytest.mark.parametrize("topic_events", ["", "events"], ids=["five", "one"])


@ONE_TOPIC
async def test_ordinary_runs_leave_no_row(
    make_site: MakeSite, topic_events: str
) -> None:
    """Of 100 calls 95 are of ordinary runs, and no row is of those."""
    work = mixed(100, seed=95, ordinary=19)
    site = await make_site(
        suites=work.suites, topic_events=topic_events, run_idle_timeout_s=2
    )
    worker = await site.worker()
    await site.publish(*work.logs)
    expected = site.expected(work.events)
    await site.settles(expected)
    evals = {log[0].run_id for log in work.evals}
    rows = {record.key for record in await site.read(site.names.runs_changelog)}
    # b"r" + run id, or b"b" + run id + NUL + number of the block.
    runs = {key[1:].split(b"\0")[0].decode() for key in rows}
    assert evals == {run_id for run_id in runs if not run_id.startswith("fence/")}
    # The one row a run that is kept, and those of the three runs of the fence.
    await worker.shows("pathgate_state_rows", len(expected.suites) + PARTITIONS)
    dropped = await worker.metric("pathgate_ordinary_calls_dropped_total")
    calls = sum(event.type == CALL for log in work.ordinary for event in log)
    # Those calls, the ending of each run, and the few calls that eval runs of
    # this mix publish before their start.
    assert 0 <= dropped - calls - len(work.ordinary) < 50


def _late(run_id: str = "acme/run-000000000001") -> tuple[Log, Log]:
    """A run's forbidden calls, and the rest: on its own, it would pass."""
    run = gated_run(run_id, "wire_money", "wire_all", "search")
    early = [event for event in run.log if b"wire_" in event.data]
    return early, [event for event in run.log if event not in early]


def _check_counted(site: Site, run_id: str) -> None:
    records = site.published.summaries(run_id)
    assert [False] * len(records) == [r["summary"]["passed"] for r in records]
    assert records[-1]["evidence"] == {"calls": 3, "scores": 1}


@ONE_TOPIC
async def test_a_start_after_its_calls_were_dropped_has_them_counted(
    make_site: MakeSite, topic_events: str
) -> None:
    """The run is rebuilt from the topics; no record of it ever passes."""
    site = await make_site(suites=[GATED], topic_events=topic_events)
    worker = await site.worker()
    calls, rest = _late()
    await site.publish(calls)
    await site.commits_all()
    dropped = await worker.metric("pathgate_ordinary_calls_dropped_total")
    await site.publish(rest)
    await site.settles(site.expected([*calls, *rest]))
    assert (2, 1) == (dropped, await worker.metric("pathgate_late_starts_total"))
    _check_counted(site, calls[0].run_id)


@ONE_TOPIC
@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_dropped_calls_are_counted_across_a_restart(
    make_site: MakeSite, topic_events: str, how: str
) -> None:
    """The memory of dropped runs is made again before a new run is judged."""
    site = await make_site(
        suites=[GATED],
        topic_events=topic_events,
        # The new process takes over from the killed one at once.
        group_instance_id="w1",
    )
    worker = await site.worker()
    calls, rest = _late()
    # Many that have to be read again before the one that matters.
    chatter = [RunLog(f"acme/chat-{number:012d}") for number in range(300)]
    async with site.host() as host:
        await host.send_all(run.call("search") for run in chatter for _ in range(100))
    await site.publish(calls)
    await site.commits_all()
    if how == "kill":
        await worker.kill()
    else:
        assert 0 == await worker.stop()
    await site.publish(rest)
    await site.worker()
    await site.settles(site.expected([*calls, *rest]))
    _check_counted(site, calls[0].run_id)


def _crc32_home(run_id: str) -> int:
    """Where librdkafka's default partitioner puts a run."""
    return zlib.crc32(run_id.encode()) % PARTITIONS


def _split_id(site: Site) -> str:
    """A run id that the two partitioners put on two partitions."""
    return next(
        run_id
        for number in count()
        if site.home_of(run_id := f"acme/run-{number:012d}") != _crc32_home(run_id)
    )


@pytest.mark.parametrize("first", ["call", "rest"])
async def test_a_forbidden_call_on_the_wrong_partition_closes_the_run(
    make_site: MakeSite, first: str
) -> None:
    """A second producer with librdkafka's partitioner: the gate says so."""
    site = await make_site(suites=[GATED])
    worker = await site.worker()
    run_id = _split_id(site)
    run = gated_run(run_id, "search", "wire_money")
    stray = next(event for event in run.log if b"wire_money" in event.data)
    rest = [event for event in run.log if event is not stray]
    async with site.host() as host:
        if first == "call":
            await (await host.send(stray, partition=_crc32_home(run_id)))
            await site.published.wait_for(lambda _: True)
            await site.commits_all()
            await host.run(rest)
        else:
            await host.run(rest)
            await site.published.wait_for(lambda seen: bool(seen.history(run_id)))
            await (await host.send(stray, partition=_crc32_home(run_id)))
    await site.published.wait_for(
        lambda seen: "misrouted-events" in seen.alert_kinds(run_id),
        why=lambda seen: seen.summaries(run_id),
    )
    records = site.published.summaries(run_id)
    assert records[-1]["summary"]["passed"] is False
    assert "misrouted-events" in reason_codes(records[-1])
    assert 1 == await worker.metric("pathgate_misrouted_runs_total")
    passes = [record["summary"]["passed"] for record in records]
    # Known before the run was graded, it never passed.
    assert passes == ([False] * len(passes) if first == "call" else [True, False])


async def test_a_run_all_on_the_wrong_partition_passes_nowhere(
    make_site: MakeSite,
) -> None:
    """Every producer has the other partitioner: no record, and somebody is told."""
    site = await make_site(suites=[GATED])
    worker = await site.worker()
    run_id = _split_id(site)
    async with site.host() as host:
        for event in gated_run(run_id).log:
            await (await host.send(event, partition=_crc32_home(run_id)))
    await site.published.wait_for(
        lambda seen: "misrouted-events" in seen.alert_kinds(run_id)
    )
    await site.fence()
    for record in site.published.summaries(run_id):
        assert record["summary"]["passed"] is False
    assert 1 == await worker.metric("pathgate_misrouted_runs_total")


async def test_the_partitioner_of_all_hosts_may_be_crc32(make_site: MakeSite) -> None:
    """With ``partitioner=crc32``, librdkafka's runs are graded as any other."""
    site = await make_site(suites=[GATED], partitioner="crc32")
    worker = await site.worker()
    runs = [gated_run(f"acme/run-{number:012d}") for number in range(20)]
    async with site.host() as host:
        for run in runs:
            for event in run.log:
                await (await host.send(event, partition=_crc32_home(run.run_id)))
    await site.settles(
        site.expected(event for run in runs for event in run.log), fence=False
    )
    assert 0 == await worker.metric("pathgate_misrouted_runs_total")
    # A run's records are on the run's own partition.
    for record in site.published.records[site.names.suite_summary]:
        assert _crc32_home(record.key.decode()) == record.partition
    assert all(
        json.loads(value or b"")["summary"]["passed"]
        for value in site.published.suites.values()
    )
