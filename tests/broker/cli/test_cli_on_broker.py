"""The commands that ask brokers, on a real one with access rights."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from deploy.kafka.broker import KafkaCluster
from streams.kafka import Cluster, Survey, client_options, connect
from streams.settings import Settings
from streams.topics import Role, table_from
from tests.unit.cli.command import Ended, call, good_log, write_suites

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

USER = "limited"
PASSWORD = "pw-limited-1"  # noqa: S105 - of a broker that lives for this test
OTHERS = "of-somebody-else"


@pytest.fixture(scope="module")
def cluster(_broker_tier: None) -> Iterator[KafkaCluster]:
    """One broker that makes topics when asked about, and checks rights."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with KafkaCluster(
        config={
            "authorizer.class.name": authorizer,
            "auto.create.topics.enable": "true",
        },
        extra_listeners={"SECURE": "SASL_PLAINTEXT"},
        scram_users={USER: PASSWORD},
    ) as started:
        yield started


class Commands:
    """Runs commands against the broker, under a topic prefix of the test's own."""

    def __init__(
        self,
        capfd: pytest.CaptureFixture[str],
        cluster: KafkaCluster,
        name: str,
        home: Path,
    ) -> None:
        self._capfd = capfd
        self._cluster = cluster
        self._home = home
        self.flags: dict[str, object] = {
            "bootstrap_servers": cluster.bootstrap,
            "topic_prefix": f"{name}.",
            "app_id": name,
            "replication_factor": 1,
            "min_insync_replicas": 1,
        }

    def env(self, **more: str) -> dict[str, str]:
        values = {f"PATHGATE_{k.upper()}": str(v) for k, v in self.flags.items()}
        return values | {"HOME": str(self._home)} | more

    def settings(self) -> Settings:
        return Settings.load(self.flags, {})

    def run(self, *arguments: str, **env: str) -> Ended:
        return call(self._capfd, *arguments, env=self.env(**env))

    def as_user(self, *arguments: str, password: str = PASSWORD, **env: str) -> Ended:
        file = self._home / "password"
        file.write_text(password + "\n")
        return self.run(
            *arguments,
            PATHGATE_BOOTSTRAP_SERVERS=self._cluster.bootstrap_of("SECURE"),
            PATHGATE_SECURITY_PROTOCOL="SASL_PLAINTEXT",
            PATHGATE_SASL_MECHANISM="SCRAM-SHA-512",
            PATHGATE_SASL_USERNAME=USER,
            PATHGATE_SASL_PASSWORD_FILE=str(file),
            **env,
        )

    def names(self, *roles: Role) -> list[str]:
        return [s.name for s in table_from(self.settings()) if s.role in roles]

    def allow(self, *arguments: str) -> None:
        self._cluster.java_tool(
            "org.apache.kafka.tools.AclCommand",
            "--bootstrap-server",
            self._cluster.bootstrap,
            "--add",
            "--allow-principal",
            f"User:{USER}",
            *arguments,
        )

    def wait_until_user_may_look(self) -> None:
        """A broker applies rights some time after it took them."""
        deadline_s = time.monotonic() + 20
        while self.as_user("topics", "check").code != 0:
            assert time.monotonic() < deadline_s


@pytest.fixture
def commands(
    capfd: pytest.CaptureFixture[str],
    cluster: KafkaCluster,
    unique_name: Any,
    tmp_path: Path,
) -> Commands:
    return Commands(capfd, cluster, unique_name("gate"), tmp_path)


async def survey(settings: Settings) -> Survey:
    async with connect(settings) as open_cluster:
        assert isinstance(open_cluster, Cluster)
        return await open_cluster.survey(s.name for s in table_from(settings))


async def end_offsets(settings: Settings) -> dict[str, int]:
    """Topic -> records ever written to it."""
    async with AIOKafkaConsumer(**client_options(settings)) as consumer:
        parts = [
            TopicPartition(spec.name, number)
            for spec in table_from(settings)
            for number in range(spec.partitions)
        ]
        ends = await consumer.end_offsets(parts)
    totals: dict[str, int] = {}
    for part, end in ends.items():
        totals[part.topic] = totals.get(part.topic, 0) + end
    return totals


# ---------------------------------------------------------------------- topics


def test_topics_come_to_be_as_they_should(commands: Commands) -> None:
    """Missing, asked for, created, there already, and as they should be."""
    every = commands.names(*Role)
    ended = commands.run("topics", "check")
    assert ended.code == 78
    assert [line.split(": ")[0] for line in ended.out.splitlines()] == every
    ended = commands.run("topics", "create", "--dry-run")
    assert (ended.code, ended.out.count("created (dry run)")) == (0, len(every))
    # Neither looking nor the dry run made the broker create one.
    assert asyncio.run(survey(commands.settings())).found == {}
    ended = commands.run("topics", "create")
    assert (ended.code, ended.err) == (0, "")
    assert [line.split()[:2] for line in ended.out.splitlines()] == [
        [name, "created"] for name in every
    ]
    ended = commands.run("topics", "create", "--format", "json")
    told = json.loads(ended.out)
    assert (ended.code, told["problems"]) == (0, [])
    assert {one["outcome"] for one in told["topics"]} == {"exists"}
    ended = commands.run("topics", "check")
    assert ended == (0, f"{len(every)} topics as they should be\n", "")
    commands.flags["partitions"] = 4
    ended = commands.run("topics", "check", "--role", "output")
    assert ended.code == 78
    assert "has 6 partitions, 4 are needed; set partitions=6" in ended.out


