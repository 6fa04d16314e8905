"""The worker itself, as ``pathgate worker`` runs it.

The one difference: the first chunk that a shard is given is noted.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from streams.agents.shard import Counts, Shard
from streams.kafka import Record
from streams.logs import configure
from streams.serve import serve
from streams.settings import Settings
from tests.benchmarks.job import Job, read_job, say


def settings_of(job: Job) -> Settings:
    """The worker's settings for a job."""
    flags: dict[str, object] = {
        "bootstrap_servers": job.bootstrap,
        "app_id": job.group,
        "partitions": str(job.partitions),
        "replication_factor": "1",
        "min_insync_replicas": "1",
        "topic_task_summary": job.task_summary,
        "topic_suite_summary": job.suite_summary,
        "topic_gate_alert": f"{job.group}.gate-alert",
        "topic_dead_letter": f"{job.group}.dead-letter",
        "topic_suite_definition": f"{job.group}.suite-definition",
        "suites_dir": job.suites_dir,
        "data_dir": f"{job.home}/data",
        "web_port": "0",
        "log_level": "WARNING",
        **{f"topic_{kind}": topic for kind, topic in job.sources.items()},
        **job.settings,
    }
    return Settings.load(flags, {})


def note_first_chunk() -> None:
    """Has the first chunk of the process noted, and nothing after it."""
    read = Shard.read

    def first(self: Shard, topic: str, records: Sequence[Record]) -> Counts:
        _put_back(read)
        say("first")
        return read(self, topic, records)

    _put_back(first)


def _put_back(method: Any) -> None:
    Shard.read = method  # type: ignore[method-assign]  # what this module is for


if __name__ == "__main__":
    settings = settings_of(read_job())
    configure(settings.log_level, settings.log_format)
    note_first_chunk()
    asyncio.run(serve(settings))
