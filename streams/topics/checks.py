"""What of the brokers' topics would lose or delay a verdict."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from streams.settings import Settings
from streams.topics.models import Cleanup, Described, Problem, Role, TopicSpec
from streams.topics.table import EVENT_RETENTION_MS


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
    kept_ms = int(configs.get("retention.ms", str(EVENT_RETENTION_MS)))
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