def test_brokers_refusal_is_told(commands: Commands) -> None:
    """Three replicas need three brokers."""
    commands.flags["replication_factor"] = 3
    ended = commands.run("topics", "create", "--role", "output")
    assert ended.code == 78
    assert ended.out.count("  refused  ") == len(commands.names(Role.OUTPUT))
    assert "only 1 broker(s) are registered" in ended.out


# ---------------------------------------------------------------------- suites


def test_suites_are_published_once(commands: Commands, tmp_path: Path) -> None:
    """What is there is left alone; a version's content is not replaced unasked."""
    suites = write_suites(tmp_path)
    key = "acme.evals.refunds@1.0.0"
    ended = commands.run("suites", "publish", str(suites))
    assert ended.code == 78
    assert "run `pathgate topics create`" in ended.err
    assert commands.run("topics", "create").code == 0
    topic = f"{commands.flags['topic_prefix']}eval.suite-definition"
    publish = ("suites", "publish", str(suites))
    assert commands.run(*publish, "--dry-run") == (0, f"{key}  new\n", "")
    assert commands.run(*publish) == (0, f"{key}  published\n", "")
    assert commands.run(*publish) == (0, f"{key}  published already\n", "")
    assert asyncio.run(end_offsets(commands.settings()))[topic] == 1
    write_suites(tmp_path, passScore=0.2)
    ended = commands.run(*publish)
    assert ended.code == 78
    assert f"{key}: is published with another content" in ended.err
    assert asyncio.run(end_offsets(commands.settings()))[topic] == 1
    assert commands.run(*publish, "--replace") == (0, f"{key}  published\n", "")
    assert asyncio.run(end_offsets(commands.settings()))[topic] == 2


def test_aliases_are_not_lost_on_the_way_to_the_topic(
    commands: Commands, tmp_path: Path
) -> None:
    """Without them the topic's suites would not forbid what the directory's do."""
    suites = write_suites(tmp_path)
    (suites / "aliases.json").write_text('{"aliases": {"mcp_wire": "wire_money"}}')
    commands.run("topics", "create")
    ended = commands.run("suites", "publish", str(suites))
    assert (ended.code, ended.out) == (78, "")
    assert f"{suites}/aliases.json: aliases have no place in the topic" in ended.err
    topic = f"{commands.flags['topic_prefix']}eval.suite-definition"
    assert asyncio.run(end_offsets(commands.settings()))[topic] == 0


