"""Which calls of the topics reach the grader, whatever they are keyed by."""

from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import cast

import pytest

from streams.kafka import LogReader
from streams.replay import FileGrader
from streams.replay.topics import feed_topics
from streams.settings import Settings
from streams.topics import names_from
from tests.factories import Log, make_context, make_suite, task
from tests.factories import event as make_event

SUITE = make_suite(task("t", {"forbidden": ["wire"]}), passScore=0.5)
RUN = "acme/run-0000000000000001"
SETTINGS = Settings()
NAMES = names_from(SETTINGS)
Record = SimpleNamespace
Place = tuple[str, int]


class FakeReader:
    """Topics of one partition, in memory."""

    def __init__(self, topics: dict[str, list[Record]]) -> None:
        self._topics = topics

    async def partitions_of(self, topic: str) -> list[int]:
        return [0] if topic in self._topics else []

    async def span(self, places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        return {place: (0, len(self._topics[place[0]])) for place in places}

    async def read(
        self, spans: dict[Place, object]
    ) -> AsyncIterator[tuple[Place, list[Record]]]:
        for place in spans:
            yield place, self._topics[place[0]]


def record(value: bytes, key: bytes | None) -> Record:
    return Record(offset=0, key=key, value=value)


async def graded(
    call: bytes, call_key: bytes | None, mark_key: bytes | None
) -> tuple[list[bytes], int]:
    """The suite records, and how many events were read."""
    started, scored, completed = Log(RUN).start().score("t", 0.9).completed(0.9).lines
    topics = {
        NAMES.eval_started: [record(started, mark_key)],
        NAMES.eval_scored: [record(scored, mark_key)],
        NAMES.eval_completed: [record(completed, mark_key)],
        NAMES.tool_called: [record(call, call_key)],
    }
    with FileGrader(make_context(SUITE), lambda *_: None) as grader:
        reader = cast("LogReader", FakeReader(topics))
        await feed_topics(grader, reader, SETTINGS)
        return [run.record for run in grader.finish()], grader.events


def call_of(run: str) -> bytes:
    payload = {"agentId": "a", "toolName": "wire", "callId": "c-9"}
    return make_event("agent.tool-called", payload, 9, run=run)


@pytest.mark.asyncio
@pytest.mark.parametrize("call_key", [RUN.encode(), None, b"", b"c-9", b"other"])
@pytest.mark.parametrize("mark_key", [RUN.encode(), None, b"other"])
async def test_a_forbidden_call_is_graded_whatever_the_keys(
    call_key: bytes | None, mark_key: bytes | None
) -> None:
    """Keyed by its call id, say; a pass would be a false one."""
    (suite,), _ = await graded(call_of(RUN), call_key, mark_key)
    assert b'"unattributed-forbidden-call"' in suite


@pytest.mark.asyncio
@pytest.mark.parametrize("value", [b"", b"\x00\x00\x00\x00\x07wire", b'{"payload":{'])
async def test_a_call_that_only_its_key_names_closes_the_run(value: bytes) -> None:
    """It may have been a forbidden one; the score alone is over the bar."""
    (suite,), _ = await graded(value, RUN.encode(), RUN.encode())
    assert b'"calls-dropped"' in suite
    assert b'"passed":false' in suite
    # Of nobody known: the gate has nothing against this run.
    (suite,), _ = await graded(value, b"acme/other", RUN.encode())
    assert b'"calls-dropped"' not in suite


@pytest.mark.asyncio
async def test_calls_of_ordinary_runs_are_passed_over() -> None:
    """Their key is their run's and no eval's: three events are read, not four."""
    other = "acme/run-0000000000000002"
    (suite,), events = await graded(call_of(other), other.encode(), RUN.encode())
    assert b'"reasons":[]' in suite
    assert events == 3
