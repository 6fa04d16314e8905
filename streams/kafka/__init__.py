"""How pathgate talks to the brokers: security, topics, rights, stretches of logs."""

from streams.kafka.cluster import (
    Cluster,
    Created,
    Creation,
    MissingRight,
    Survey,
    connect,
)
from streams.kafka.reader import LogReader, open_reader
from streams.kafka.security import client_options, security_context
from streams.kafka.unpack import Record

__all__ = [
    "Cluster",
    "Created",
    "Creation",
    "LogReader",
    "MissingRight",
    "Record",
    "Survey",
    "client_options",
    "connect",
    "open_reader",
    "security_context",
]
