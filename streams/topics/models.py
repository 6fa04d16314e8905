"""What a topic should be, what it is, and how the two can differ."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from streams.errors import ConfigurationError

SUITE_KEY = "suiteId@version"


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
        return self.key != SUITE_KEY


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


class TopicsError(ConfigurationError):
    """Topics that differ from the table; do what each problem says.

    Args:
        problems: What differs; at least one.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
