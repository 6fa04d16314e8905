"""The same job on plain Faust: an agent a topic, one event at a time.

Stock transport, a RocksDB table with its changelog, one value a run, read and
written for each event. Two choices in its favour: a linger of 10 ms, without
which each record is a request of its own, and the log level INFO, since at the
default one Faust makes a log record of every debug message to turn its spinner.
"""

from typing import Any

import faust

from schemas.codec import decode_event
from tests.benchmarks.job import (
    COMMIT_INTERVAL_S,
    Job,
    PeerGrader,
    read_job,
    say,
    tune_collector,
)


class _Marker:
    """Says once that an event came."""

    def __init__(self) -> None:
        self._is_first = True

    def __call__(self) -> None:
        if self._is_first:
            self._is_first = False
            say("first")


def create_app(job: Job) -> faust.App:
    """The app of a job."""
    app = faust.App(
        job.group,
        broker=[f"kafka://{server}" for server in job.bootstrap.split(",")],
        store="rocksdb://?driver=rocksdict",
        datadir=f"{job.home}/faust",
        broker_commit_interval=COMMIT_INTERVAL_S,
        topic_partitions=job.partitions,
        topic_replication_factor=1,
        topic_disable_leader=True,
        table_standby_replicas=0,
        web_enabled=False,
        producer_linger=0.01,
        producer_acks=-1,
    )
    raw: Any = {
        "key_type": bytes,
        "value_type": bytes,
        "key_serializer": "raw",
        "value_serializer": "raw",
    }
    outputs = {
        name: app.topic(name, **raw) for name in (job.task_summary, job.suite_summary)
    }
    table: Any = app.Table("runs", key_type=bytes, value_type=bytes)
    grader, mark = PeerGrader(job), _Marker()

    async def grade(stream: Any) -> None:
        async for event in stream.events():
            mark()
            envelope, payload = decode_event(event.value)
            if payload is None:
                continue
            run = grader.load(envelope.run_id, table.get(event.key))
            if not grader.fold(run, envelope, payload):
                table[event.key] = grader.dump(run)
                continue
            table.pop(event.key, None)
            for one in grader.records(run):
                await outputs[one.topic].send(
                    key=one.key, value=one.value, headers=one.headers
                )

    for number, topic in enumerate(sorted(set(job.sources.values()))):
        app.agent(app.topic(topic, **raw), name=f"grade-{number}")(grade)
    return app


if __name__ == "__main__":
    worker = faust.Worker(
        create_app(read_job()), loglevel="INFO", redirect_stdouts=False
    )
    tune_collector()
    worker.execute_from_commandline()
