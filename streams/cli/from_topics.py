"""Event topics to verdicts: what ``verify`` and ``replay --from-topics`` share."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiokafka.errors import KafkaError

from schemas.codec import decode_suite
from schemas.errors import SuiteError
from streams.cli.grading import Rejections
from streams.cli.progress import show_progress
from streams.cli.terminal import Terminal
from streams.collector import tune_collector
from streams.core.arguments import ArgsDigester
from streams.core.compiled import CompiledSuite
from streams.core.context import Context
from streams.errors import BrokerUnavailableError, ConfigurationError
from streams.kafka import open_reader
from streams.kafka.newest import read_newest
from streams.replay import FileGrader, GradedRun
from streams.replay.topics import feed_topics
from streams.settings import Settings, policy_from
from streams.suites import add_suite, compile_suites, digester_from, load_directory
from streams.topics import names_from

# The progress of what has no known end, as that of a pipe.
_NO_FILES = ["-"]


async def read_context(settings: Settings) -> Context:
    """What the workers grade with.

    Raises:
        ConfigurationError: There is no suite, neither in the directory nor in the
            topic; or as ``read_suites``.
        BrokerUnavailableError: The suite topic cannot be read.
    """
    digester = digester_from(settings)
    suites = await read_suites(settings, digester)
    if not suites:
        # Every run would differ, for want of what it is graded against.
        raise ConfigurationError(
            "no suites to grade against: give --suites DIR, or publish them with"
            " 'pathgate suites publish DIR'"
        )
    return Context(policy=policy_from(settings), digester=digester, suites=suites)


async def read_suites(
    settings: Settings, digester: ArgsDigester
) -> dict[str, CompiledSuite]:
    """``suiteId@version`` -> suite, of the directory and of the topic.

    Raises:
        SuiteConflictError: The two have one version with different contents.
        SuitesError: A suite of the directory that cannot be used. One of the
            topic is passed over, as the workers pass over it.
        BrokerUnavailableError: The suite topic cannot be read.
    """
    suites: dict[str, CompiledSuite] = {}
    if settings.suites_dir:
        loaded = load_directory(Path(settings.suites_dir))
        suites |= compile_suites(loaded, digester)
    topic = names_from(settings).suite_definition
    for value in (await read_newest(settings, topic)).values():
        try:
            suite = CompiledSuite(decode_suite(value, topic), digester, {}, topic)
        except SuiteError:
            continue
        add_suite(suites, suite)
    return suites


def grade_topics(
    settings: Settings, terminal: Terminal, rejections: Rejections
) -> Iterator[GradedRun]:
    """The final records of every run in the event topics, by run id.

    Raises:
        BrokerUnavailableError: The topics cannot be read to their end.
        ConfigurationError: As ``read_context``; so is ``SuitesError``.
    """
    context = asyncio.run(read_context(settings))
    tune_collector()
    with FileGrader(context, rejections.add) as grader:
        with counting(terminal) as count:
            try:
                asyncio.run(_feed(grader, settings, count))
            except KafkaError as error:
                raise unread(settings, error) from error
        yield from grader.finish()


async def _feed(
    grader: FileGrader, settings: Settings, count: Callable[[int], None]
) -> None:
    async with open_reader(settings) as reader:
        await feed_topics(grader, reader, settings, count)


@contextmanager
def counting(terminal: Terminal) -> Iterator[Callable[[int], None]]:
    """Shows how many records were read, to somebody who watches.

    Yields:
        Takes how many further records were read.
    """
    read = 0
    with show_progress(terminal, _NO_FILES) as advance:

        def count(records: int) -> None:
            nonlocal read
            read += records
            advance(0, read)

        yield count


def unread(settings: Settings, error: KafkaError) -> BrokerUnavailableError:
    """The error of topics whose reading broke off."""
    return BrokerUnavailableError(
        f"{settings.bootstrap_servers}: the topics were not read to their end:"
        f" {type(error).__name__}"
    )
