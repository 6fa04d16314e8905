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
    counts = _keyed_counts(described, table)
    for spec in table:
        topic = described.get(spec.name)
        if topic is None:
            found.append(_missing(spec))
            continue
        found += _check_partitions(spec, topic, counts)
        found += _check_replication(spec, topic)
        if topic.configs is not None:
            found += _check_configs(spec, topic.configs, settings)
    return found


def _keyed_counts(
    described: Mapping[str, Described], table: Sequence[TopicSpec]
) -> Counter[int]:
    """Count of partitions -> how many of the topics keyed by run have it."""
    return Counter(
        described[spec.name].partitions
        for spec in table
        if spec.is_keyed_by_run and spec.name in described
    )


def _missing(spec: TopicSpec) -> Problem:
    return Problem(
        topic=spec.name,
        code="missing",
        found="does not exist",
        remedy=f"run `pathgate topics create`, or name another in {spec.setting}",
    )


def _check_partitions(
    spec: TopicSpec, topic: Described, counts: Counter[int]
) -> Iterator[Problem]:
    has, wanted = topic.partitions, spec.partitions
    if has == wanted or not spec.is_keyed_by_run:
        return
    # On a tie the configured count is the one to keep.
    most = max(counts, key=lambda count: (counts[count], count == wanted, -count))
    if len(counts) == 1:
        advice = f"set partitions={has} if all were created so"
    elif has == most:
        advice = f"not all topics have {has} as this one has"
    else:
        advice = f"create it anew with {wanted} if it is not in use"
    # No broker tells whether they were: Kafka moves no old record, so a run
    # would lie on two partitions.
    yield Problem(
        topic=spec.name,
        code="partition-count",
        found=f"has {has} partitions, {wanted} are needed",
        remedy=(
            f"{advice}; if partitions were added, runs have moved and state must be"
            ' rebuilt: see "Another number of partitions" in deploy/README.md'
        ),
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
