"""Records that are no events, and content that must not get anywhere."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.broker.worker.site import PARTITIONS, Host, Site, reason_codes
from tests.broker.worker.workload import GATED, RunLog, gated_run, mixed

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka]

MakeSite = Callable[..., Awaitable[Site]]

CANARY = "canary-7d1f"
_HEADERS = (
    "__connect.errors.topic",
    "__connect.errors.partition",
    "__connect.errors.offset",
    "__connect.errors.exception.class.name",
    "__connect.errors.exception.message",
)


def _event(**over: object) -> bytes:
    run = RunLog("acme/run-poisoned-0001")
    facts = json.loads(run.call("search", {"q": CANARY}).data)
    return json.dumps(facts | over).encode()


POISON: list[bytes | None] = [
    b"",
    None,
    b"not json " + CANARY.encode(),
    b"\xff\xfe " + CANARY.encode(),
    _event()[:-20],
    _event() + b"}",
    _event(sequence=-1),
    _event(sequence="1"),
    _event(timestamp=CANARY),
    _event(runId=""),
    _event(payload={"toolName": "", "inputs": CANARY}),
    _event(payload={"toolName": "wire_money", "argsHash": CANARY}),
    _event(payload=[CANARY]),
    b'{"runId":"acme/run-poisoned-0002",' + _event()[1:],
    b'{"a":' * 5000 + CANARY.encode(),
    b"[" * 200_000,
    b'{"eventId":"' + CANARY.encode() * 80_000 + b'"}',
]


async def _poison(
    host: Host, values: list[bytes | None]
) -> list[tuple[str, int, bytes]]:
    """Publishes them over topics and partitions; where, and with which key."""
    sources = host.site.names.sources
    places = []
    for number, value in enumerate(values):
        topic = sources[number % len(sources)]
        partition = number % PARTITIONS
        key = f"key-{number}".encode()
        await host.producer.send_and_wait(topic, value, key, partition)
        places.append((topic, partition, key))
    return places


@pytest.mark.parametrize("body", ["none", "raw"])
async def test_what_is_no_event_is_parked_and_all_else_graded(
    make_site: MakeSite, body: str
) -> None:
    """Place, key, size and digest of each; its bytes only if asked for."""
    work = mixed(60, seed=11, ordinary=0.5)
    site = await make_site(
        suites=work.suites, dead_letter_body=body, run_idle_timeout_s=1.5
    )
    worker = await site.worker()
    logs = work.logs
    half = len(logs) // 2
    async with site.host() as host:
        await host.run_all(logs[:half])
        places = await _poison(host, POISON)
        await host.run_all(logs[half:])
    await site.settles(site.expected(work.events))
    letters = {one.key: one for one in site.published.records[site.names.dead_letter]}
    assert {key for _, _, key in places} == set(letters)
    for (topic, partition, key), value in zip(places, POISON, strict=True):
        letter = letters[key]
        headers = {name: text.decode() for name, text in letter.headers}
        assert set(_HEADERS) <= headers.keys()
        assert (topic, str(partition)) == (headers[_HEADERS[0]], headers[_HEADERS[1]])
        assert hashlib.sha256(value or b"").hexdigest() == headers["pathgate.sha256"]
        assert str(len(value or b"")) == headers["pathgate.size"]
        assert CANARY not in str(headers)
        assert letter.value == (value if body == "raw" else None)
        assert partition == letter.partition
    assert len(POISON) == await worker.metric("pathgate_dead_letters_total")


def _spoil_digest(event: bytes) -> bytes:
    return event.replace(b'"toolName"', b'"argsHash": "zz", "toolName"')


def _frame(event: bytes) -> bytes:
    return b"\x00\x00\x00\x00\x07" + event[len(event) // 2 :]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_spoil_digest, id="payload"),
        pytest.param(_frame, id="the-key-alone-names-the-run"),
        pytest.param(lambda _event: None, id="tombstone"),
    ],
)
async def test_an_unreadable_call_closes_its_run(
    make_site: MakeSite, spoil: Callable[[bytes], bytes | None]
) -> None:
    """A forbidden call that cannot be read: its run does not pass without it."""
    site = await make_site(suites=[GATED])
    worker = await site.worker()
    run = gated_run("acme/run-000000000001", "search", "wire_money")
    call = run.log[2].data
    assert b"wire_money" in call
    lines: list[bytes | None] = [event.data for event in run.log]
    lines[2] = spoil(call)
    async with site.host() as host:
        for event, data in zip(run.log, lines, strict=True):
            await host.producer.send_and_wait(
                site.topic_of(event), data, run.run_id.encode()
            )
    # A file has no keys: there the run has to be named by the bytes.
    named = [line.data for line in run.log]
    named[2] = _spoil_digest(call)
    await site.settles(site.expected(named))
    records = site.published.summaries(run.run_id)
    assert [False] * len(records) == [one["summary"]["passed"] for one in records]
    assert "calls-dropped" in reason_codes(records[-1])
    await site.commits_all()
    # The topics are read by the same rule; with a run of each partition's end.
    found = await site.verified()
    assert (1 + PARTITIONS, ()) == (found.runs, found.findings)
    assert 0 == await worker.stop()


def stored_files(folder: Path) -> list[Path]:
    """Everything that a worker has on disk."""
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_content_gets_nowhere(make_site: MakeSite) -> None:
    """A word in inputs, outputs and poison is in the source topics alone."""
    site = await make_site(suites=[GATED], log_level="DEBUG")
    worker = await site.worker()
    content = {"say": CANARY, CANARY: [CANARY], "n": 1}
    runs = []
    for number in range(12):
        run = RunLog(f"acme/run-{number:012d}")
        run.start(GATED, **{"x-note": CANARY})
        run.call("search", content)
        run.call("wire_money", content)
        run.add("agent.tool-returned", {"toolName": "search", "outcome": CANARY})
        extension: dict[str, Any] = {"x-answer": CANARY}
        run.score("task-0", **extension)
        run.complete()
        run.add("run.failed", {"error": {"message": CANARY}})
        runs.append(run)
    chat = RunLog("acme/chat-000000000001")
    chat.call("search", content)
    await site.publish(*(run.log for run in runs), chat.log)
    async with site.host() as host:
        await _poison(host, POISON)
    await site.settles(site.expected(event for run in runs for event in run.log))
    metrics = await worker.get("/metrics")
    assert 0 == await worker.stop()
    names = site.names
    needle = CANARY.encode()
    for topic in (
        names.task_summary,
        names.suite_summary,
        names.gate_alert,
        names.dead_letter,
        names.control,
        names.runs_changelog,
    ):
        records = await site.read(topic)
        assert records or topic == names.control
        for record in records:
            assert needle not in (record.key or b"") + (record.value or b"")
            assert CANARY not in str(record.headers)
    assert CANARY not in metrics
    assert CANARY not in worker.text()
    files = stored_files(site.home / "w1")
    assert any(path.name.endswith((".sst", ".log")) for path in files)
    assert [] == [path for path in files if needle in path.read_bytes()]


async def _set_max_message_bytes(site: Site, topic: str, size: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=site.bootstrap)
    await admin.start()
    try:
        configs = {"max.message.bytes": str(size)}
        await admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, configs)]
        )
    finally:
        await admin.close()


async def test_a_dead_letter_that_cannot_be_written_stops_the_worker(
    make_site: MakeSite,
) -> None:
    """Nothing is committed past the poison; once the topic takes it, all goes on."""
    site = await make_site(suites=[GATED], dead_letter_body="raw")
    worker = await site.worker()
    run = gated_run("acme/run-000000000001")
    home = site.home_of(run.run_id)
    await site.publish(run.log)
    await site.settles(site.expected(run.log))
    await site.commits_all()
    await _set_max_message_bytes(site, site.names.dead_letter, 2000)
    scored = (site.names.eval_scored, home)
    before = (await site.group_offsets())[scored]
    late = gated_run("acme/run-000000000001x")
    poison = b"x" * 100_000
    async with site.host() as host:
        await host.producer.send_and_wait(*scored[:1], poison, b"key", home)
    for _ in range(2):
        assert 70 == await worker.ended()
        assert before == (await site.group_offsets())[scored]
        assert site.names.dead_letter in worker.text()
        assert "x" * 50 not in worker.text()
        worker = site.start_worker()
    await worker.ended()
    await _set_max_message_bytes(site, site.names.dead_letter, 2_000_000)
    await site.publish(late.log)
    await site.worker()
    await site.settles(site.expected([*run.log, *late.log]))
    letters = site.published.records[site.names.dead_letter]
    assert {b"key"} == {one.key for one in letters}
    assert {poison} == {one.value for one in letters}
    await site.commits_all()


async def test_metrics_and_probes_answer_while_nothing_is_read(
    make_site: MakeSite,
) -> None:
    """A worker without events is ready, and says so."""
    site = await make_site(suites=[GATED])
    worker = await site.worker()
    async with asyncio.timeout(10):
        assert "pathgate_build_info" in await worker.get("/metrics")
        assert 1 == await worker.metric("pathgate_ready")
