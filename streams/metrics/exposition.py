"""The scrape: a registry's metrics as text, in the format the scraper asks for."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder


class _WithoutCreated:
    """View of a registry that leaves out ``_created`` series.

    The client adds one to each counter and histogram, which doubles the series
    of a scrape; it can only be switched off for the whole process.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        for family in self._registry.collect():
            family.samples = [
                sample
                for sample in family.samples
                if not sample.name.endswith("_created")
            ]
            yield family


def expose(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """The registry's current metrics.

    Args:
        registry: The registry.
        accept: The scraper's ``Accept`` header; OpenMetrics where it asks for
            it, else the Prometheus text format.

    Returns:
        Body and ``Content-Type``.
    """
    encode, content_type = choose_encoder(accept)
    return encode(_WithoutCreated(registry)), content_type
