"""The real broker of this tier, and what its tests share.

``kafka`` is one broker for the whole session; tests keep apart by names of their
own (``unique_name``, ``make_topic``). ``PATHGATE_TEST_BOOTSTRAP`` names another
broker to use in its place. ``start_kafka`` starts clusters that a test may break.
Where Java or Maven is missing the tier is skipped, but with ``CI`` set it fails.
"""

import asyncio
import os
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

# The harness is run as a script too, so it belongs to no installed package.
sys.path.insert(0, str(Path(__file__).parents[2]))

from deploy.kafka.broker import (
    JarsUnavailable,
    JavaMissing,
    Kafka,
    KafkaCluster,
    find_java,
    jars,
)
from tests.tiers import skip_or_fail

_OURS = ("kafka", "start_kafka", "make_topic")


@dataclass(frozen=True)
class _Elsewhere:
    """A broker that somebody else runs."""

    bootstrap: str


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks whatever needs a broker, so that ``-m "not kafka"`` leaves it out."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if any(name in names for name in _OURS):
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def _broker_tier() -> None:
    """Skips, or on CI fails, where no broker can be run."""
    try:
        find_java()
        jars()
    except (JavaMissing, JarsUnavailable) as missing:
        skip_or_fail(str(missing))


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """The session's broker: real, empty at first, shared by all tests."""
    elsewhere = os.environ.get("PATHGATE_TEST_BOOTSTRAP")
    if elsewhere:
        yield _Elsewhere(elsewhere)
        return
    request.getfixturevalue("_broker_tier")
    with KafkaCluster() as cluster:
        yield cluster


@pytest.fixture
def start_kafka(_broker_tier: None) -> Iterator[Callable[..., KafkaCluster]]:
    """Starts clusters of the test's own: takes what ``KafkaCluster`` takes.

    They are started when it returns and stopped after the test. A call blocks:
    in a coroutine make it through ``asyncio.to_thread``.
    """
    clusters: list[KafkaCluster] = []

    def start(*args: object, **keywords: object) -> KafkaCluster:
        cluster = KafkaCluster(*args, **keywords)  # type: ignore[arg-type] # passed on
        clusters.append(cluster)
        cluster.start()
        return cluster

    yield start
    for cluster in clusters:
        cluster.stop(kill=True)


@pytest.fixture
def unique_name() -> Callable[[str], str]:
    """Makes names for topics and groups that no other test has: ``stem-1a2b3c4d``."""
    return lambda stem: f"{stem}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def make_topic(
    request: pytest.FixtureRequest, unique_name: Callable[[str], str]
) -> Callable[..., Awaitable[str]]:
    """Creates a topic and returns its name once every partition has a leader.

    ``await make_topic("events", partitions=3, copies=1, config={...}, on=None)``:
    the name is the stem with a suffix of its own; ``on`` is a cluster of the
    test's own, the session's broker if None.
    """

    async def make(
        stem: str,
        *,
        partitions: int = 1,
        copies: int = 1,
        config: Mapping[str, str] | None = None,
        on: Kafka | None = None,
    ) -> str:
        peer: Kafka = request.getfixturevalue("kafka") if on is None else on
        topic = NewTopic(
            unique_name(stem), partitions, copies, topic_configs=dict(config or {})
        )
        admin = AIOKafkaAdminClient(bootstrap_servers=peer.bootstrap)
        await admin.start()
        try:
            await admin.create_topics([topic])
            async with asyncio.timeout(15):
                # Kafka tells nobody when a partition has its leader.
                while not await _has_leaders(admin, topic.name, partitions):
                    await asyncio.sleep(0.02)
        finally:
            await admin.close()
        return str(topic.name)

    return make


async def _has_leaders(admin: AIOKafkaAdminClient, name: str, partitions: int) -> bool:
    """Whether each partition can be written to: creation is heard of late."""
    (told,) = await admin.describe_topics([name])
    led = [part for part in told["partitions"] if part["leader"] >= 0]
    return len(led) == partitions
