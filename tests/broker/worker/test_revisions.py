"""What comes after a run was graded: what counts is published, the rest is not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.broker.worker.site import Site
from tests.broker.worker.workload import (
    GATED,
    RunLog,
    gated_run,
    mixed,
    suite,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka]

MakeSite = Callable[..., Awaitable[Site]]


async def test_duplicates_publish_nothing(make_site: MakeSite) -> None:
    """Every event once more after all is graded: not one further record."""
    work = mixed(60, seed=7, ordinary=0.5)
    site = await make_site(suites=work.suites, run_idle_timeout_s=1.5)
    worker = await site.worker()
    await site.publish(*work.logs)
    expected = site.expected(work.events)
    await site.settles(expected)
    before = {topic: len(seen) for topic, seen in site.published.records.items()}
    await site.publish(*work.logs)
    await site.commits_all()
    await site.settles(expected)
    after = {topic: len(seen) for topic, seen in site.published.records.items()}
    assert before == after
    assert 0 < await worker.metric("pathgate_events_duplicate_total")


async def test_a_verdict_of_the_host_that_comes_late_is_held_against_ours(
    make_site: MakeSite,
) -> None:
    """Graded after the grace; the host's own figures make a second revision."""
    site = await make_site(suites=[GATED], host_verdict_grace_s=0.2)
    await site.worker()
    run = gated_run("acme/run-000000000001", completes=False)
    await site.publish(run.log)
    await site.published.wait_for(lambda seen: bool(seen.history(run.run_id)))
    verdict = run.complete(passed=False, aggregate=0.25)
    await site.publish([verdict])
    await site.settles(site.expected(run.log))
    first, second = site.published.summaries(run.run_id)
    assert "host" not in first
    kinds = [one["kind"] for one in second["host"]["disagreements"]]
    assert ["verdict-differs", "aggregate-differs", "counts-differ"] == kinds
    # The task's own record does not change with what the host says of the run.
    assert 1 == len(site.published.history(f"{run.run_id}#task-0"))


async def test_an_extra_trial_after_the_end_closes_the_gate(
    make_site: MakeSite,
) -> None:
    """A score more than declared, after the run was passed and its worker gone."""
    site = await make_site(suites=[GATED])
    worker = await site.worker()
    run = gated_run("acme/run-000000000001")
    await site.publish(run.log)
    await site.settles(site.expected(run.log))
    assert 0 == await worker.stop()
    await site.publish([run.score("task-0", 0.5)])
    await site.worker()
    await site.settles(site.expected(run.log))
    passes = [one["summary"]["passed"] for one in site.published.summaries(run.run_id)]
    assert [True, False] == passes
    assert "pass-reopened" in site.published.alert_kinds(run.run_id)


async def test_a_run_whose_state_was_removed_is_not_begun_anew(
    make_site: MakeSite,
) -> None:
    """A forbidden call after all that is alerted; the record stays; so after a restart."""
    site = await make_site(
        suites=[GATED],
        late_window_s=1.0,
        closed_retention_s=3600,
        host_verdict_grace_s=0.1,
    )
    worker = await site.worker()
    run = gated_run("acme/run-000000000001")
    await site.publish(run.log)
    await site.published.wait_for(lambda seen: bool(seen.history(run.run_id)))
    row = b"r" + run.run_id.encode()

    async def size() -> int:
        rows = {
            one.key: one.value for one in await site.read(site.names.runs_changelog)
        }
        return len(rows[row] or b"")

    async with asyncio.timeout(20):
        while await size() > 60:
            await asyncio.sleep(0.2)
    late = RunLog(run.run_id, first_sequence=run.sequence)
    late.call("wire_money")
    late.call("search")
    for name in ("w1", "w2"):
        await site.publish(run.log, late.log)
        await site.fence()
        await worker.shows(
            "pathgate_events_too_late_total", len(run.log) + len(late.log)
        )
        assert 0 == await worker.stop()
        if name == "w1":
            # On an empty disk: the marker comes back from the changelog.
            worker = await site.worker("w2")
    assert 1 == len(site.published.history(run.run_id))
    kinds = site.published.alert_kinds(run.run_id)
    assert ["late-forbidden-call"] * 2 == [k for k in kinds if k.startswith("late")]


async def test_downtime_is_no_silence_of_the_host(make_site: MakeSite) -> None:
    """Runs that went on while no worker ran are read before any is given up."""
    two = suite("two", [None, None], passScore=0.5)
    site = await make_site(
        suites=[two], run_idle_timeout_s=2.0, host_verdict_grace_s=0.1, chunk_records=50
    )
    worker = await site.worker()
    runs = [RunLog(f"acme/run-{number:012d}") for number in range(60)]
    for run in runs:
        run.start(two)
        run.score("task-0")
    await site.publish(*(run.log for run in runs))
    await site.commits_all()
    assert 0 == await worker.stop()
    chatter = RunLog("acme/chat-000000000001")
    began = {run.run_id: len(run.log) for run in runs}
    async with site.host() as host:
        await host.send_all(
            chatter.call("search", {"n": "x" * 100}) for _ in range(9000)
        )
        for run in runs:
            run.score("task-1")
            run.complete(tasks=2)
            await host.run(run.log[began[run.run_id] :])
    # Longer than the timeout since any row was touched.
    await asyncio.sleep(2.5)
    await site.worker()
    expected = site.expected(event for run in runs for event in run.log)
    await site.settles(expected)
    for run in runs:
        outcomes = [one["outcome"] for one in site.published.summaries(run.run_id)]
        assert ["complete"] == outcomes


async def test_state_survives_a_restart_in_the_middle_of_a_run(
    make_site: MakeSite,
) -> None:
    """Calls before the restart count with the score after it, disk kept or not."""
    site = await make_site(suites=[GATED], host_verdict_grace_s=10)
    events = []
    worker = await site.worker("w1")
    for number, name in enumerate(("w1", "w2")):
        run = gated_run(f"acme/run-{number:012d}", "search", "wire_money")
        await site.publish(run.log[:3])
        await site.commits_all()
        assert 0 == await worker.stop()
        worker = await site.worker(name)
        await site.publish(run.log[3:])
        events += run.log
        await site.settles(site.expected(events))
        (record,) = site.published.summaries(run.run_id)
        assert {"calls": 2, "scores": 1} == record["evidence"]
