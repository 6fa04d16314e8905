"""The worker itself over TLS and SCRAM, with the shipped rights and no more."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.topics import names_from
from tests.broker.worker.process import WorkerProcess, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "streams" / "sample"
PARTITIONS = 2


def pathgate(
    *args: str, env: dict[str, str] | None = None, codes: Collection[int] = (0,)
) -> str:
    """Runs a command to its end; what it wrote to standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "streams.cli", *args],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode in codes, done.stderr
    return done.stdout


def variables(secure: Any, user: str) -> dict[str, str]:
    """Setting -> value, as a deployment would give them."""
    return {
        "bootstrap_servers": secure.client,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": user,
        "sasl_password_file": str(secure.certs / f"{user}.password"),
        "ssl_ca_file": str(secure.certs / "ca.crt"),
        "partitions": str(PARTITIONS),
        "replication_factor": "1",
        "min_insync_replicas": "1",
    }


def as_env(settings: dict[str, str]) -> dict[str, str]:
    return {f"PATHGATE_{name.upper()}": value for name, value in settings.items()}


@pytest.fixture(scope="module")
def topics(secure: Any) -> None:
    """The topics, created by the command and the user that are meant for it."""
    settings = variables(secure, "pathgate-topics")
    pathgate("topics", "create", env=as_env(settings))


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    """Run -> its suite record, as the replay of the same events prints it."""
    printed = pathgate(
        *("replay", str(SAMPLE / "runs.ndjson"), "--suites", str(SAMPLE / "suites")),
        *("--format", "json"),
        # Two of the sample's runs do not pass.
        codes={1},
    )
    lines = printed.splitlines()
    return {json.loads(line)["runId"]: line.encode() for line in lines}


@asynccontextmanager
async def running(secure: Any, home: Path) -> AsyncIterator[WorkerProcess]:
    settings = variables(secure, "pathgate") | {
        "suites_dir": str(SAMPLE / "suites"),
        "data_dir": str(home / "data"),
        "web_port": "0",
    }
    worker = WorkerProcess(settings, home / "worker.log")
    try:
        await worker.ready()
        yield worker
    finally:
        if worker.is_running:
            await worker.kill()


async def publish(secure: Any) -> int:
    """The host's part, with the host's rights, by the script of the compose file."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(ROOT / "deploy/compose/publish_sample.py")],
        env={"PYTHONPATH": str(ROOT), **as_env(variables(secure, "pathgate-host"))},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[1])


async def published(secure: Any, runs: Iterable[str]) -> dict[str, bytes]:
    """Run -> its newest suite record, read with the reader's rights."""
    topic = names_from(secure.settings("pathgate-reader")).suite_summary
    consumer = AIOKafkaConsumer(**secure.aiokafka("pathgate-reader"))
    await consumer.start()
    found: dict[str, bytes] = {}
    try:
        places = [TopicPartition(topic, n) for n in range(PARTITIONS)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        async with asyncio.timeout(60):
            while found.keys() < set(runs):
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found |= {r.key.decode(): r.value for r in records}
                    found = {run: found[run] for run in runs if run in found}
    finally:
        await consumer.stop()
    return found


async def count_of_records(secure: Any) -> int:
    """Suite records that were ever published."""
    topic = names_from(secure.settings("pathgate-reader")).suite_summary
    consumer = AIOKafkaConsumer(**secure.aiokafka("pathgate-reader"))
    await consumer.start()
    try:
        places = [TopicPartition(topic, n) for n in range(PARTITIONS)]
        return sum((await consumer.end_offsets(places)).values())
    finally:
        await consumer.stop()


@pytest.mark.asyncio
async def test_worker_grades_with_the_shipped_rights(
    secure: Any, topics: None, expected: dict[str, bytes], tmp_path: Path
) -> None:
    """Each party with its own user and rights: the records are the replay's, byte for byte."""
    del topics
    async with running(secure, tmp_path) as worker:
        await publish(secure)
        found = await published(secure, expected)
        assert await worker.stop() == 0, worker.text()[-3000:]
    assert found == expected
    refused = [line for line in worker.text().splitlines() if "uthoriz" in line]
    assert refused == []


@pytest.mark.asyncio
async def test_worker_recovers_its_tables_with_the_shipped_rights(
    secure: Any, topics: None, expected: dict[str, bytes], tmp_path: Path
) -> None:
    """Without its disk it reads the changelog back, and so publishes nothing twice."""
    del topics
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    async with running(secure, tmp_path / "first") as worker:
        await publish(secure)
        await published(secure, expected)
        assert await worker.stop() == 0, worker.text()[-3000:]
    before = await count_of_records(secure)
    async with running(secure, tmp_path / "second") as worker:
        sent = await publish(secure)
        async with asyncio.timeout(60):
            # A worker on another process tells only when it is asked.
            while await worker.metric("pathgate_events_received_total") < sent:
                await asyncio.sleep(0.1)
        assert await worker.stop() == 0, worker.text()[-3000:]
    assert await count_of_records(secure) == before


def test_verify_runs_with_the_shipped_rights(secure: Any, topics: None) -> None:
    """Its user can read all that it compares, and ask for rebuilds."""
    del topics
    settings = variables(secure, "pathgate-verify")
    settings["suites_dir"] = str(SAMPLE / "suites")
    told = pathgate(
        "verify", "--repair", "--format", "json", env=as_env(settings), codes={0, 3}
    )
    assert json.loads(told)["findings"] == []


def test_suites_are_published_with_the_shipped_rights(
    secure: Any, topics: None
) -> None:
    """Its user can write suites, and that is all that it needs."""
    del topics
    settings = variables(secure, "pathgate-suites")
    pathgate("suites", "publish", str(SAMPLE / "suites"), env=as_env(settings))


@pytest.mark.asyncio
async def test_worker_names_the_right_that_it_lacks(
    secure: Any, tmp_path: Path
) -> None:
    """With another user's credentials it ends at once, and says what is missing."""
    settings = variables(secure, "pathgate-host") | {"data_dir": str(tmp_path / "d")}
    worker = WorkerProcess(settings, tmp_path / "worker.log")
    await until(lambda: not worker.is_running, "the end of a worker without rights")
    assert await worker.ended() != 0
    assert (
        "User:pathgate-host needs Describe on topic eval.suite-summary" in worker.text()
    )


@pytest.mark.asyncio
async def test_password_is_never_logged(
    secure: Any, topics: None, tmp_path: Path
) -> None:
    """Neither at the most talkative level nor in the settings that are printed."""
    del topics
    settings = variables(secure, "pathgate") | {
        "data_dir": str(tmp_path / "data"),
        "web_port": "0",
        "log_level": "DEBUG",
    }
    worker = WorkerProcess(settings, tmp_path / "worker.log")
    try:
        await worker.ready()
        await worker.stop()
    finally:
        if worker.is_running:
            await worker.kill()
    shown = pathgate("config", "show", env=as_env(settings))
    password = secure.password("pathgate")
    assert "worker_starting" in worker.text()
    assert password not in worker.text()
    assert "sasl_password" in shown
    assert password not in shown
