"""What stops a worker in the batched consumer."""

from streams.errors import PathgateError


class IngestError(PathgateError):
    """The batched consumer cannot do its work safely; the text says what to change."""
