"""The topic table, computed from the settings."""

from collections.abc import Iterator, Mapping

import msgspec

from streams.settings import Settings
from streams.topics.models import (
    SUITE_KEY,
    Cleanup,
    Problem,
    Role,
    TopicNames,
    TopicsError,
    TopicSpec,
)

DAY_MS = 86_400_000
# Long enough for a run, an outage and a rebuild from the topics.
EVENT_RETENTION_MS = 7 * DAY_MS
_NOTICE_RETENTION_MS = 30 * DAY_MS
# An event of 1 MiB that is parked grows by the headers that say why.
_DEAD_LETTER_MAX_BYTES = 2 * 1024 * 1024
# A suite summary has an entry a task, a stored run one a fact: far below this,
# and a record that a broker refuses would stop the worker for good.
_RECORD_MAX_BYTES = 8 * 1024 * 1024
TABLE_NAME = "runs"


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
        EVENT_RETENTION_MS,
    ),
    _Kind(
        "eval_started",
        Role.SOURCE,
        "runId",
        "eval.started",
        _EVENT,
        Cleanup.DELETE,
        EVENT_RETENTION_MS,
    ),
    _Kind(
        "eval_scored",
        Role.SOURCE,
        "runId",
        "eval.scored",
        _EVENT,
        Cleanup.DELETE,
        EVENT_RETENTION_MS,
    ),
    _Kind(
        "eval_completed",
        Role.SOURCE,
        "runId",
        "eval.completed",
        _EVENT,
        Cleanup.DELETE,
        EVENT_RETENTION_MS,
    ),
    _Kind(
        "run_terminal",
        Role.SOURCE,
        "runId",
        "run.completed, run.failed, run.cancelled",
        _EVENT,
        Cleanup.DELETE,
        EVENT_RETENTION_MS,
    ),
    _Kind(
        "suite_definition",
        Role.SOURCE,
        SUITE_KEY,
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
        EVENT_RETENTION_MS,
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
        partitions=1 if kind.key == SUITE_KEY else settings.partitions,
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
        kept_ms = 7 * DAY_MS if kind.role is Role.INTERNAL else DAY_MS
        configs["delete.retention.ms"] = str(kept_ms)
        configs["min.cleanable.dirty.ratio"] = "0.1"
        configs["segment.ms"] = str(DAY_MS)
    if kind.field == "dead_letter":
        configs["max.message.bytes"] = str(_DEAD_LETTER_MAX_BYTES)
    elif kind.role is Role.OUTPUT or kind.field == "runs_changelog":
        configs["max.message.bytes"] = str(_RECORD_MAX_BYTES)
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
