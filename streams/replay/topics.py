"""Feeds a grader from the event topics, in no consumer group."""

from collections.abc import Callable, Iterable, Mapping

from aiokafka import ConsumerRecord

from streams.kafka import LogReader
from streams.replay.grader import FileGrader
from streams.replay.reader import Line
from streams.settings import Settings
from streams.topics import names_from

Spans = Mapping[tuple[str, int], tuple[int, int]]


async def feed_topics(
    grader: FileGrader,
    reader: LogReader,
    settings: Settings,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Reads all that the event topics hold now.

    Calls come last, and only those of runs that were started or scored: the
    others are of runs that are no evals.

    Args:
        grader: Takes the events; a line's number is the record's offset.
        reader: An open reader.
        settings: Name the topics.
        progress: Told how many further records were read.
    """
    names = names_from(settings)
    places = [
        (topic, partition)
        for topic in names.sources
        for partition in await reader.partitions_of(topic)
    ]
    spans = await reader.span(places)
    calls = {
        place: span for place, span in spans.items() if place[0] == names.tool_called
    }
    if len(names.sources) == 1:
        await _feed(grader, reader, spans, None, progress)
        return
    others = {place: span for place, span in spans.items() if place not in calls}
    marked = {names.eval_started, names.eval_scored}
    evals: set[bytes] = set()
    async for records in reader.read(others):
        if records[0].topic in marked:
            evals.update(record.key for record in records if record.key is not None)
        _add(grader, records, progress)
    await _feed(grader, reader, calls, evals, progress)


async def _feed(
    grader: FileGrader,
    reader: LogReader,
    spans: Spans,
    evals: set[bytes] | None,
    progress: Callable[[int], None] | None,
) -> None:
    async for records in reader.read(spans):
        wanted = [
            record
            for record in records
            # A record without a key cannot be told apart by it.
            if evals is None or record.key is None or record.key in evals
        ]
        _add(grader, wanted, None)
        if progress is not None:
            progress(len(records))


def _add(
    grader: FileGrader,
    records: Iterable[ConsumerRecord],
    progress: Callable[[int], None] | None,
) -> None:
    held = list(records)
    if not held:
        return
    source = f"{held[0].topic}/{held[0].partition}"
    grader.add(source, [Line(record.offset, record.value or b"") for record in held])
    if progress is not None:
        progress(len(held))
