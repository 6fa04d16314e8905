"""A forbidden call goes in at Kafka, a webhook comes out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from deploy.kafka.broker import KafkaCluster
from tests.broker.worker.site import Site
from tests.broker.worker.workload import GATED, gated_run
from tests.deploy.monitoring.stack import Stack

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(240)]

StartStack = Callable[[Sequence[str]], Awaitable[Stack]]


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A deployment on a broker of its own."""
    cluster = KafkaCluster()
    await asyncio.to_thread(cluster.start)
    try:
        home = tmp_path / "site"
        home.mkdir()
        async with Site(cluster.bootstrap, "hook", home, suites=[GATED]) as made:
            yield made
    finally:
        await asyncio.to_thread(cluster.stop, kill=True)


async def test_forbidden_call_on_a_topic_reaches_the_owners_of_the_suite(
    site: Site, monitoring_stack: StartStack
) -> None:
    """The run scores 1 and clears its bar of 0.5: RFC 0244 passes it, the gate not.

    The worker counts it, Prometheus scrapes and alerts, Alertmanager notifies.
    """
    worker = await site.worker()
    stack = await monitoring_stack([worker.address])
    await stack.until_query('up{job="pathgate"} == 1')

    run = gated_run("acme/run-0000000000000001", "search", "wire_money")
    await site.publish(run.log)

    alert = await stack.webhook.until("PathgateGateChangedVerdict", "eval-owners")
    assert (GATED["suiteId"], "suite") == (alert.labels["suite"], alert.labels["level"])
    await site.published.wait_for(lambda seen: bool(seen.summaries(run.run_id)))
    published = site.published.summaries(run.run_id)
    # The forbidden trial contributes 0; the measured score stays 1 (RFC 0246 §C).
    figures = published[-1]["summary"]
    assert (1.0, 0.0, False) == (
        figures["aggregateScore"],
        figures["gatedAggregateScore"],
        figures["passed"],
    )
