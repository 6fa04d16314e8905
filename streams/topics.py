"""The topic table: what each topic is, and whether the broker's agree with it."""

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from streams.errors import ConfigurationError
from streams.settings import Partitioner, Settings

_DAY_MS = 86_400_000
# Long enough for a run, an outage and a rebuild from the topics.
_EVENT_RETENTION_MS = 7 * _DAY_MS
_NOTICE_RETENTION_MS = 30 * _DAY_MS
# An event of 1 MiB that is parked grows by the headers that say why.
_DEAD_LETTER_MAX_BYTES = 2 * 1024 * 1024
TABLE_NAME = "runs"
_SUITE_KEY = "suiteId@version"


class TopicsError(ConfigurationError):
    """Topics that differ from the table; do what each problem says.

    Args:
        problems: What differs; at least one.
    """

    def __init__(self, problems: Sequence["Problem"]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class Role(StrEnum):
    """Who writes a topic and who reads it."""

    SOURCE = "source"
    OUTPUT = "output"
    INTERNAL = "internal"


class Cleanup(StrEnum):
    """Kafka's ``cleanup.policy``."""

    DELETE = "delete"
    COMPACT = "compact"


class TopicNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names in effect; several event topics may be one and the same.

    Args:
        runs_changelog: Faust's name for the changelog of the run table.
    """

    tool_called: str
    eval_started: str
    eval_scored: str
    eval_completed: str
    run_terminal: str
    suite_definition: str
    task_summary: str
    suite_summary: str
    gate_alert: str
    dead_letter: str
    control: str
    runs_changelog: str

    @property
    def sources(self) -> tuple[str, ...]:
        """The topics that events are read from, each once."""
        return tuple(
            dict.fromkeys(
                (
                    self.tool_called,
                    self.eval_started,
                    self.eval_scored,
                    self.eval_completed,
                    self.run_terminal,
                )
            )
        )


class TopicSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One topic as it should be.

    Args:
        name: Its name, prefix included.
        role: Who writes and reads it.
        setting: The setting that names it, or ``app_id``.
        key: What its keys are, in words.
        holds: What its values are: event types, or a record's name.
        model: The model its values decode to.
        cleanup: ``delete`` or ``compact``.
        retention_ms: Milliseconds that records are kept; -1 on compacted topics.
        partitions: How many.
        replication_factor: Replicas of each.
        configs: Every topic configuration to set, Kafka's names.
    """

    name: str
    role: Role
    setting: str
    key: str
    holds: str
    model: str
    cleanup: Cleanup
    retention_ms: int
    partitions: int
    replication_factor: int
    configs: dict[str, str]

    @property
    def is_keyed_by_run(self) -> bool:
        """Whether its partitions are those of the runs."""
        return self.key != _SUITE_KEY


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """One topic as a broker has it.

    Args:
        partitions: How many.
        replication_factor: Fewest replicas that any of its partitions has.
        configs: Its configuration, or None where it may not be read.
    """

    partitions: int
    replication_factor: int
    configs: dict[str, str] | None = None


class Problem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One way in which a topic differs from the table.

    Args:
        topic: Its name.
        code: Stable kebab-case code.
        found: What is there, in words.
        remedy: What to do, in words.
    """

    topic: str
    code: str
    found: str
    remedy: str

    def __str__(self) -> str:
        """One line for a person."""
        return f"{self.topic}: {self.found}; {self.remedy}"


def names_from(settings: Settings) -> TopicNames:
    """The topic names that the settings give."""

    def name(setting: str) -> str:
        value: str = getattr(settings, setting)
        return settings.topic_prefix + value

    def source(setting: str) -> str:
        return name("topic_events" if settings.topic_events else setting)

    return TopicNames(
        tool_called=source("topic_tool_called"),
        eval_started=source("topic_eval_started"),
        eval_scored=source("topic_eval_scored"),
        eval_completed=source("topic_eval_completed"),
        run_terminal=source("topic_run_terminal"),
        suite_definition=name("topic_suite_definition"),
        task_summary=name("topic_task_summary"),
        suite_summary=name("topic_suite_summary"),
        gate_alert=name("topic_gate_alert"),
        dead_letter=name("topic_dead_letter"),
        control=name("topic_control"),
        runs_changelog=f"{settings.app_id}-{TABLE_NAME}-changelog",
    )


class _Kind(msgspec.Struct, frozen=True):
    """What the settings do not change about one topic."""

    field: str
    role: Role
    key: str
    holds: str
    model: str
    cleanup: Cleanup
    retention_ms: int = -1


_EVENT = "schemas.events.Envelope"
_KINDS = (
    _Kind(
        "tool_called",
        Role.SOURCE,
        "runId",
        "agent.tool-called",
        _EVENT,
        Cleanup.DELETE,
        _EVENT_RETENTION_MS,
    ),
    _Kind(
        "eval_started",
        Role.SOURCE,
        "runId",
        "eval.started",
        _EVENT,
        Cleanup.DELETE,
        _EVENT_RETENTION_MS,
    ),
    _Kind(
        "eval_scored",
        Role.SOURCE,
        "runId",
        "eval.scored",
        _EVENT,
        Cleanup.DELETE,
        _EVENT_RETENTION_MS,
    ),
    _Kind(
        "eval_completed",
        Role.SOURCE,
        "runId",
        "eval.completed",
        _EVENT,
        Cleanup.DELETE,
        _EVENT_RETENTION_MS,
    ),
    _Kind(
        "run_terminal",
        Role.SOURCE,
        "runId",
        "run.completed, run.failed, run.cancelled",
        _EVENT,
        Cleanup.DELETE,
        _EVENT_RETENTION_MS,
    ),
    _Kind(
        "suite_definition",
        Role.SOURCE,
        _SUITE_KEY,
        "suite",
        "schemas.suite.Suite",
        Cleanup.COMPACT,
    ),
    _Kind(
        "task_summary",
        Role.OUTPUT,
        "runId#taskId",
        "task summary",
        "schemas.records.TaskRecord",
        Cleanup.COMPACT,
    ),
    _Kind(
        "suite_summary",
        Role.OUTPUT,
        "runId",
        "suite summary",
        "schemas.records.SuiteRecord",
        Cleanup.COMPACT,
    ),
    _Kind(
        "gate_alert",
        Role.OUTPUT,
        "runId",
        "alert",
        "schemas.records.AlertRecord",
        Cleanup.DELETE,
        _NOTICE_RETENTION_MS,
    ),
    _Kind(
        "dead_letter",
        Role.OUTPUT,
        "key of the event",
        "event that could not be read",
        "bytes",
        Cleanup.DELETE,
        _NOTICE_RETENTION_MS,
    ),
    _Kind(
        "control",
        Role.INTERNAL,
        "runId",
        "note: rebuild, misrouted",
        "bytes",
        Cleanup.DELETE,
        _EVENT_RETENTION_MS,
    ),
    _Kind(
        "runs_changelog",
        Role.INTERNAL,
        "key of a table row",
        "table row",
        "bytes",
        Cleanup.COMPACT,
    ),
)


def table_from(settings: Settings) -> tuple[TopicSpec, ...]:
    """The topic table, in a fixed order, each topic once.

    Topics that carry several event types have them joined in ``holds``.

    Raises:
        TopicsError: Two topics that must differ have one name, or names that
            a broker takes for the same.
    """
    names = names_from(settings)
    specs: dict[str, TopicSpec] = {}
    clashes: list[Problem] = []
    for kind in _KINDS:
        spec = _spec(kind, getattr(names, kind.field), settings)
        held = specs.get(spec.name)
        if held is None:
            specs[spec.name] = spec
        elif held.model == spec.model == _EVENT:
            joined = f"{held.holds}, {spec.holds}"
            specs[spec.name] = msgspec.structs.replace(held, holds=joined)
        else:
            clashes.append(_clash(spec, held.setting))
    clashes += _find_lookalikes(specs)
    if clashes:
        raise TopicsError(clashes)
    return tuple(specs.values())


def _spec(kind: _Kind, name: str, settings: Settings) -> TopicSpec:
    setting = f"topic_{kind.field}"
    if kind.field == "runs_changelog":
        setting = "app_id"
    elif kind.model == _EVENT and settings.topic_events:
        setting = "topic_events"
    return TopicSpec(
        name=name,
        role=kind.role,
        setting=setting,
        key=kind.key,
        holds=kind.holds,
        model=kind.model,
        cleanup=kind.cleanup,
        retention_ms=kind.retention_ms,
        # Every worker reads all suites, so there is nothing to share out.
        partitions=1 if kind.key == _SUITE_KEY else settings.partitions,
        replication_factor=settings.replication_factor,
        configs=_configs(kind, settings),
    )


def _configs(kind: _Kind, settings: Settings) -> dict[str, str]:
    configs = {
        "cleanup.policy": kind.cleanup.value,
        "min.insync.replicas": str(settings.min_insync_replicas),
        "unclean.leader.election.enable": "false",
    }
    if kind.cleanup is Cleanup.DELETE:
        configs["retention.ms"] = str(kind.retention_ms)
    else:
        # A reader that was away this long still sees what was removed. The
        # local copy of a changelog may be as old as the oldest disk in use.
        kept_ms = 7 * _DAY_MS if kind.role is Role.INTERNAL else _DAY_MS
        configs["delete.retention.ms"] = str(kept_ms)
        configs["min.cleanable.dirty.ratio"] = "0.1"
        configs["segment.ms"] = str(_DAY_MS)
    if kind.field == "dead_letter":
        configs["max.message.bytes"] = str(_DEAD_LETTER_MAX_BYTES)
    return configs


def _clash(spec: TopicSpec, setting: str) -> Problem:
    return Problem(
        topic=spec.name,
        code="name-taken",
        found=f"is named by {setting} and by {spec.setting}",
        remedy=f"give {spec.setting} another name",
    )


def _find_lookalikes(specs: Mapping[str, TopicSpec]) -> Iterator[Problem]:
    # A broker refuses to create a.b where a_b exists: in its metrics' names
    # they are the same.
    seen: dict[str, TopicSpec] = {}
    for spec in specs.values():
        other = seen.setdefault(spec.name.replace(".", "_"), spec)
        if other is not spec:
            yield Problem(
                topic=spec.name,
                code="name-taken",
                found=f"differs from {other.name} only by '.' and '_'",
                remedy=f"give {spec.setting} another name",
            )


def check(
    described: Mapping[str, Described], table: Sequence[TopicSpec], settings: Settings
) -> list[Problem]:
    """Everything about the broker's topics that would lose or delay a verdict.

    Args:
        described: Topic -> as the broker has it; topics that are not there are
            left out.
        table: As it should be.
        settings: For the names of what could be changed instead.

    Returns:
        The problems in the order of the table; empty if there is none.
    """
    found: list[Problem] = []
    shared = _shared_count(described, table)
    for spec in table:
        topic = described.get(spec.name)
        if topic is None:
            found.append(_missing(spec))
            continue
        found += _check_partitions(spec, topic, shared)
        found += _check_replication(spec, topic)
        if topic.configs is not None:
            found += _check_configs(spec, topic.configs, settings)
    return found


def _shared_count(
    described: Mapping[str, Described], table: Sequence[TopicSpec]
) -> int:
    """The count that most topics keyed by run have; the configured one on a tie."""
    keyed = [spec for spec in table if spec.is_keyed_by_run]
    wanted = max((spec.partitions for spec in keyed), default=0)
    counts = Counter(
        described[spec.name].partitions for spec in keyed if spec.name in described
    )
    return max(counts, key=lambda n: (counts[n], n == wanted, -n), default=wanted)


def _missing(spec: TopicSpec) -> Problem:
    return Problem(
        topic=spec.name,
        code="missing",
        found="does not exist",
        remedy=f"run `pathgate topics create`, or name another in {spec.setting}",
    )


def _check_partitions(
    spec: TopicSpec, topic: Described, shared: int
) -> Iterator[Problem]:
    if topic.partitions == spec.partitions or not spec.is_keyed_by_run:
        return
    count = f"has {topic.partitions} partitions"
    if topic.partitions == shared:
        remedy = f"set partitions={shared}, as this and most topics have"
    else:
        # Kafka moves no old record when partitions are added, so a run would
        # lie on two of them.
        remedy = (
            f"create it anew with {spec.partitions} (adding partitions to a topic in"
            " use puts one run on two of them)"
        )
    yield Problem(
        topic=spec.name,
        code="partition-count",
        found=f"{count}, {spec.partitions} are needed",
        remedy=remedy,
    )


def _check_replication(spec: TopicSpec, topic: Described) -> Iterator[Problem]:
    if topic.replication_factor < spec.replication_factor:
        yield Problem(
            topic=spec.name,
            code="replication-factor",
            found=(
                f"has replication factor {topic.replication_factor},"
                f" {spec.replication_factor} is wanted"
            ),
            remedy=(
                "reassign its partitions to more brokers, or set"
                f" replication_factor={topic.replication_factor}"
            ),
        )


def _check_configs(
    spec: TopicSpec, configs: Mapping[str, str], settings: Settings
) -> Iterator[Problem]:
    policy = set(configs.get("cleanup.policy", "delete").split(","))
    if policy != {spec.cleanup.value}:
        yield _config_problem(spec, "cleanup.policy", configs, _policy_harm(spec))
    isr = int(configs.get("min.insync.replicas", "1"))
    if isr < settings.min_insync_replicas:
        harm = "a write could be lost with one broker"
        yield _config_problem(spec, "min.insync.replicas", configs, harm)
    kept_ms = int(configs.get("retention.ms", str(_EVENT_RETENTION_MS)))
    needed_s = settings.run_idle_timeout_s + settings.late_window_s
    is_read_again = spec.role is not Role.OUTPUT and spec.cleanup is Cleanup.DELETE
    if is_read_again and 0 <= kept_ms < needed_s * 1000:
        harm = f"rebuilding a run needs the events of {needed_s:g} s"
        yield _config_problem(spec, "retention.ms", configs, harm)


def _policy_harm(spec: TopicSpec) -> str:
    if spec.cleanup is Cleanup.DELETE:
        return "compaction would remove events"
    return "the newest record of a key would be removed by age"


def _config_problem(
    spec: TopicSpec, config: str, configs: Mapping[str, str], harm: str
) -> Problem:
    wanted = spec.configs[config]
    return Problem(
        topic=spec.name,
        code=config.replace(".", "-"),
        found=f"has {config}={configs.get(config)}: {harm}",
        remedy=(
            f"kafka-configs.sh --alter --topic {spec.name}"
            f" --add-config {config}={wanted}"
        ),
    )


def partition_for(key: bytes, n: int, partitioner: Partitioner) -> int:
    """The partition that a producer with this partitioner chooses.

    Args:
        key: The record's key, as bytes; a run id in UTF-8.
        n: Partitions of the topic, 1 or more.
        partitioner: ``murmur2`` as Java's, aiokafka's and kafkajs' default does;
            ``crc32`` as librdkafka's ``consistent`` does.

    Returns:
        The partition, 0 to ``n`` - 1.

    Raises:
        ValueError: ``n`` is less than 1.
    """
    if n < 1:
        raise ValueError(f"expected 1 partition or more, got {n}")
    if partitioner is Partitioner.CRC32:
        return zlib.crc32(key) % n
    return (murmur2(key) & 0x7FFF_FFFF) % n


def murmur2(data: bytes) -> int:
    """MurmurHash2 with 32 bits and Kafka's seed, as an unsigned integer."""
    mask = 0xFFFF_FFFF
    factor = 0x5BD1_E995
    length = len(data)
    value = 0x9747_B28C ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        word = word * factor & mask
        word = (word ^ word >> 24) * factor & mask
        value = (value * factor & mask) ^ word
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    return value ^ value >> 15
