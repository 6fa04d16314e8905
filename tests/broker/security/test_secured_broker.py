"""TLS, passwords and the shipped rights, against the broker that compose sets up."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
)

from streams.errors import AccessDeniedError, BrokerUnavailableError
from streams.kafka import Creation, connect
from streams.topics import TopicSpec, table_from

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.asyncio,
    pytest.mark.timeout(180),
    pytest.mark.usefixtures("topics"),
]

SOURCES = (
    "agent.tool-called",
    "eval.started",
    "eval.scored",
    "eval.completed",
    "run.terminal",
)
OUTPUTS = (
    "eval.task-summary",
    "eval.suite-summary",
    "eval.gate-alert",
    "eval.dead-letter",
)


@pytest.fixture(scope="module")
def table(secure: Any) -> tuple[TopicSpec, ...]:
    """The topics, as the settings of these tests want them."""
    return table_from(secure.settings("pathgate"))


@pytest.fixture(scope="module")
def topics(secure: Any, table: tuple[TopicSpec, ...]) -> None:
    """Has the provisioning user create every topic of the table."""

    async def create() -> set[Creation]:
        async with connect(secure.settings("pathgate-topics")) as cluster:
            return {one.outcome for one in await cluster.create(table)}

    assert asyncio.run(create()) <= {Creation.CREATED, Creation.EXISTS}


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    """A client that is closed also where its start fails, as its own manager is not."""
    try:
        await client.start()
        yield client
    finally:
        await client.stop()


async def write(secure: Any, user: str, topic: str) -> None:
    async with started(AIOKafkaProducer(**secure.aiokafka(user))) as producer:
        await producer.send_and_wait(topic, b"{}", key=b"acme/run")


async def read(secure: Any, user: str, topic: str) -> None:
    options = secure.aiokafka(user, enable_auto_commit=False)
    async with started(AIOKafkaConsumer(**options)) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        await consumer.getmany(timeout_ms=500)


async def join(secure: Any, user: str, topic: str, group: str) -> None:
    """Joins a group, reads, and commits."""
    options = secure.aiokafka(user, group_id=group, enable_auto_commit=False)
    async with started(AIOKafkaConsumer(topic, **options)) as consumer:
        await consumer.getmany(timeout_ms=500)
        await consumer.commit({TopicPartition(topic, 0): 0})


@asynccontextmanager
async def admin_of(secure: Any, user: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**secure.aiokafka(user))
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def test_worker_lacks_nothing_that_it_looks_for(
    secure: Any, table: tuple[TopicSpec, ...]
) -> None:
    """The worker sees every topic and its configuration, and no right is missing."""
    async with connect(secure.settings("pathgate")) as cluster:
        survey = await cluster.survey(spec.name for spec in table)
        missing = await cluster.probe_rights(table, "pathgate")
    assert survey.denied == ()
    assert survey.found.keys() == {spec.name for spec in table}
    assert all(topic.configs for topic in survey.found.values())
    assert missing == []


@pytest.mark.parametrize(
    ("user", "act", "place"),
    [
        *(("pathgate-host", write, topic) for topic in SOURCES),
        *(("pathgate", read, topic) for topic in SOURCES),
        *(("pathgate", write, topic) for topic in OUTPUTS),
        # Runs are compared with the published record of their baseline.
        ("pathgate", read, "eval.suite-summary"),
        ("pathgate", read, "pathgate-control"),
        ("pathgate", read, "pathgate-runs-changelog"),
        ("pathgate-reader", read, "eval.suite-summary"),
        ("pathgate-reader", read, "eval.gate-alert"),
    ],
)
async def test_what_is_granted_works(
    secure: Any,
    user: str,
    act: Callable[[Any, str, str], Awaitable[None]],
    place: str,
) -> None:
    """Each right that a user was given can be used."""
    await act(secure, user, place)


@pytest.mark.parametrize(
    ("user", "act", "place"),
    [
        *(("pathgate", write, topic) for topic in SOURCES),
        ("pathgate", write, "eval.suite-definition"),
        ("pathgate", read, "eval.task-summary"),
        ("pathgate", read, "eval.gate-alert"),
        ("pathgate", read, "eval.dead-letter"),
        ("pathgate-host", read, "agent.tool-called"),
        ("pathgate-host", write, "eval.suite-summary"),
        ("pathgate-host", write, "pathgate-control"),
        ("pathgate-reader", write, "eval.suite-summary"),
        ("pathgate-topics", read, "agent.tool-called"),
        ("pathgate-topics", write, "eval.suite-summary"),
    ],
)
async def test_what_is_not_granted_is_refused(
    secure: Any,
    user: str,
    act: Callable[[Any, str, str], Awaitable[None]],
    place: str,
) -> None:
    """A user can do nothing with a topic beyond its rights."""
    with pytest.raises(TopicAuthorizationFailedError):
        await act(secure, user, place)


@pytest.mark.parametrize(
    ("user", "hidden"),
    [
        ("pathgate-host", {*OUTPUTS, "pathgate-control"}),
        ("pathgate-reader", {*SOURCES, "eval.dead-letter", "pathgate-control"}),
    ],
)
async def test_other_topics_are_not_even_seen(
    secure: Any, user: str, hidden: set[str]
) -> None:
    """Without any right on a topic its very existence is denied, by name."""
    async with connect(secure.settings(user)) as cluster:
        survey = await cluster.survey([*SOURCES, *OUTPUTS, "pathgate-control"])
    missing = {str(right) for right in survey.denied}
    assert {f"User:{user} needs Describe on topic {name}" for name in hidden} <= missing
    assert not survey.found.keys() & hidden


@pytest.mark.parametrize("group", ["pathgate", "pathgate-v2"])
async def test_worker_joins_its_group_and_that_of_a_later_version(
    secure: Any, group: str
) -> None:
    """Joining and committing work in the group and in a later table version's."""
    await join(secure, "pathgate", "eval.scored", group)


