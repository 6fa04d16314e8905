"""Where suites come from, and runs that are held against an earlier one."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from tests.broker.worker.process import PATIENCE_S
from tests.broker.worker.site import Site, reason_codes
from tests.broker.worker.workload import GATED, RunLog, gated_run, suite

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka]

MakeSite = Callable[..., Awaitable[Site]]


async def test_a_suite_that_comes_after_its_runs_has_them_graded(
    make_site: MakeSite,
) -> None:
    """Closed as of an unknown suite, then graded: a run in memory, and a stored one."""
    site = await make_site(cache_runs=1)
    worker = await site.worker()
    runs = [gated_run(f"acme/run-{number:012d}") for number in range(20)]
    # Still open when the suite comes.
    running = RunLog("acme/run-running-0001")
    running.start(GATED)
    running.call("search")
    await site.publish(*(run.log for run in runs), running.log)
    await site.published.wait_for(lambda seen: len(seen.suites) == len(runs))
    for run in runs:
        (record,) = site.published.summaries(run.run_id)
        assert ["unknown-suite"] == reason_codes(record)
        assert "unknown-suite" in site.published.alert_kinds(run.run_id)
    await site.publish_suite(GATED)
    site.suites.append(GATED)
    rest = [running.score("task-0"), running.complete()]
    await site.publish(rest)
    events = [event for run in (*runs, running) for event in run.log]
    expected = site.expected(events)
    await site.settles(expected)
    assert all(json.loads(one)["summary"]["passed"] for one in expected.suites.values())
    # Known at once after a restart, and nothing is published again.
    assert 0 == await worker.stop()
    before = {topic: len(seen) for topic, seen in site.published.records.items()}
    await site.worker("w2")
    last = gated_run("acme/run-000000000099")
    await site.publish(last.log)
    events += last.log
    await site.settles(site.expected(events))
    after = {topic: len(seen) for topic, seen in site.published.records.items()}
    before[site.names.suite_summary] += 1
    before[site.names.task_summary] += 1
    assert before == after


async def test_a_broken_suite_stops_nothing(make_site: MakeSite) -> None:
    """Its place is logged, its text is not; suites after it are taken."""
    site = await make_site()
    worker = await site.worker()
    secret = "in-strict-confidence"  # noqa: S105 - planted, to be looked for
    broken = suite("broken", [{"match": secret}])
    await site.publish_suite(broken)
    await site.publish_suite(GATED)
    site.suites.append(GATED)
    run = gated_run("acme/run-000000000001")
    await site.publish(run.log)
    await site.settles(site.expected(run.log))
    (line,) = worker.lines("suite_unusable")
    assert "$.tasks[0].expected.trajectory.match" == line["path"]
    assert f"{site.names.suite_definition}/0/0" == line["source"]
    assert secret not in worker.text()


async def test_one_version_with_two_contents_is_refused(make_site: MakeSite) -> None:
    """Directory and topic differ at the start: 78, and both places are named."""
    site = await make_site(suites=[GATED])
    await site.publish_suite(GATED | {"thresholds": {"passScore": 0.01}})
    worker = site.start_worker()
    assert 78 == await worker.ended()
    key = f"{GATED['suiteId']}@{GATED['version']}"
    place = f"{site.names.suite_definition}/0/0"
    assert f"{key}: {place} and {site.home}/suites/" in worker.text()


async def test_a_version_that_changes_does_not_change_the_worker(
    make_site: MakeSite,
) -> None:
    """It goes on by what it knows and says so; one that starts takes the newest."""
    site = await make_site()
    loose = GATED | {"thresholds": {"passScore": 0.01}}
    await site.publish_suite(loose)
    await site.publish_suite(GATED)
    site.suites.append(GATED)
    worker = await site.worker()
    await site.publish_suite(loose)
    async with asyncio.timeout(PATIENCE_S):
        while not worker.lines("suite_conflict"):
            await asyncio.sleep(0.05)
    (line,) = worker.lines("suite_conflict")
    assert f"{site.names.suite_definition}/0/2" == line["source"]
    # Between the two bars: the loose suite would pass it.
    run = RunLog("acme/run-000000000001")
    run.start(GATED)
    run.call("search")
    run.score("task-0", score=0.02)
    run.complete()
    await site.publish(run.log)
    expected = site.expected(run.log)
    (record,) = expected.suites.values()
    assert not json.loads(record)["summary"]["passed"]
    await site.settles(expected)


async def test_a_run_is_held_against_its_baseline(make_site: MakeSite) -> None:
    """The difference to a run on another partition that was published before."""
    site = await make_site(suites=[GATED])
    await site.worker()
    ids = [f"acme/run-{number:012d}" for number in range(40)]
    base = gated_run(ids[0], completes=False)
    base.complete()
    other = next(one for one in ids if site.home_of(one) != site.home_of(ids[0]))
    run = RunLog(other)
    run.start(GATED, baselineRunId=base.run_id)
    run.call("search")
    run.score("task-0", 0.75)
    run.complete(aggregate=0.75)
    await site.publish(base.log)
    await site.settles(site.expected(base.log))
    await site.publish(run.log)
    expected = site.expected([*base.log, *run.log])
    await site.settles(expected)
    # 0.75 - 1
    (record,) = site.published.summaries(run.run_id)
    assert {"baselineRunId": base.run_id, "scoreDelta": -0.25} == record["summary"][
        "regression"
    ]
