"""The same job on Quix Streams, with and without its changelog.

The five topics are concatenated, which has Quix Streams read them in step. A
run's state is one value, read and written for each event, as its stateful
operators do. Durable: with changelog topics.
"""

from collections.abc import Iterator
from typing import Any

from quixstreams import (  # type: ignore[import-not-found]  # a peer, for benchmarks only
    Application,
)
from quixstreams.models import Serializer  # type: ignore[import-not-found]  # as above

from schemas.codec import decode_event
from tests.benchmarks.job import (
    COMMIT_INTERVAL_S,
    Job,
    Output,
    PeerGrader,
    read_job,
    say,
    tune_collector,
)

_KEY = "run"


class _Value(Serializer):  # type: ignore[misc]  # a class mypy does not see
    """The bytes of a record."""

    def __call__(self, value: Output, **_: Any) -> bytes:
        return value.value


class _Fold:
    """Folds one event, and gives the records of a run that it makes whole."""

    def __init__(self, grader: PeerGrader) -> None:
        self._grader = grader
        self._is_first = True

    def __call__(self, value: bytes, state: Any) -> Iterator[Output]:
        if self._is_first:
            self._is_first = False
            say("first")
        envelope, payload = decode_event(value)
        if payload is None:
            return
        grader = self._grader
        run = grader.load(envelope.run_id, state.get_bytes(_KEY))
        if grader.fold(run, envelope, payload):
            state.delete(_KEY)
            yield from grader.records(run)
        else:
            state.set_bytes(_KEY, grader.dump(run))


def run(job: Job) -> None:
    """Runs until it is killed."""
    app = Application(
        broker_address=job.bootstrap,
        consumer_group=job.group,
        auto_offset_reset="earliest",
        commit_interval=COMMIT_INTERVAL_S,
        state_dir=f"{job.home}/state",
        use_changelog_topics=job.is_durable,
        loglevel="WARNING",
    )
    raw = {"key_deserializer": "bytes", "value_deserializer": "bytes"}
    sources = [app.topic(name, **raw) for name in sorted(set(job.sources.values()))]
    outputs = {
        name: app.topic(name, key_serializer="bytes", value_serializer=_Value())
        for name in (job.task_summary, job.suite_summary)
    }
    frame = app.dataframe(sources[0])
    for source in sources[1:]:
        frame = frame.concat(app.dataframe(source))
    frame = frame.apply(_Fold(PeerGrader(job)), stateful=True, expand=True)
    frame = frame.set_headers(lambda value, *_: value.headers)
    frame.to_topic(lambda value, *_: outputs[value.topic], key=lambda value: value.key)
    tune_collector()
    app.run()


if __name__ == "__main__":
    run(read_job())