@pytest.mark.parametrize(
    ("user", "group"),
    [
        ("pathgate", "somebody-elses"),
        ("pathgate", "pathgate-reader-1"),
        ("pathgate-reader", "pathgate"),
    ],
)
async def test_other_groups_are_out_of_reach(
    secure: Any, user: str, group: str
) -> None:
    """No user can join, and so steal partitions or offsets from, another's group."""
    topic = "eval.suite-summary" if user == "pathgate-reader" else "eval.scored"
    with pytest.raises(GroupAuthorizationFailedError):
        await join(secure, user, topic, group)


@pytest.mark.parametrize("user", ["pathgate", "pathgate-host", "pathgate-reader"])
async def test_only_the_provisioner_creates_topics(secure: Any, user: str) -> None:
    """Create is refused to all others, under the worker's own prefix too."""
    async with admin_of(secure, user) as admin:
        answer = await admin.create_topics([NewTopic("pathgate-new", 1, 1)])
    [(name, code, _text)] = answer.topic_errors
    assert (name, code) == ("pathgate-new", TopicAuthorizationFailedError.errno)


@pytest.mark.parametrize("user", ["pathgate", "pathgate-topics"])
async def test_nobody_deletes_topics(secure: Any, user: str) -> None:
    """Not even the provisioner can remove what it created."""
    async with admin_of(secure, user) as admin:
        answer = await admin.delete_topics(["eval.suite-summary"])
    [(name, code)] = answer.topic_error_codes
    assert (name, code) == ("eval.suite-summary", TopicAuthorizationFailedError.errno)


async def test_wrong_password_is_refused(secure: Any, tmp_path: Any) -> None:
    """The error names the user and the mechanism, and not the password."""
    wrong = tmp_path / "password"
    wrong.write_text("not-it\n")
    settings = secure.settings("pathgate", sasl_password_file=str(wrong))
    with pytest.raises(AccessDeniedError, match=r"'pathgate'.*SCRAM-SHA-512") as raised:
        async with connect(settings):
            pass
    assert "not-it" not in str(raised.value)


@pytest.fixture
def other_authority(tmp_path: Path) -> Path:
    """The certificate of an authority of the same name that signed nothing here."""
    script = Path(__file__).parents[3] / "deploy" / "compose" / "make-certs.sh"
    subprocess.run(["bash", str(script), str(tmp_path)], check=True)
    return tmp_path / "ca.crt"


async def test_another_authority_is_not_trusted(
    secure: Any, other_authority: Path
) -> None:
    """A broker whose certificate the given authority did not sign gets no password."""
    settings = secure.settings("pathgate", ssl_ca_file=str(other_authority))
    with pytest.raises(BrokerUnavailableError, match="certificate"):
        async with connect(settings):
            pass


async def test_other_host_names_are_not_trusted(secure: Any) -> None:
    """A certificate that does not name the host is refused."""
    port = secure.client.rpartition(":")[2]
    settings = secure.settings("pathgate", bootstrap_servers=f"127.0.0.2:{port}")
    with pytest.raises(BrokerUnavailableError):
        async with connect(settings):
            pass


@pytest.mark.parametrize("listener", ["client", "internal"])
async def test_plaintext_is_answered_nowhere(secure: Any, listener: str) -> None:
    """No listener talks to a client without TLS."""
    client = AIOKafkaProducer(
        bootstrap_servers=getattr(secure, listener), request_timeout_ms=3000
    )
    with pytest.raises(KafkaError):
        await client.start()
    await client.stop()


async def test_internal_listener_wants_a_certificate(secure: Any) -> None:
    """Who has none of the authority's certificates cannot reach the super users' door."""
    context = ssl.create_default_context(cafile=str(secure.certs / "ca.crt"))
    client = AIOKafkaProducer(
        bootstrap_servers=secure.internal,
        security_protocol="SSL",
        ssl_context=context,
        request_timeout_ms=3000,
    )
    with pytest.raises(KafkaError):
        await client.start()
    await client.stop()
