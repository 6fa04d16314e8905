"""Suites from the compacted topic, as they are published."""

import asyncio
from collections.abc import Callable

import structlog

from schemas.codec import decode_suite
from schemas.errors import SuiteError
from streams.core.arguments import ArgsDigester
from streams.core.compiled import CompiledSuite
from streams.kafka import open_reader
from streams.settings import Settings
from streams.topics import names_from

logger = structlog.get_logger()


async def follow_suites(
    settings: Settings,
    digester: ArgsDigester,
    learn: Callable[[CompiledSuite], None],
    caught_up: asyncio.Event,
) -> None:
    """Reads the suite topic from its beginning, until cancelled.

    Args:
        settings: How to reach the brokers; the topic's name.
        digester: Makes the digests that expected arguments are compared by.
        learn: Called with each suite. One that cannot be used is logged with
            the place of its fault, and the runs that name it stay closed.
        caught_up: Set once all that was there at the start has been read.
    """
    topic = names_from(settings).suite_definition
    async with open_reader(settings) as reader:
        partitions = await reader.partitions_of(topic)
        if not partitions:
            caught_up.set()
            return
        spans = await reader.span((topic, partition) for partition in partitions)
        missing = sum(end > start for start, end in spans.values())
        reached: set[int] = set()
        if not missing:
            caught_up.set()
        async for records in reader.follow(topic, partitions):
            for record in records:
                source = f"{topic}/{record.partition}/{record.offset}"
                if record.value is not None:
                    _learn(record.value, source, digester, learn)
                if record.offset + 1 >= spans[topic, record.partition][1]:
                    reached.add(record.partition)
            if len(reached) >= missing or not records:
                caught_up.set()


def _learn(
    value: bytes,
    source: str,
    digester: ArgsDigester,
    learn: Callable[[CompiledSuite], None],
) -> None:
    try:
        suite = decode_suite(value, source)
        learn(CompiledSuite(suite, digester, {}, source))
    except SuiteError as error:
        logger.error(  # noqa: TRY400  # the text says all; a trace says nothing more
            "suite_unusable", source=error.source, path=error.path
        )
