"""A verdict the gate changed goes in as a metric, a notification comes out."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import pytest
import pytest_asyncio

from schemas.records import Outcome
from streams.metrics import (
    Build,
    KnownLabels,
    Metrics,
    RunFigures,
    TooLate,
    new_registry,
)
from streams.web import Facts, WebServer, create_web
from tests.deploy.monitoring.stack import Stack

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(180)]

StartStack = Callable[[Sequence[str]], Awaitable[Stack]]
SUITE = "acme.evals.refunds"


class Well:
    """A worker with nothing against it."""

    def facts(self) -> Facts:
        return Facts(started=True)


@dataclass(frozen=True)
class Target:
    """The tiny application that is scraped, and what it shows."""

    server: WebServer
    metrics: Metrics

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"


@pytest_asyncio.fixture
async def target() -> AsyncIterator[Target]:
    """An application on a free port that shows one suite's metrics."""
    registry = new_registry()
    known = KnownLabels(topics=("eval.scored",), suites={SUITE: 0.7})
    metrics = Metrics(registry, known, Build(version="1.2.3"))
    metrics.set_ready(ready=True)
    server = WebServer(create_web(registry, Well()))
    await server.start()
    try:
        yield Target(server, metrics)
    finally:
        await server.stop()


def figures(*, legacy_passed: bool) -> RunFigures:
    """A run the gate closed: RFC 0246's second example, 0.9 measured, 0.45 gated."""
    return RunFigures(
        suite=SUITE,
        outcome=Outcome.COMPLETE,
        passed=False,
        legacy_passed=legacy_passed,
        score=0.9,
        gated_score=0.45,
    )


async def test_changed_verdict_reaches_the_owners_of_the_suite(
    target: Target, monitoring_stack: StartStack
) -> None:
    """One run RFC 0244 passes and RFC 0246 does not is one alert naming the suite."""
    stack = await monitoring_stack([target.address])
    await stack.until_query('up{job="pathgate"} == 1')
    target.metrics.run_finished(figures(legacy_passed=False))
    target.metrics.run_finished(figures(legacy_passed=True))

    alert = await stack.webhook.until("PathgateGateChangedVerdict", "eval-owners")

    assert (SUITE, "suite", "warning") == (
        alert.labels["suite"],
        alert.labels["level"],
        alert.labels["severity"],
    )
    # Two runs were closed; only one of them is a change.
    assert alert.annotations["description"].startswith(f"Suite {SUITE}: 1 run(s)")
    assert {"PathgateGateChangedVerdict"} == {
        one.name for one in stack.webhook.notified
    }


async def test_what_was_counted_before_the_first_scrape_is_not_missed(
    target: Target, monitoring_stack: StartStack
) -> None:
    """A worker that closes a run in its first second is not overlooked."""
    target.metrics.too_late(TooLate.FORBIDDEN_CALL)

    stack = await monitoring_stack([target.address])

    await stack.webhook.until("PathgateTooLateForbiddenCall", "oncall")
    await stack.webhook.until("PathgateTooLateForbiddenCall", "eval-owners")


async def test_worker_that_goes_away_calls_somebody(
    target: Target, monitoring_stack: StartStack
) -> None:
    """A target that stops answering is critical."""
    stack = await monitoring_stack([target.address])
    await stack.until_query('up{job="pathgate"} == 1')
    address = target.address

    await target.server.stop()

    alert = await stack.webhook.until("PathgateDown", "oncall")
    assert address == alert.labels["instance"]
