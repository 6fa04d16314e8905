"""The topic table, the partitioners, and what is said of topics that differ."""

from collections.abc import Mapping

import msgspec
import pytest
from aiokafka.partitioner import murmur2 as murmur2_of_aiokafka
from hypothesis import given
from hypothesis import strategies as st

from streams.settings import Partitioner, Settings
from streams.topics import (
    Cleanup,
    Described,
    Role,
    TopicsError,
    TopicSpec,
    check,
    murmur2,
    names_from,
    partition_for,
    table_from,
)

DAY_MS = 24 * 60 * 60 * 1000


def load(**flags: object) -> Settings:
    return Settings.load(flags, {})


def table_of(**flags: object) -> dict[str, TopicSpec]:
    return {spec.name: spec for spec in table_from(load(**flags))}


def as_it_should_be(table: Mapping[str, TopicSpec]) -> dict[str, Described]:
    return {
        spec.name: Described(
            partitions=spec.partitions,
            replication_factor=spec.replication_factor,
            configs=dict(spec.configs),
        )
        for spec in table.values()
    }


def problems_with(
    topic: str, settings: Settings | None = None, **changes: object
) -> list[tuple[str, str, str, str]]:
    """What is said when one topic differs from the table."""
    settings = settings or load()
    table = {spec.name: spec for spec in table_from(settings)}
    described = as_it_should_be(table)
    described[topic] = msgspec.structs.replace(described[topic], **changes)
    return [
        (one.topic, one.code, one.found, one.remedy)
        for one in check(described, list(table.values()), settings)
    ]


# ------------------------------------------------------------------- the table


def test_table_has_every_topic_once() -> None:
    """Name, role, partitions and cleanup policy of each, by default."""
    found = [
        (spec.name, spec.role, spec.partitions, spec.cleanup)
        for spec in table_of().values()
    ]
    delete, compact = Cleanup.DELETE, Cleanup.COMPACT
    assert found == [
        ("agent.tool-called", Role.SOURCE, 6, delete),
        ("eval.started", Role.SOURCE, 6, delete),
        ("eval.scored", Role.SOURCE, 6, delete),
        ("eval.completed", Role.SOURCE, 6, delete),
        ("run.terminal", Role.SOURCE, 6, delete),
        ("eval.suite-definition", Role.SOURCE, 1, compact),
        ("eval.task-summary", Role.OUTPUT, 6, compact),
        ("eval.suite-summary", Role.OUTPUT, 6, compact),
        ("eval.gate-alert", Role.OUTPUT, 6, delete),
        ("eval.dead-letter", Role.OUTPUT, 6, delete),
        ("pathgate-control", Role.INTERNAL, 6, delete),
        ("pathgate-runs-changelog", Role.INTERNAL, 6, compact),
    ]


def test_configs_of_a_changelog() -> None:
    """Compacted alone, and a copy on a disk may be a week old."""
    assert table_of()["pathgate-runs-changelog"].configs == {
        "cleanup.policy": "compact",
        "min.insync.replicas": "2",
        "max.message.bytes": "8388608",
        "unclean.leader.election.enable": "false",
        "delete.retention.ms": str(7 * DAY_MS),
        "min.cleanable.dirty.ratio": "0.1",
        "segment.ms": str(DAY_MS),
    }


def test_configs_of_a_source() -> None:
    """Events stay for a week and are never compacted."""
    assert table_of()["eval.scored"].configs == {
        "cleanup.policy": "delete",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "retention.ms": str(7 * DAY_MS),
    }


def test_dead_letters_may_be_larger_than_events() -> None:
    """An event of 1 MiB fits with the headers that say why it was parked."""
    size = int(table_of()["eval.dead-letter"].configs["max.message.bytes"])
    assert size == 2 * 1024 * 1024


def test_prefix_stands_before_all_but_the_changelog() -> None:
    """Faust names the changelog after the app id."""
    names = list(table_of(topic_prefix="acme.", app_id="acme.gate"))
    assert names[-1] == "acme.gate-runs-changelog"
    assert all(name.startswith("acme.") for name in names)
    assert names[-2] == "acme.acme.gate-control"


