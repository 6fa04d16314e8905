"""How pathgate talks to the brokers: security, topics, rights."""

from streams.kafka.cluster import (
    AccessDenied,
    BrokerUnavailable,
    Cluster,
    Created,
    MissingRight,
    Survey,
    connect,
)
from streams.kafka.security import client_options, security_context

__all__ = [
    "AccessDenied",
    "BrokerUnavailable",
    "Cluster",
    "Created",
    "MissingRight",
    "Survey",
    "client_options",
    "connect",
    "security_context",
]
