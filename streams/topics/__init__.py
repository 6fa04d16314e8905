"""The topic table: what each topic is, and whether the brokers' agree with it."""

from streams.topics.checks import check
from streams.topics.models import (
    Cleanup,
    Described,
    Problem,
    Role,
    TopicNames,
    TopicsError,
    TopicSpec,
)
from streams.topics.partitioners import murmur2, partition_for
from streams.topics.table import TABLE_NAME, names_from, table_from

__all__ = [
    "TABLE_NAME",
    "Cleanup",
    "Described",
    "Problem",
    "Role",
    "TopicNames",
    "TopicSpec",
    "TopicsError",
    "check",
    "murmur2",
    "names_from",
    "partition_for",
    "table_from",
]
