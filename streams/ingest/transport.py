"""Puts the batched consumer under an app, after making sure that it fits."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from importlib.metadata import version
from typing import Any, ClassVar, cast

import faust
from faust import streams as faust_streams
from faust.transport.drivers.aiokafka import Transport
from faust.types.transports import ConsumerT

from streams.ingest.consumer import BatchConsumer
from streams.ingest.errors import IngestError

# The minor versions whose internals are pinned by tests/contract/ingest.
_SUPPORTED: Mapping[str, str] = {"faust-streaming": "0.15", "aiokafka": "0.14"}


class BatchTransport(Transport):
    """Faust's aiokafka transport with ``BatchConsumer``; ``install`` makes it."""

    Consumer: ClassVar[type[ConsumerT]] = BatchConsumer

    source_topics: frozenset[str] = frozenset()
    chunk_records: int = 2000
    chunks_waiting: int = 4
    before_commit: Callable[[], Awaitable[None]] | None = None


def install(
    app: faust.App,
    source_topics: Collection[str],
    *,
    chunk_records: int = 2000,
    chunks_waiting: int = 4,
    before_commit: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Makes the app read the source topics in chunks. Before it is started.

    All other topics (changelogs, the leader's, any agent's) stay on Faust's path.
    Agents of source topics iterate ``stream.noack().events()``.

    Args:
        app: With ``processing_guarantee="at_least_once"``; its agents may be
            declared before or after.
        source_topics: Names, at least one.
        chunk_records: Most records in a chunk, at least 1.
        chunks_waiting: Most chunks that wait for an agent which has not asked for
            them yet, at least 1; ``stream_buffer_maxsize`` if that is smaller. With
            ``chunk_records`` this bounds what is read ahead.
        before_commit: Awaited before offsets of source topics are committed, after
            it is settled which: what it flushes covers all they stand for. If it
            raises, nothing is committed and the worker stops.

    Raises:
        IngestError: Another version of Faust or aiokafka than this was written
            for, an app that runs already or promises exactly-once.
        ValueError: No topics, or a size below 1.
    """
    require_supported(version)
    if isinstance(source_topics, str) or not source_topics:
        raise ValueError(f"source_topics must name topics, not {source_topics!r}")
    if chunk_records < 1 or chunks_waiting < 1:
        raise ValueError(
            f"chunk_records={chunk_records}, chunks_waiting={chunks_waiting}: at least 1"
        )
    if app.started or app._consumer is not None:  # noqa: SLF001 - no public way to ask
        raise IngestError("install the batched consumer before the app is started")
    if cast(Any, app.conf).processing_guarantee.value != "at_least_once":
        raise IngestError("the batched consumer needs at_least_once")
    transport = BatchTransport(app.conf.broker_consumer, app)
    transport.source_topics = frozenset(source_topics)
    transport.chunk_records = chunk_records
    transport.chunks_waiting = chunks_waiting
    transport.before_commit = before_commit
    app.transport = cast(Any, transport)


def require_supported(installed: Callable[[str], str]) -> None:
    """Refuses to work on internals that nobody has checked.

    Args:
        installed: Distribution name -> its version.

    Raises:
        IngestError: Another minor version, or Faust without its extension.
    """
    for name, wanted in _SUPPORTED.items():
        found = installed(name)
        if found.split(".")[:2] != wanted.split("."):
            raise IngestError(
                f"the batched consumer is written for {name} {wanted}.x and {found} "
                "is installed: install that, or revise streams/ingest and its pins "
                "in tests/contract/ingest"
            )
    if vars(faust_streams)["_CStreamIterator"] is None:
        raise IngestError(
            "faust-streaming runs without its compiled stream iterator; the one in "
            "Python acknowledges messages that it skips: unset NO_CYTHON, or install "
            "a wheel with extensions"
        )
