"""Feeds a grader from the event topics, in no consumer group."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from schemas.codec import decode_event
from schemas.errors import DecodeError
from streams.kafka import LogReader, Record
from streams.replay.grader import FileGrader
from streams.replay.reader import Line
from streams.settings import Settings
from streams.topics import names_from

Place = tuple[str, int]
Spans = Mapping[Place, tuple[int, int]]


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
    async for place, records in reader.read(others):
        if place[0] in marked:
            evals.update(_run_ids(records))
        _add(grader, place, records)
        if progress is not None:
            progress(len(records))
    await _feed(grader, reader, calls, evals, progress)


async def _feed(
    grader: FileGrader,
    reader: LogReader,
    spans: Spans,
    evals: set[bytes] | None,
    progress: Callable[[int], None] | None,
) -> None:
    async for place, records in reader.read(spans):
        wanted = [
            record
            for record in records
            if evals is None or not _is_ordinary(record, evals)
        ]
        _add(grader, place, wanted)
        if progress is not None:
            progress(len(records))


def _run_ids(records: Iterable[Record]) -> Iterator[bytes]:
    for record in records:
        try:
            envelope, _ = decode_event(record.value or b"")
        except DecodeError:
            # Nothing is graded by it; it closes the runs it names.
            continue
        yield envelope.run_id.encode()


def _is_ordinary(record: Record, evals: set[bytes]) -> bool:
    """Whether a call is, without doubt, of a run that is no eval.

    A key is believed only where the event spells it as its run: hosts that key
    by something else must not have their forbidden calls passed over.
    """
    key, value = record.key, record.value
    if not key or not value or key in evals:
        return False
    at = value.find(_RUN_ID)
    if at < 0 or value.find(_RUN_ID, at + 1) >= 0:
        return False
    rest = value[at + len(_RUN_ID) : at + len(_RUN_ID) + len(key) + _MOST_SPACE]
    spelled = rest.lstrip().removeprefix(b":").lstrip()
    return bool(spelled.startswith(b'"' + key + b'"'))


_RUN_ID = b'"runId"'
# Around the colon and for the quotes.
_MOST_SPACE = 16


def _add(grader: FileGrader, place: Place, records: Iterable[Record]) -> None:
    topic, partition = place
    lines = [Line(one.offset, one.value or b"", key=one.key) for one in records]
    grader.add(f"{topic}/{partition}", lines)