def test_one_topic_with_everything_replaces_the_five() -> None:
    """Its row holds all event types, and its setting is the one to change."""
    table = table_of(topic_events="agent.events")
    spec = table["agent.events"]
    assert spec.setting == "topic_events"
    assert spec.holds == (
        "agent.tool-called, eval.started, eval.scored, eval.completed,"
        " run.completed, run.failed, run.cancelled"
    )
    assert not {"agent.tool-called", "eval.started"} & table.keys()
    assert names_from(load(topic_events="agent.events")).sources == ("agent.events",)


def test_two_event_types_may_share_a_topic() -> None:
    """Routing is by type, so that a host may put scores and starts together."""
    settings = load(topic_eval_scored="eval.started")
    assert names_from(settings).sources == (
        "agent.tool-called",
        "eval.started",
        "eval.completed",
        "run.terminal",
    )
    table = {spec.name: spec for spec in table_from(settings)}
    assert table["eval.started"].holds == "eval.started, eval.scored"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            {"topic_gate_alert": "eval.scored"},
            (
                "eval.scored: is named by topic_eval_scored and by topic_gate_alert;"
                " give topic_gate_alert another name"
            ),
        ),
        (
            {"topic_suite_summary": "eval.task-summary"},
            (
                "eval.task-summary: is named by topic_task_summary and by"
                " topic_suite_summary; give topic_suite_summary another name"
            ),
        ),
        (
            {"topic_dead_letter": "eval_started"},
            (
                "eval_started: differs from eval.started only by '.' and '_';"
                " give topic_dead_letter another name"
            ),
        ),
    ],
)
def test_topics_that_must_differ_do(flags: dict[str, str], expected: str) -> None:
    """An output in its own input would be graded; a look-alike is never created."""
    with pytest.raises(TopicsError) as caught:
        table_from(load(**flags))
    assert str(caught.value) == expected


# ----------------------------------------------------------------- the checks


def test_topics_as_they_should_be_have_no_problem() -> None:
    """The table meets itself."""
    table = table_of()
    assert check(as_it_should_be(table), list(table.values()), load()) == []


def test_no_topics_have_no_problem() -> None:
    """Nothing asked, nothing found."""
    assert check({}, [], load()) == []


def test_missing_topic_names_its_setting() -> None:
    """It can be created, or another can be named."""
    table = table_of()
    described = as_it_should_be(table)
    del described["eval.scored"]
    (problem,) = check(described, list(table.values()), load())
    assert str(problem) == (
        "eval.scored: does not exist; run `pathgate topics create`, or name another"
        " in topic_eval_scored"
    )


def test_the_odd_one_out_is_to_be_made_anew() -> None:
    """Of several topics the one that differs from the others is named."""
    (problem,) = problems_with("eval.scored", partitions=3)
    assert problem[:3] == (
        "eval.scored",
        "partition-count",
        "has 3 partitions, 6 are needed",
    )
    assert problem[3] == (
        "create it anew with 6 if it is not in use; if partitions were added, runs"
        ' have moved and state must be rebuilt: see "Another number of partitions"'
        " in deploy/README.md"
    )


def test_setting_is_to_be_changed_where_all_topics_agree() -> None:
    """The setting follows topics that were created so, and only those."""
    table = table_of(partitions=12)
    settings = load()
    wanted = list(table_from(settings))
    problems = check(as_it_should_be(table), wanted, settings)
    keyed = [spec.name for spec in wanted if spec.key != "suiteId@version"]
    assert [problem.topic for problem in problems] == keyed
    assert {problem.remedy for problem in problems} == {
        (
            "set partitions=12 if all were created so; if partitions were added, runs"
            ' have moved and state must be rebuilt: see "Another number of partitions"'
            " in deploy/README.md"
        )
    }


def test_partitions_added_to_topics_in_use_are_no_setting() -> None:
    """Where others still have the old count, no setting makes it good."""
    table = table_of()
    described = as_it_should_be(table)
    # All but the internal ones: so many that most topics have the new count.
    grown = {
        spec.name
        for spec in table.values()
        if spec.is_keyed_by_run and spec.role is not Role.INTERNAL
    }
    wide = as_it_should_be(table_of(partitions=8))
    described |= {name: wide[name] for name in grown}
    problems = check(described, list(table.values()), load())
    assert {problem.topic for problem in problems} == grown
    for problem in problems:
        assert problem.found == "has 8 partitions, 6 are needed"
        assert problem.remedy == (
            "not all topics have 8 as this one has; if partitions were added, runs have moved and"
            ' state must be rebuilt: see "Another number of partitions" in'
            " deploy/README.md"
        )