@pytest.mark.parametrize(
    "arguments", [("verify",), ("replay", "--from-topics"), ("doctor",)]
)
def test_one_version_with_two_contents_is_told(
    commands: Commands, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """78, as a worker would not start: nobody knows which of the two holds."""
    suites = write_suites(tmp_path)
    commands.run("topics", "create")
    commands.run("suites", "publish", str(suites))
    commands.flags["suites_dir"] = str(suites)
    if arguments == ("doctor",):
        ended = commands.run(*arguments)
        assert "1 suite in the directory and the topic together" in ended.out
        assert ended.code == 0
    write_suites(tmp_path, passScore=0.2)
    ended = commands.run(*arguments)
    assert ended.code == 78
    # The doctor writes ~ for the home directory.
    told = (ended.out + ended.err).replace("~", str(tmp_path))
    topic = f"{commands.flags['topic_prefix']}eval.suite-definition"
    assert (
        f"acme.evals.refunds@1.0.0: {topic} and {suites}/refunds.json have it with"
        " different contents"
    ) in told


def test_publisher_needs_three_rights(commands: Commands, tmp_path: Path) -> None:
    """Describe, Read and Write on the suite topic; each is asked for by name."""
    commands.run("topics", "create")
    topic = f"{commands.flags['topic_prefix']}eval.suite-definition"
    suites = write_suites(tmp_path)
    publish = ("suites", "publish", str(suites))
    # An empty topic need not be read.
    commands.run(*publish)
    file = suites / "refunds.json"
    file.write_text(file.read_text().replace('"1.0.0"', '"1.0.1"'))
    for right in ("Describe", "Read", "Write"):
        missing = f"pathgate: User:{USER} needs {right} on topic {topic}\n"
        assert commands.as_user(*publish) == (78, "", missing)
        commands.allow("--operation", right, "--topic", topic)
        deadline_s = time.monotonic() + 20
        while commands.as_user(*publish).err == missing:
            assert time.monotonic() < deadline_s
    ended = commands.as_user(*publish)
    assert ended == (0, "acme.evals.refunds@1.0.1  published already\n", "")


# ---------------------------------------------------------------------- doctor


def test_doctor_finds_all_well_and_writes_nothing(commands: Commands) -> None:
    """Probing the right to write leaves no record behind."""
    commands.run("topics", "create")
    ended = commands.run("doctor")
    assert ended.code == 0
    assert "fail" not in ended.out
    assert set(asyncio.run(end_offsets(commands.settings())).values()) == {0}


def test_doctor_tells_a_bad_suite_once(commands: Commands, tmp_path: Path) -> None:
    """The directory is looked at before the brokers, and read again with the topic."""
    commands.run("topics", "create")
    commands.flags["suites_dir"] = str(write_suites(tmp_path, passScore=7))
    ended = commands.run("doctor")
    assert ended.code == 78
    assert ended.out.count("thresholds.passScore") == 1


def test_doctor_names_each_missing_right(commands: Commands) -> None:
    """A user who may look at everything lacks exactly what a worker needs."""
    commands.run("topics", "create")
    prefix = str(commands.flags["app_id"])
    look = ("--operation", "Describe", "--resource-pattern-type", "prefixed")
    configs = ("--operation", "DescribeConfigs")
    # The last right to be granted is the first that is waited for.
    commands.allow(*look, "--group", prefix)
    commands.allow(*look, *configs, "--topic", prefix)
    commands.wait_until_user_may_look()
    ended = commands.as_user("doctor", "--format", "json")
    assert ended.code == 78
    rights = [
        one["detail"]
        for one in json.loads(ended.out)["findings"]
        if one["name"] == "rights"
    ]
    expected = {
        f"User:{USER} needs {operation} on topic {name}"
        for operation, roles in {
            "Read": (Role.SOURCE, Role.INTERNAL),
            "Write": (Role.OUTPUT, Role.INTERNAL),
        }.items()
        for name in commands.names(*roles)
    }
    assert set(rights) == expected | {f"User:{USER} needs Read on group {prefix}"}
    assert len(rights) == len(expected) + 1


def test_right_to_look_is_named_too(commands: Commands) -> None:
    """A topic that may not be seen is not told to be missing."""
    commands.run("topics", "create")
    ended = commands.as_user("topics", "check")
    assert ended.code == 78
    assert ended.out.splitlines() == [
        f"User:{USER} needs Describe on topic {name}" for name in commands.names(*Role)
    ]


def test_refused_user_is_78(commands: Commands) -> None:
    """The brokers are there and refuse: a configuration error, no outage."""
    for arguments in (("topics", "check"), ("verify",)):
        ended = commands.as_user(*arguments, password=OTHERS)
        assert ended.code == 78
        assert f"refused the user '{USER}' or its password" in ended.err
        assert OTHERS not in ended.err


def test_wrong_protocol_is_explained(commands: Commands, cluster: KafkaCluster) -> None:
    """A listener that speaks something else is told as such, not as an outage alone."""
    commands.flags["bootstrap_servers"] = cluster.bootstrap_of("SECURE")
    ended = commands.run("topics", "check")
    assert ended.code == 69
    assert "is security_protocol=PLAINTEXT what the broker speaks" in ended.err


# ---------------------------------------------------------------------- verify


def test_verify_tells_a_run_that_was_never_published(
    commands: Commands, tmp_path: Path
) -> None:
    """Nothing to compare is 3; events without their records are 1."""
    commands.flags["suites_dir"] = str(write_suites(tmp_path))
    commands.flags["topic_events"] = "events"
    commands.run("topics", "create")
    assert commands.run("verify") == (3, "nothing to compare\n", "")

    async def produce() -> None:
        settings = commands.settings()
        topic = table_from(settings)[0].name
        async with AIOKafkaProducer(**client_options(settings)) as producer:
            for line in good_log().lines:
                run_id = json.loads(line)["runId"].encode()
                await producer.send_and_wait(topic, line, key=run_id)

    asyncio.run(produce())
    ended = commands.run("verify")
    assert ended.code == 1
    assert ended.out.splitlines()[0] == (
        "acme/run-000000000001: suite-record: not published"
    )
    # History is graded straight from the topics, with suites of the topic too.
    ended = commands.run("replay", "--from-topics")
    assert ended.code == 0
    assert ended.out.startswith("PASSED  acme/run-000000000001  ")
    commands.run("suites", "publish", str(commands.flags.pop("suites_dir")))
    assert commands.run("replay", "--from-topics") == ended
    told = json.loads(commands.run("verify", "--format", "json").out)
    assert told["runs"] == 1
    assert told["findings"][0]["runId"] == "acme/run-000000000001"


@pytest.mark.parametrize("arguments", [("verify",), ("replay", "--from-topics")])
def test_nothing_is_graded_without_a_suite(
    commands: Commands, arguments: tuple[str, ...]
) -> None:
    """78: every run would differ from what the workers published."""
    commands.run("topics", "create")
    ended = commands.run(*arguments)
    assert (ended.code, ended.out) == (78, "")
    assert "no suites to grade against: give --suites DIR, or publish" in ended.err
