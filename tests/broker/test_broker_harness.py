"""The real broker of the tests: it keeps, orders, survives and guards as Kafka does."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import TopicAuthorizationFailedError

from deploy.kafka import broker
from deploy.kafka.broker import Kafka, KafkaCluster

MakeTopic = Callable[..., Awaitable[str]]
StartKafka = Callable[..., KafkaCluster]
Headers = Sequence[tuple[str, bytes]]
SCRIPT = Path(broker.__file__)
# A killed broker is let in again, or its partitions move, once its session ended.
QUICK = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


async def produce(peer: Kafka, topic: str, values: Sequence[bytes]) -> None:
    """Writes the values to partition 0, each acknowledged by all in-sync copies."""
    async with AIOKafkaProducer(
        bootstrap_servers=peer.bootstrap, acks="all"
    ) as producer:
        for value in values:
            await producer.send_and_wait(topic, value, partition=0)


async def read(peer: Kafka, topic: str, count: int) -> list[bytes]:
    """The first ``count`` values of partition 0."""
    async with AIOKafkaConsumer(
        bootstrap_servers=peer.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        async with asyncio.timeout(30):
            return [(await consumer.getone()).value for _ in range(count)]


@pytest.mark.asyncio
async def test_records_keep_key_headers_and_order_per_partition(
    kafka: Kafka, make_topic: MakeTopic, unique_name: Callable[[str], str]
) -> None:
    """A group reads from each of three partitions what was written, in order."""
    topic = await make_topic("harness.records", partitions=3)
    headers: Headers = [("ce_type", b"eval.scored"), ("ce_type", b"again")]
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for number in range(30):
            await producer.send_and_wait(
                topic,
                b"v%d" % number,
                key=b"k%d" % number,
                partition=number % 3,
                headers=headers,
            )
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap,
        group_id=unique_name("harness.group"),
        auto_offset_reset="earliest",
    )
    # Around the start too: a consumer waits for its coordinator without end.
    async with asyncio.timeout(30), consumer:
        got = [await consumer.getone() for _ in range(30)]
    for partition in range(3):
        seen = [
            (record.offset, record.key, record.value)
            for record in got
            if record.partition == partition
        ]
        # Partition p holds p, p+3, ... p+27: ten records at offsets 0 to 9.
        expected = [
            (at, b"k%d" % (partition + 3 * at), b"v%d" % (partition + 3 * at))
            for at in range(10)
        ]
        assert expected == seen
    assert all(tuple(headers) == tuple(record.headers) for record in got)


@pytest.mark.asyncio
@pytest.mark.parametrize("kill", [False, True])
async def test_restarted_broker_still_has_its_records(
    start_kafka: StartKafka, make_topic: MakeTopic, *, kill: bool
) -> None:
    """Acknowledged records outlive the broker's process, ended well or killed."""
    cluster = await asyncio.to_thread(start_kafka, config=QUICK)
    topic = await make_topic("harness.restart", on=cluster)
    values = [b"%d" % number for number in range(50)]
    await produce(cluster, topic, values)
    before = cluster.pid(1)

    await asyncio.to_thread(cluster.restart_broker, 1, kill=kill)

    assert before != cluster.pid(1)
    assert values == await read(cluster, topic, 50)


@pytest.mark.asyncio
async def test_three_brokers_survive_the_loss_of_one(
    start_kafka: StartKafka, make_topic: MakeTopic
) -> None:
    """With three copies and one broker killed, records are kept and taken."""
    cluster = await asyncio.to_thread(start_kafka, 3, config=QUICK)
    topic = await make_topic(
        "harness.copies",
        copies=3,
        config={"min.insync.replicas": "2"},
        on=cluster,
    )
    before, after = [b"1", b"2", b"3"], [b"4", b"5"]
    await produce(cluster, topic, before)

    await asyncio.to_thread(cluster.stop_broker, 1, kill=True)
    assert not cluster.is_running(1)
    await produce(cluster, topic, after)
    assert before + after == await read(cluster, topic, 5)

    await asyncio.to_thread(cluster.start_broker, 1)
    assert cluster.is_running(1)
    assert before + after == await read(cluster, topic, 5)


