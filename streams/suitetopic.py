"""Suites from the compacted topic, as they are published."""

import asyncio
from collections.abc import Callable

import structlog

from schemas.codec import decode_suite
from schemas.errors import SuiteError
from streams.core.arguments import ArgsDigester
from streams.core.compiled import CompiledSuite
from streams.kafka import Record, open_reader
from streams.kafka.newest import newest_in
from streams.settings import Settings
from streams.suites import SuiteConflictError
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

    Raises:
        SuiteConflictError: ``learn`` had a suite with another content before
            anything was read here. Of a suite that is published with another
            content later, the first stands, and the other is logged.
    """
    topic = names_from(settings).suite_definition
    async with open_reader(settings) as reader:
        partitions = await reader.partitions_of(topic)
        spans = await reader.span((topic, partition) for partition in partitions)
        for place, record in (await newest_in(reader, spans)).values():
            _learn(_source(place, record), record.value, digester, learn)
        caught_up.set()
        if not partitions:
            return
        ends = {place: end for place, (_, end) in spans.items()}
        async for place, records in reader.follow(ends):
            for record in records:
                source = _source(place, record)
                try:
                    _learn(source, record.value, digester, learn)
                except SuiteConflictError:
                    # Running workers would differ from those that start now.
                    logger.error("suite_conflict", source=source)  # noqa: TRY400  # as below


def _source(place: tuple[str, int], record: Record) -> str:
    topic, partition = place
    return f"{topic}/{partition}/{record.offset}"


def _learn(
    source: str,
    value: bytes | None,
    digester: ArgsDigester,
    learn: Callable[[CompiledSuite], None],
) -> None:
    if value is None:
        return
    try:
        learn(CompiledSuite(decode_suite(value, source), digester, {}, source))
    except SuiteError as error:
        logger.error(  # noqa: TRY400  # the text says all; a trace says nothing more
            "suite_unusable", source=error.source, path=error.path
        )