def test_suite_topic_may_have_any_count() -> None:
    """Every worker reads it whole."""
    assert problems_with("eval.suite-definition", partitions=3) == []


def test_fewer_replicas_than_wanted() -> None:
    """One broker less loses a record that was acknowledged."""
    (problem,) = problems_with("eval.scored", replication_factor=1)
    assert problem[1:3] == (
        "replication-factor",
        "has replication factor 1, 3 is wanted",
    )
    assert "replication_factor=1" in problem[3]


def test_more_replicas_than_wanted_are_no_problem() -> None:
    """An operator may be more careful than the settings."""
    assert problems_with("eval.scored", replication_factor=5) == []


@pytest.mark.parametrize(
    ("topic", "config", "value", "remedy"),
    [
        ("eval.scored", "cleanup.policy", "compact", "cleanup.policy=delete"),
        ("eval.scored", "cleanup.policy", "compact,delete", "cleanup.policy=delete"),
        ("eval.task-summary", "cleanup.policy", "delete", "cleanup.policy=compact"),
        (
            "pathgate-runs-changelog",
            "cleanup.policy",
            "delete,compact",
            "cleanup.policy=compact",
        ),
        ("eval.scored", "min.insync.replicas", "1", "min.insync.replicas=2"),
        # 1 h of silence and 24 h of late events: 25 h in all.
        ("eval.scored", "retention.ms", str(25 * 3_600_000 - 1), "604800000"),
        ("pathgate-control", "retention.ms", "60000", "604800000"),
    ],
)
def test_config_that_would_lose_records(
    topic: str, config: str, value: str, remedy: str
) -> None:
    """Each is named with the command that mends it."""
    configs = dict(table_of()[topic].configs)
    configs[config] = value
    (problem,) = problems_with(topic, configs=configs)
    assert problem[0] == topic
    assert problem[1] == config.replace(".", "-")
    assert f"{config}={value}" in problem[2]
    assert problem[3].startswith(f"kafka-configs.sh --alter --topic {topic} ")
    assert problem[3].endswith(remedy)


@pytest.mark.parametrize(
    ("topic", "config", "value"),
    [
        ("eval.scored", "retention.ms", "-1"),
        ("eval.scored", "retention.ms", str(25 * 3_600_000)),
        ("eval.gate-alert", "retention.ms", "60000"),
        ("eval.scored", "min.insync.replicas", "3"),
    ],
)
def test_config_that_loses_nothing_is_left_alone(
    topic: str, config: str, value: str
) -> None:
    """Longer, stricter, or of no matter to a verdict."""
    configs = dict(table_of()[topic].configs)
    configs[config] = value
    assert problems_with(topic, configs=configs) == []


def test_configs_that_may_not_be_read_are_not_guessed() -> None:
    """Without the right to see them nothing is said of them here."""
    assert problems_with("eval.scored", configs=None) == []


# ------------------------------------------------------------ the partitioners


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        # Apache Kafka's own cases for its Java client, as signed 32-bit integers.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas(key: bytes, signed: int) -> None:
    """The hash agrees with the Java client's published cases."""
    assert murmur2(key) == signed & 0xFFFF_FFFF


@given(st.binary(max_size=80))
def test_murmur2_is_aiokafkas(key: bytes) -> None:
    """The hash agrees with that of the client whose producers many hosts use."""
    assert murmur2(key) == murmur2_of_aiokafka(key) & 0xFFFF_FFFF


def test_partition_of_a_negative_hash() -> None:
    """Java clears the sign bit before it divides: -973932308 is 1173551340."""
    assert partition_for(b"21", 6, Partitioner.MURMUR2) == 1173551340 % 6


def test_crc32_is_librdkafkas() -> None:
    """CRC-32's check value, 0xCBF43926 of ``123456789``, modulo the partitions."""
    assert partition_for(b"123456789", 7, Partitioner.CRC32) == 0xCBF43926 % 7


@given(st.binary(max_size=40), st.integers(1, 500), st.sampled_from(Partitioner))
def test_partition_exists(key: bytes, n: int, partitioner: Partitioner) -> None:
    """Whatever the key, the partition is one of the topic's."""
    assert 0 <= partition_for(key, n, partitioner) < n


def test_partition_of_nothing_is_an_error() -> None:
    """A topic has at least one partition."""
    with pytest.raises(ValueError, match="got 0"):
        partition_for(b"k", 0, Partitioner.CRC32)
