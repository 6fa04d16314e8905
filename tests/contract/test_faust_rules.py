"""What Faust and aiokafka do in production, and the setting or code that answers it.

Each test names a rule and why; behaviour under kills and rebalances is tested on
a real broker (``tests/broker/ingest``, ``tests/broker/worker``). Rules that are
held by not using something are held here by looking for it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faust
import mode
import pytest
from faust import streams as faust_streams

from streams.app import create_app
from streams.ingest import BatchTransport, install
from streams.recovery import BulkRecovery
from streams.settings import Settings
from streams.topics import Cleanup, Role, table_from

ROOT = Path(__file__).parents[2] / "streams"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"data_dir": str(tmp_path)}, {})


@pytest.fixture
def app(settings: Settings) -> faust.App:
    return create_app(settings, lambda _topic, _left: None)


def called_names() -> Iterator[tuple[str, str]]:
    """(module, attribute or name) of every call in the package."""
    for path in ROOT.rglob("*.py"):
        if path.parent.name in {"ingest", "kafka"}:
            continue  # take records out of responses, under Faust's streams
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                target = node.func
                name = getattr(target, "attr", None) or getattr(target, "id", "")
                yield path.relative_to(ROOT).as_posix(), str(name)


def test_an_exception_in_an_agent_ends_the_worker(app: faust.App) -> None:
    """Any other supervisor restarts the agent behind the event that failed."""
    supervisor: object = app.conf.agent_supervisor
    assert mode.CrashingSupervisor is supervisor


def test_no_agent_acknowledges_by_itself() -> None:
    """Leaving an acknowledging stream acknowledges the event in flight."""
    source = (ROOT / "agents" / "hub.py").read_text(encoding="utf-8")
    assert "stream.noack().events()" in source
    assert source.count("async for") == 1


def test_one_chunk_at_a_time_and_chunks_of_source_topics(
    app: faust.App, settings: Settings
) -> None:
    """Offsets are committed by the batched consumer, never over a hole."""
    install(app, ["eval.scored"], chunk_records=settings.chunk_records)
    assert isinstance(app.transport, BatchTransport)


def test_delivery_is_at_least_once(app: faust.App) -> None:
    """Exactly-once never saves the store's offset, and loses on a crash."""
    guarantee: Any = app.conf.processing_guarantee
    assert "at_least_once" == guarantee.value


def test_brokers_are_asked_for_all_acknowledgements(app: faust.App) -> None:
    """Faust's own producer too, though nothing of ours goes through it."""
    assert -1 == app.conf.producer_acks
    # 20 minutes by default before a stuck write is told.
    assert 120.0 == app.conf.producer_request_timeout
    assert app.conf.producer_threaded is False


def test_a_rebalance_does_not_wait_for_chunks_that_wait(app: faust.App) -> None:
    """They wait for records that a stopped flow never brings."""
    assert app.conf.stream_wait_empty is False


def test_reading_begins_at_the_beginning(app: faust.App) -> None:
    """``latest`` skips silently, and can hang a recovery."""
    assert "earliest" == app.conf.consumer_auto_offset_reset


def test_idle_workers_stay_in_the_group(app: faust.App) -> None:
    """0 or None is exceeded at once; a small value evicts who has no partition."""
    assert app.conf.broker_max_poll_interval > 7 * 86_400


def test_requests_outlast_the_session(app: faust.App) -> None:
    """The client refuses to start otherwise."""
    assert app.conf.broker_request_timeout > app.conf.broker_session_timeout
    assert app.conf.broker_heartbeat_interval * 3 <= app.conf.broker_session_timeout


def test_topics_are_never_declared_by_the_app(app: faust.App) -> None:
    """Faust would make them with one replica."""
    assert app.conf.topic_allow_declare is False
    assert app.conf.topic_disable_leader is True


def test_changelog_is_compacted_and_replicated(settings: Settings) -> None:
    """A changelog that expires loses state and can hang a recovery."""
    (changelog,) = [
        spec
        for spec in table_from(settings)
        if spec.role is Role.INTERNAL and spec.name.endswith("-changelog")
    ]
    assert Cleanup.COMPACT is changelog.cleanup
    assert (3, settings.partitions) == (
        changelog.replication_factor,
        changelog.partitions,
    )
    assert "2" == changelog.configs["min.insync.replicas"]


def test_all_keyed_topics_have_one_partition_count(settings: Settings) -> None:
    """Otherwise keys that must meet are on different workers."""
    counts = {
        spec.partitions
        for spec in table_from(settings)
        if spec.setting != "topic_suite_definition"
    }
    assert {settings.partitions} == counts


def test_table_contents_are_not_served(app: faust.App) -> None:
    """Faust's web server shows tables, on every address, by default."""
    assert app.conf.web_enabled is False
    assert app.conf.web_tables_enabled is False


def test_stray_environment_variables_are_not_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Kubernetes Service named ``web`` sets WEB_PORT to an address."""
    monkeypatch.setenv("WEB_PORT", "tcp://10.0.0.1:80")
    monkeypatch.setenv("BROKER_URL", "kafka://elsewhere:1")
    app = create_app(settings, lambda _topic, _left: None)
    assert ["kafka://127.0.0.1:9092"] == [str(url) for url in app.conf.broker]


def test_recovery_checks_that_the_store_is_not_ahead(app: faust.App) -> None:
    """A topic made anew under an old store would go unnoticed."""
    assert app.conf.recovery_consistency_check is True
    tables: Any = app.tables
    assert isinstance(tables.recovery, BulkRecovery)


def test_the_compiled_stream_iterator_is_there() -> None:
    """The one in Python acknowledges stale messages that it skips."""
    assert vars(faust_streams)["_CStreamIterator"] is not None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("take", "acknowledges a whole batch when its handler raises"),
        ("noack_take", "table writes in it fail"),
        ("group_by", "skips records whose key cannot be made"),
        ("through", "does not wait for delivery"),
        ("SetTable", "its rebalance hook passes shifted arguments"),
        ("GlobalTable", "standby records can reach the wrong table"),
        ("tumbling", "windows look keys up that can never hit"),
        ("hopping", "windows look keys up that can never hit"),
        ("timer", "runs on every worker and during rebalances"),
        ("crontab", "runs on every worker and during rebalances"),
        ("send_soon", "is not acknowledged before what rests on it"),
    ],
)
def test_what_loses_events_is_not_used(name: str, why: str) -> None:
    """No call of that name stands anywhere in the package."""
    assert [] == [module for module, called in called_names() if called == name], why


def test_the_search_for_calls_finds_them() -> None:
    """The test above would notice: a call that is there is found."""
    assert ("agents/hub.py", "noack") in set(called_names())
