"""The same job as a Bytewax dataflow, with and without its recovery store.

One worker thread, as the others have one process. Batches go through the
fastest operators there are (``flat_map_batch``, ``stateful_batch``), and a
run's logic is discarded with its verdict. Durable: a recovery store of one
SQLite partition and a snapshot of every run that changed, each second; the
snapshot is the worker's own row, not a pickle of the objects.
"""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op  # type: ignore[import-not-found]  # a peer, for benchmarks only
from bytewax.connectors.kafka import (  # type: ignore[import-not-found]  # as above
    KafkaSink,
    KafkaSinkMessage,
    KafkaSource,
)
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found]  # as above
from bytewax.recovery import (  # type: ignore[import-not-found]  # as above
    RecoveryConfig,
    init_db_dir,
)
from bytewax.run import cli_main  # type: ignore[import-not-found]  # as above

from schemas.codec import decode_event
from schemas.events import Envelope, Payload
from tests.benchmarks.job import (
    COMMIT_INTERVAL_S,
    Job,
    PeerGrader,
    read_job,
    say,
    tune_collector,
)

Decoded = tuple[Envelope, Payload]


class _Decode:
    """Bytes to events, a batch at a time, keyed by run."""

    def __init__(self) -> None:
        self._is_first = True

    def __call__(self, messages: list[Any]) -> Iterable[tuple[str, Decoded]]:
        if self._is_first and messages:
            self._is_first = False
            say("first")
        for message in messages:
            envelope, payload = decode_event(message.value)
            if payload is not None:
                yield envelope.run_id, (envelope, payload)


class _Run(op.StatefulBatchLogic):  # type: ignore[misc]  # a class mypy does not see
    """One run: folds its events, and ends with its records."""

    def __init__(self, grader: PeerGrader, stored: tuple[str, bytes] | None) -> None:
        self._grader = grader
        self._state = None if stored is None else grader.load(*stored)

    def on_batch(self, values: list[Decoded]) -> tuple[Iterable[Any], bool]:
        grader, state = self._grader, self._state
        for envelope, payload in values:
            if state is None:
                state = self._state = grader.load(envelope.run_id, None)
            if grader.fold(state, envelope, payload):
                records = [
                    KafkaSinkMessage(one.key, one.value, one.topic, one.headers)
                    for one in grader.records(state)
                ]
                return records, self.DISCARD
        return (), self.RETAIN

    def snapshot(self) -> tuple[str, bytes] | None:
        state = self._state
        return None if state is None else (state.run_id, self._grader.dump(state))


def flow_of(job: Job) -> Any:
    """The dataflow of a job."""
    grader = PeerGrader(job)
    brokers = job.bootstrap.split(",")
    flow = Dataflow("bench")
    source = KafkaSource(brokers, sorted(set(job.sources.values())), tail=True)
    messages = op.input("read", flow, source)
    events = op.flat_map_batch("decode", messages, _Decode())
    graded = op.stateful_batch("grade", events, lambda stored: _Run(grader, stored))
    records = op.flat_map_batch("records", graded, lambda batch: [r for _, r in batch])
    sink = KafkaSink(brokers, None, {"partitioner": "murmur2_random"})
    op.output("write", records, sink)
    return flow


def run(job: Job) -> None:
    """Runs until it is killed."""
    recovery = None
    if job.is_durable:
        directory = Path(job.home) / "recovery"
        directory.mkdir(parents=True)
        init_db_dir(directory, 1)
        recovery = RecoveryConfig(directory)
    flow = flow_of(job)
    tune_collector()
    cli_main(
        flow,
        epoch_interval=timedelta(seconds=COMMIT_INTERVAL_S),
        recovery_config=recovery,
    )


if __name__ == "__main__":
    run(read_job())
