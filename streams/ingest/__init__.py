"""Batched consumer: under Faust, one fetched chunk of a partition is one message.

Faust gives agents one record at a time, with tasks and waits for each, and its
commits can step over a record that is not acknowledged. For the topics named to
``install``, an event's value is a ``Chunk`` and offsets are committed only below the
first chunk that is not acknowledged, in whatever order the others are::

    ingest.install(app, ["eval.scored"], before_commit=flush)

    @app.agent(app.topic("eval.scored", value_type=bytes, value_serializer="raw"))
    async def score(stream):
        async for event in stream.noack().events():
            for record in event.value.records:
                ...
            event.ack()

It leans on internals of one minor version each of Faust and aiokafka, which
``tests/contract/ingest`` pins and ``install`` checks.
"""

from streams.ingest.chunk import Chunk
from streams.ingest.consumer import BatchConsumer
from streams.ingest.errors import IngestError
from streams.ingest.transport import BatchTransport, install

__all__ = [
    "BatchConsumer",
    "BatchTransport",
    "Chunk",
    "IngestError",
    "install",
]