def test_quorum_starts_together_after_all_brokers_were_stopped(
    start_kafka: StartKafka,
) -> None:
    """Brokers that need each other to be ready are started in one call."""
    cluster = start_kafka(3, config=QUICK)
    bootstrap = cluster.bootstrap
    for each in (1, 2, 3):
        cluster.stop_broker(each, kill=True)
    cluster.start_broker(1, 2, 3)
    seen = broker.probe(int(bootstrap.split(":")[1].split(",")[0]))
    assert bootstrap == cluster.bootstrap
    assert seen is not None
    assert {1, 2, 3} == seen.broker_ids


@pytest.mark.asyncio
async def test_scram_user_may_only_what_the_authorizer_allows(
    start_kafka: StartKafka, make_topic: MakeTopic
) -> None:
    """A user known from the first start on is let in, and to a topic once allowed."""
    cluster = await asyncio.to_thread(
        start_kafka,
        extra_listeners={"CLIENTS": "SASL_PLAINTEXT"},
        scram_users={"grader": "grader-secret"},
        config={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        },
    )
    topic = await make_topic("harness.guarded", on=cluster)

    async def write() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_of("CLIENTS"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username="grader",
            sasl_plain_password="grader-secret",  # noqa: S106 - of a loopback broker
        ) as producer:
            await producer.send_and_wait(topic, b"1")

    with pytest.raises(TopicAuthorizationFailedError, match=topic):
        await write()
    where = ["--bootstrap-server", cluster.bootstrap, "--topic", topic]
    who = ["--add", "--allow-principal", "User:grader", "--producer"]
    await asyncio.to_thread(
        cluster.java_tool, "org.apache.kafka.tools.AclCommand", *where, *who
    )
    await write()
    assert [b"1"] == await read(cluster, topic, 1)


def test_failed_tool_reports_its_output(kafka: Kafka) -> None:
    """An admin tool's own words are in the error."""
    arguments = ["--bootstrap-server", kafka.bootstrap, "--describe"]
    with pytest.raises(broker.ToolFailed, match="no-such-topic"):
        broker.java_tool(
            "org.apache.kafka.tools.TopicCommand",
            *arguments,
            "--topic",
            "no-such-topic",
        )


def test_refused_property_is_reported(start_kafka: StartKafka) -> None:
    """A property that Kafka refuses is named in the error."""
    with pytest.raises(broker.StartFailed, match=r"num\.io\.threads"):
        start_kafka(config={"num.io.threads": "0"})


