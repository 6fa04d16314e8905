"""Probes and the metrics endpoint, served inside the worker's loop."""

from streams.web.health import (
    Facts,
    Health,
    HealthReason,
    HealthSource,
    Limits,
    liveness,
    readiness,
)
from streams.web.server import DEFAULT_HOST, WebServer, create_web

__all__ = [
    "DEFAULT_HOST",
    "Facts",
    "Health",
    "HealthReason",
    "HealthSource",
    "Limits",
    "WebServer",
    "create_web",
    "liveness",
    "readiness",
]
