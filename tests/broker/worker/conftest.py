"""Deployments for the tests of the worker, each with topics of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from deploy.kafka.broker import Kafka
from tests.broker.worker.site import Site


@pytest_asyncio.fixture
async def make_site(
    request: pytest.FixtureRequest,
    unique_name: Callable[[str], str],
    tmp_path: Path,
) -> AsyncIterator[Callable[..., Any]]:
    """Opens a deployment; ended, topics and all, after the test.

    ``await make_site(suites=[...], on=None, **settings)``: ``on`` is a cluster of
    the test's own, the session's broker if None.
    """
    async with AsyncExitStack() as stack:

        async def make(
            *, on: Kafka | None = None, name: str = "site", **options: Any
        ) -> Site:
            peer: Kafka = request.getfixturevalue("kafka") if on is None else on
            own = unique_name(name)
            home = tmp_path / own
            home.mkdir()
            site = Site(peer.bootstrap, own, home, **options)
            return await stack.enter_async_context(site)

        yield make