def test_broker_that_ends_at_start_reports_its_log(start_kafka: StartKafka) -> None:
    """A taken port ends the broker, and its log's end is in the error."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(broker.StartFailed, match=rf"(?s)1 ended.*:{port}: Address"):
            start_kafka(ports=[port])


def test_archived_classes_are_mapped_by_a_broker(start_kafka: StartKafka) -> None:
    """The archive that speeds up a start is fit for the Java that is to use it."""
    archive = broker.share_classes()
    cluster = start_kafka()
    maps = Path(f"/proc/{cluster.pid(1)}/maps").read_text(encoding="utf-8")
    assert str(archive) in maps


@pytest.mark.kafka
@pytest.mark.usefixtures("_broker_tier")
def test_brokers_end_with_a_killed_parent() -> None:
    """A test run that is killed leaves no broker behind."""
    code = (
        "import sys, threading; from deploy.kafka.broker import KafkaCluster\n"
        "cluster = KafkaCluster(); cluster.start()\n"
        "print(cluster.bootstrap, cluster.data_dir, flush=True)\n"
        "threading.Event().wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=SCRIPT.parents[2],
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        bootstrap, data = parent.stdout.readline().split()
        port = int(bootstrap.split(":")[1])
        try:
            assert broker.probe(port) is not None
        finally:
            parent.kill()
    assert wait_until(lambda: broker.probe(port) is None)
    shutil.rmtree(data)


@pytest.mark.kafka
@pytest.mark.usefixtures("_broker_tier")
def test_background_cluster_keeps_its_data_between_runs(tmp_path: Path) -> None:
    """``up``, ``status`` and ``down`` work on one cluster by its data directory."""
    (port,) = broker.free_ports(1)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(SCRIPT), *words, "--data", str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    up = ["up", "--background", "--port", str(port)]
    topic = ["--bootstrap-server", f"127.0.0.1:{port}", "--topic", "kept"]
    tool = "org.apache.kafka.tools.TopicCommand"
    try:
        assert f"127.0.0.1:{port}\n" == run(*up).stdout
        broker.java_tool(tool, *topic, "--create")
        assert 1 == run(*up).returncode
        assert 0 == run("status").returncode
        assert 0 == run("down").returncode
        assert broker.probe(port) is None
        assert 1 == run("status").returncode
        assert 0 == run(*up).returncode
        assert "Topic: kept" in broker.java_tool(tool, *topic, "--describe")
    finally:
        assert 0 == run("down").returncode


def wait_until(done: Callable[[], bool], timeout_s: float = 10) -> bool:
    """Whether ``done`` came true in time."""
    pause = threading.Event()
    for _ in range(int(timeout_s / 0.05)):
        if done():
            return True
        pause.wait(0.05)
    return done()


# ------------------------------------------------- without Java, Maven or broker


def fake(path: Path, script: str) -> dict[str, str]:
    """An environment whose path starts with a command that runs ``script``."""
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    path.chmod(0o755)
    return {"PATH": f"{path.parent}:{os.environ['PATH']}"}


def test_missing_java_says_what_to_install(tmp_path: Path) -> None:
    """No Java in the place named is an error that names a package."""
    with pytest.raises(broker.JavaMissing, match="openjdk-17-jre-headless"):
        broker.find_java({"JAVA_HOME": str(tmp_path)})


def test_old_java_is_refused(tmp_path: Path) -> None:
    """Java 11 is named as too old before a broker fails on it."""
    env = fake(tmp_path / "bin" / "java", "echo 'openjdk version \"11.0.2\"' >&2")
    with pytest.raises(broker.JavaMissing, match=r"11\.0\.2"):
        broker.find_java(env)


def test_missing_maven_says_what_to_install(tmp_path: Path) -> None:
    """Without Maven an empty cache is an error that names a package."""
    with pytest.raises(broker.JarsUnavailable, match="Debian: maven"):
        broker.jars(tmp_path, {"PATH": str(tmp_path)})


def test_failing_maven_leaves_no_cache_behind(tmp_path: Path) -> None:
    """A fetch that failed half-way is reported, and is not taken for a cache."""
    half = 'mkdir -p "${7#*=}"; touch "${7#*=}/kafka_1.jar"; echo refused; exit 1'
    env = fake(tmp_path / "bin" / "mvn", half)
    with pytest.raises(broker.JarsUnavailable, match="refused"):
        broker.jars(tmp_path / "cache", env)
    assert ["lock"] == [found.name for found in (tmp_path / "cache").iterdir()]


def test_jars_are_fetched_once_by_many_at_once(tmp_path: Path) -> None:
    """Of four that find the cache empty one fetches, and all get its directory."""
    count = tmp_path / "count"
    whole = f'echo run >> {count}; mkdir -p "${{7#*=}}"; touch "${{7#*=}}/kafka_1.jar"'
    env = fake(tmp_path / "bin" / "mvn", f"{whole}; sleep 0.2")
    found: list[Path] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(broker.jars(tmp_path / "cache", env))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert "run\n" == count.read_text(encoding="ascii")
    assert 4 == len(found)
    assert 1 == len(set(found))


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"PATHGATE_KAFKA_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, f"/b/pathgate/kafka-{broker.kafka_version()}"),
    ],
)
def test_cache_place_follows_the_environment(
    env: dict[str, str], expected: str
) -> None:
    """The project's own variable wins over the desktop's."""
    assert Path(expected) == broker.cache_dir(env)


@pytest.mark.parametrize(
    ("keywords", "named"),
    [
        ({"brokers": 0}, "not 0"),
        ({"brokers": 3, "ports": [9092]}, "9092"),
        ({"config": {"listeners": "PLAINTEXT://:1"}}, "listeners"),
        ({"scram_users": {"a": "b]c"}}, "'a'"),
    ],
)
def test_impossible_cluster_is_refused(keywords: dict[str, object], named: str) -> None:
    """What cannot be is refused before anything is started."""
    with pytest.raises(ValueError, match=named):
        KafkaCluster(**keywords)  # type: ignore[arg-type] # wrong on purpose


def test_probe_of_a_silent_port_is_none() -> None:
    """A port without a broker is no answer, not an error."""
    assert broker.probe(broker.free_ports(1)[0]) is None
