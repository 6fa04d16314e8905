"""Prometheus metrics: the catalogue, and the recorder over a registry passed in."""

from streams.metrics.catalogue import (
    CATALOGUE,
    Kind,
    Level,
    Metric,
    Repair,
    Target,
    TooLate,
    Verdict,
    markdown_table,
    sample_names,
)
from streams.metrics.exposition import expose
from streams.metrics.recorder import (
    Build,
    KnownLabels,
    Metrics,
    RunFigures,
    new_registry,
)

__all__ = [
    "CATALOGUE",
    "Build",
    "Kind",
    "KnownLabels",
    "Level",
    "Metric",
    "Metrics",
    "Repair",
    "RunFigures",
    "Target",
    "TooLate",
    "Verdict",
    "expose",
    "markdown_table",
    "new_registry",
    "sample_names",
]
