"""However the events come, the newest records are those of the file grader."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.broker.worker.site import Site
from tests.broker.worker.workload import Event, Log, by_topic, mixed, shuffled

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka]

MakeSite = Callable[..., Awaitable[Site]]

# Real runs of a benchmark, which are no part of the project.
_AIRLINE = Path(__file__).parents[4] / "shared" / "data" / "tau-airline"


async def test_a_mix_of_runs_ends_in_the_file_graders_bytes(
    make_site: MakeSite,
) -> None:
    """Runs of every shape over five topics: exactly its keys, exactly its values."""
    work = mixed()
    site = await make_site(suites=work.suites, run_idle_timeout_s=1.5)
    await site.worker()
    await site.publish(*work.logs)
    await site.settles(site.expected(work.events))


async def test_one_topic_with_every_event_ends_in_the_same_bytes(
    make_site: MakeSite,
) -> None:
    """``topic_events`` in place of the five topics changes no record."""
    work = mixed()
    site = await make_site(
        suites=work.suites, topic_events="events", run_idle_timeout_s=1.5
    )
    await site.worker()
    await site.publish(*work.logs)
    await site.settles(site.expected(work.events))


async def test_trials_side_by_side_are_told_apart_by_their_node(
    make_site: MakeSite,
) -> None:
    """With ``attribution=node``, interleaved trials end in the same bytes."""
    work = mixed(120, seed=82, ordinary=0.2, by_node=True)
    site = await make_site(
        suites=work.suites, attribution="node", run_idle_timeout_s=1.5
    )
    await site.worker()
    await site.publish(*work.logs)
    await site.settles(site.expected(work.events))


async def test_every_event_twice_changes_no_record(make_site: MakeSite) -> None:
    """Each run's log published twice over, the second time while the first goes on."""
    work = mixed()
    site = await make_site(suites=work.suites, run_idle_timeout_s=1.5)
    worker = await site.worker()
    logs = work.logs
    await site.publish(*(log for pair in zip(logs, logs, strict=True) for log in pair))
    await site.settles(site.expected(work.events))
    graded = sum(
        event.type not in {"agent.tool-returned", "run.started"}
        for log in work.evals
        for event in log
    )
    # Each second copy of an eval run's event, unless both came before its start.
    duplicates = await worker.metric("pathgate_events_duplicate_total")
    assert graded * 0.5 < duplicates <= graded


@pytest.mark.parametrize("seed", [1, 2])
async def test_topics_in_any_order_end_in_the_same_bytes(
    make_site: MakeSite, seed: int
) -> None:
    """Scores long before their calls, ends before starts: the same in the end."""
    work = mixed()
    site = await make_site(suites=work.suites, run_idle_timeout_s=1.5)
    await site.worker()
    async with site.host() as host:
        # Each stretch is acknowledged before the next, so nothing waits for it.
        stretch: Log = []
        for event in shuffled(work.events, seed):
            if stretch and stretch[-1].type != event.type and len(stretch) > 200:
                await host.send_all(stretch)
                stretch = []
            stretch.append(event)
        await host.send_all(stretch)
    await site.settles(site.expected(work.events))


@pytest.mark.parametrize(
    "order",
    [
        (
            "tool_called",
            "eval_scored",
            "run_terminal",
            "eval_completed",
            "eval_started",
        ),
        (
            "run_terminal",
            "eval_started",
            "eval_scored",
            "eval_completed",
            "tool_called",
        ),
        (
            "eval_completed",
            "tool_called",
            "eval_started",
            "run_terminal",
            "eval_scored",
        ),
    ],
    ids=lambda order: f"{order[0]}-first",
)
async def test_topics_one_after_another_end_in_the_same_bytes(
    make_site: MakeSite, order: tuple[str, ...]
) -> None:
    """A topic is published when all of the one before is read and committed."""
    work = mixed()
    site = await make_site(suites=work.suites, run_idle_timeout_s=1.5)
    await site.worker()
    topics = by_topic(work.events)
    assert topics.keys() == set(order)
    async with site.host() as host:
        for topic in order:
            await host.send_all(topics[topic])
            await site.commits_all()
    await site.settles(site.expected(work.events))


async def test_real_runs_end_in_the_file_graders_bytes(make_site: MakeSite) -> None:
    """The 200 trials of the airline benchmark, over five topics."""
    if not _AIRLINE.is_dir():
        pytest.skip(f"no {_AIRLINE}: the benchmark's runs are not part of the project")
    suite = json.loads((_AIRLINE / "suites" / "tau-airline.json").read_bytes())
    log = []
    for line in (_AIRLINE / "airline-gpt-4o.ndjson").read_bytes().splitlines():
        facts = json.loads(line)
        log.append(Event(facts["runId"], facts["type"], line))
    site = await make_site(suites=[suite])
    await site.worker()
    await site.publish(log)
    expected = site.expected(log)
    await site.settles(expected)
    (record,) = expected.suites.values()
    assert len(expected.tasks) == 50
    # The benchmark's mean reward, and what is left of it on the expected paths.
    summary = json.loads(record)["summary"]
    assert (0.42, 0.275) == (summary["aggregateScore"], summary["gatedAggregateScore"])
