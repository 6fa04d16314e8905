"""No verdict before its calls: what was acknowledged before a score counts with it."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from tests.broker.worker.site import Host, Site
from tests.broker.worker.workload import GATED, Event, RunLog, gated_run

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka]

MakeSite = Callable[..., Awaitable[Site]]


def _chatter(site: Site, partition: int, count: int) -> list[Event]:
    """Calls of ordinary runs of one partition."""
    events: list[Event] = []
    for number in itertools.count():
        run = RunLog(f"acme/chat-{number:012d}")
        if site.home_of(run.run_id) != partition:
            continue
        events.extend(run.call("search", {"text": "x" * 200}) for _ in range(100))
        if len(events) >= count:
            return events
    raise AssertionError


def _runs(site: Site, partition: int, count: int) -> list[RunLog]:
    """Runs of a partition; each ends with a forbidden call just before its score."""
    ids = (f"acme/run-{number:012d}" for number in itertools.count())
    homes = (run_id for run_id in ids if site.home_of(run_id) == partition)
    return [
        gated_run(run_id, "search", "wire_money")
        for run_id in itertools.islice(homes, count)
    ]


def _check_never_passed(site: Site, runs: list[RunLog]) -> None:
    for run in runs:
        records = site.published.summaries(run.run_id)
        assert [False] * len(records) == [r["summary"]["passed"] for r in records]
        # Both calls: the one that is allowed and the one that is not.
        assert 2 == records[0]["evidence"]["calls"]
        tasks = site.published.history(f"{run.run_id}#task-0")
        assert b'"code":"forbidden-tool"' in tasks[0].value


@pytest.mark.parametrize("clocks", ["right", "wrong"])
async def test_a_call_behind_a_backlog_counts_in_the_first_record(
    make_site: MakeSite, clocks: str
) -> None:
    """The scores are read at once, their calls after 20,000 others.

    With wrong clocks the scores seem to be older than the backlog.
    """
    site = await make_site(suites=[GATED], chunk_records=100)
    runs = _runs(site, 1, 5)
    async with site.host() as host:
        await host.send_all(_chatter(site, 1, 20_000))
        for run in runs:
            if clocks == "right":
                await host.run(run.log)
            else:
                await _run_in_the_past(host, run)
    await site.worker()
    await site.settles(site.expected(e for run in runs for e in run.log))
    _check_never_passed(site, runs)
    # Nothing was published that had to be taken back.
    assert [1] * 5 == [len(site.published.history(run.run_id)) for run in runs]


async def _run_in_the_past(host: Host, run: RunLog) -> None:
    for number, event in enumerate(run.log):
        is_call = event.type == "agent.tool-called"
        sent = await host.send(event, timestamp_ms=None if is_call else 1000 + number)
        await sent


async def test_calls_under_load_count_in_the_first_record(make_site: MakeSite) -> None:
    """Runs come one after another while the call topic is flooded."""
    site = await make_site(suites=[GATED], chunk_records=50, barrier_interval_s=0.005)
    runs = _runs(site, 2, 40)
    await site.worker()
    async with site.host() as host, site.host() as other:
        flood = asyncio.create_task(other.send_all(_chatter(site, 2, 30_000)))
        for run in runs:
            await host.run(run.log)
        await flood
    await site.settles(site.expected(e for run in runs for e in run.log))
    _check_never_passed(site, runs)


async def test_a_score_waits_for_no_topic_that_is_silent(make_site: MakeSite) -> None:
    """Empty topics, and one that ends in a transaction's marker, hold nothing up."""
    site = await make_site(suites=[GATED])
    await site.worker()
    run = gated_run("acme/run-000000000001", completes=False)
    async with site.host() as host:
        await host.abort_transaction(site.home_of(run.run_id))
        await host.run(run.log)
    await site.settles(site.expected(run.log))


async def test_a_call_that_is_acknowledged_late_reopens_the_pass(
    make_site: MakeSite,
) -> None:
    """A host that breaks the rule: the score is read before the call is published."""
    site = await make_site(suites=[GATED])
    await site.worker()
    run = gated_run("acme/run-000000000001", "search", "wire_money")
    late = next(event for event in run.log if b"wire_money" in event.data)
    await site.publish([event for event in run.log if event is not late])
    await site.published.wait_for(lambda seen: bool(seen.history(run.run_id)))
    (first,) = site.published.summaries(run.run_id)
    assert first["summary"]["passed"] is True
    await site.publish([late])
    await site.settles(site.expected(run.log))
    records = site.published.history(run.run_id)
    assert [b"1", b"2"] == [dict(one.headers)["ce_revision"] for one in records]
    assert site.published.summaries(run.run_id)[-1]["summary"]["passed"] is False
    reopened = [
        alert
        for alert in site.published.alerts(run.run_id)
        if alert["kind"] == "pass-reopened"
    ]
    assert [(2, "critical")] == [(one["revision"], one["severity"]) for one in reopened]
