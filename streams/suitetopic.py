"""Suites from the compacted topic, as they are published."""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from schemas.codec import decode_suite
from schemas.errors import SuiteError
from streams.core.arguments import ArgsDigester
from streams.core.compiled import CompiledSuite
from streams.kafka import Record, open_reader
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
        spans = await reader.span((topic, partition) for partition in partitions)
        async for place, records in reader.read(spans):
            _learn(place, records, digester, learn)
        caught_up.set()
        if not partitions:
            return
        ends = {place: end for place, (_, end) in spans.items()}
        async for place, records in reader.follow(ends):
            _learn(place, records, digester, learn)


def _learn(
    place: tuple[str, int],
    records: Iterable[Record],
    digester: ArgsDigester,
    learn: Callable[[CompiledSuite], None],
) -> None:
    topic, partition = place
    for record in records:
        if record.value is None:
            continue
        source = f"{topic}/{partition}/{record.offset}"
        try:
            suite = decode_suite(record.value, source)
            learn(CompiledSuite(suite, digester, {}, source))
        except SuiteError as error:
            logger.error(  # noqa: TRY400  # the text says all; a trace says nothing more
                "suite_unusable", source=error.source, path=error.path
            )
