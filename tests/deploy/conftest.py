"""The monitoring tools, and real Prometheus and Alertmanager in front of a target.

``monitoring_stack`` takes the addresses to scrape, so that a test may put the tiny
application of this folder in front of it, or a real worker and a real Kafka.
"""

import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from tests.deploy.monitoring.stack import Stack, running_stack
from tests.tiers import skip_or_fail

HERE = Path(__file__).parent
FOLDER = HERE / "monitoring"

StartStack = Callable[[Sequence[str]], Awaitable[Stack]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs the monitoring tools, so that ``-m "not deploy"`` leaves it."""
    for item in items:
        uses_them = "monitoring_tools" in getattr(item, "fixturenames", ())
        if FOLDER in item.path.parents or uses_them:
            item.add_marker(pytest.mark.deploy)


@pytest.fixture(scope="session")
def monitoring_tools() -> Path:
    """Directory of promtool, prometheus, amtool, alertmanager and amlint.

    Installed first if need be; where that fails the test is skipped, but with
    ``CI`` set it fails.
    """
    done = subprocess.run(
        [str(HERE / "tools.sh")], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = f"tools.sh could not install the tools: {done.stderr.strip()[-300:]}"
        skip_or_fail(reason)
    return Path(done.stdout.strip())


@pytest_asyncio.fixture
async def monitoring_stack(
    monitoring_tools: Path, tmp_path: Path
) -> AsyncIterator[StartStack]:
    """Starts Prometheus and Alertmanager with our rules, routes and short waits.

    Called with the addresses to scrape (``host:port`` of a ``/metrics``), it gives
    the running stack; everything it started ends with the test.
    """
    async with AsyncExitStack() as exits:

        async def start(scrape_targets: Sequence[str]) -> Stack:
            return await exits.enter_async_context(
                running_stack(monitoring_tools, tmp_path, scrape_targets)
            )

        yield start
