"""How pathgate talks to the brokers: security, topics, rights."""

from streams.kafka.cluster import (
    Cluster,
    Created,
    Creation,
    MissingRight,
    Survey,
    connect,
)
from streams.kafka.security import client_options, security_context

__all__ = [
    "Cluster",
    "Created",
    "Creation",
    "MissingRight",
    "Survey",
    "client_options",
    "connect",
    "security_context",
]
