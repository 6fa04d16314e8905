"""What every partition of a worker shares."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from streams.agents.records import Recorder
from streams.agents.shard import Shard
from streams.clock import Clock
from streams.metrics import Metrics
from streams.publish import Publisher
from streams.settings import Settings
from streams.topics import TopicNames


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """Shared parts of a worker.

    Args:
        settings: Everything an operator may choose.
        names: Topic names in effect.
        metrics: Counts what comes in and what is decided.
        clock: Seconds since the epoch.
        recorder: Makes records.
        publisher: Writes them.
        changelog: Writes state. A producer has one request under way to a broker;
            with one of its own, outputs do not wait for state.
        baseline: Looks the ``aggregateScore`` of a published run up.
        rebuild: Rebuilds runs of a shard from the topics.
    """

    settings: Settings
    names: TopicNames
    metrics: Metrics
    clock: Clock
    recorder: Recorder
    publisher: Publisher
    changelog: Publisher
    baseline: Callable[[str], Awaitable[float | None]]
    rebuild: Callable[[Shard, set[str]], Awaitable[None]]
