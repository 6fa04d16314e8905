"""Holds what was published and stored against the events, from outside.

What no delivery guarantee excludes (a worker that lost its partitions without
knowing it and wrote an old state) shows here: the events are graded afresh,
and every run whose newest record or stored evidence differs is named.
"""

import hashlib
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec

from schemas.codec import decode_suite_record
from schemas.errors import DecodeError, SchemaError
from schemas.reasons import RunReason
from schemas.records import Outcome
from streams.agents.control import Control, ControlKind, control_record
from streams.core.context import Context
from streams.core.evidence import Fact, same_event
from streams.core.rows import RowError, RowStatus, decode_block, decode_row
from streams.kafka import LogReader, client_options, open_reader
from streams.publish import Publisher
from streams.replay import FileGrader, GradedRun
from streams.replay.topics import feed_topics
from streams.settings import Settings
from streams.tables import block_key, run_key
from streams.topics import names_from


class Fault(StrEnum):
    """What is wrong with a run."""

    SUITE_RECORD = "suite-record"
    TASK_RECORD = "task-record"
    STATE_ROW = "state-row"


class Finding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One run that differs.

    Args:
        run_id: The run.
        fault: What differs.
        task_id: Task, on ``task-record``.
        detail: In words; ids and counts alone.
    """

    run_id: str
    fault: Fault
    detail: str
    task_id: str | None = None


class Verified(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome of one pass.

    Args:
        runs: Runs that were compared.
        open: Runs that have not ended and have no suite record yet.
        rejected: Records that are no events.
        findings: Runs that differ.
        repairs: Runs whose rebuild was asked for.
    """

    runs: int
    open: int
    rejected: int
    findings: tuple[Finding, ...]
    repairs: int = 0


async def verify(
    settings: Settings,
    context: Context,
    *,
    repair: bool = False,
    reject: Callable[[str, int, DecodeError], None] = lambda *_: None,
    progress: Callable[[int], None] | None = None,
) -> Verified:
    """One pass over the event topics and the published records.

    Args:
        settings: Topics and brokers.
        context: Policy, digester and the suites the worker grades with.
        repair: Ask the worker to rebuild every run that differs.
        reject: Told topic/partition, offset and error of what is no event.
        progress: Told how many further records were read.

    Returns:
        What was compared and what differs. Runs that change while the pass
        reads are compared as the events stood when it began; a record that
        rests on more evidence than that is newer, and no difference.

    Raises:
        BrokerUnavailableError: No broker answers.
    """
    with FileGrader(context, reject) as grader, _store() as store:
        async with open_reader(settings) as reader:
            await feed_topics(grader, reader, settings, progress)
            await _load(reader, settings, store)
        check = _Check(grader, store, settings)
        for run in grader.finish():
            check.run(run)
        repairs = {finding.run_id for finding in check.findings} if repair else set()
        if repairs:
            await _ask_rebuild(settings, repairs)
        return Verified(
            runs=check.compared,
            open=check.open,
            rejected=grader.rejected,
            findings=tuple(check.findings),
            repairs=len(repairs),
        )


class _Store:
    """Newest value per topic and key, on disk."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=OFF")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute(
            "CREATE TABLE newest (topic TEXT, key BLOB, value BLOB,"
            " PRIMARY KEY (topic, key)) WITHOUT ROWID"
        )

    def put(self, rows: list[tuple[str, bytes, bytes | None]]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT OR REPLACE INTO newest VALUES (?, ?, ?)", rows)
        self._db.execute("COMMIT")

    def get(self, topic: str, key: bytes) -> bytes | None:
        found = self._db.execute(
            "SELECT value FROM newest WHERE topic = ? AND key = ?", (topic, key)
        ).fetchone()
        return None if found is None else found[0]

    def close(self) -> None:
        self._db.close()


@contextmanager
def _store() -> Iterator[_Store]:
    with tempfile.TemporaryDirectory(prefix="pathgate-verify-") as folder:
        store = _Store(Path(folder) / "newest.sqlite")
        try:
            yield store
        finally:
            store.close()


async def _load(reader: LogReader, settings: Settings, store: _Store) -> None:
    names = names_from(settings)
    topics = (names.suite_summary, names.task_summary, names.runs_changelog)
    places = [
        (topic, partition)
        for topic in topics
        for partition in await reader.partitions_of(topic)
    ]
    async for (topic, _), records in reader.read(await reader.span(places)):
        store.put([(topic, r.key, r.value) for r in records if r.key is not None])


class _Check:
    """Compares graded runs with what was published and stored."""

    def __init__(self, grader: FileGrader, store: _Store, settings: Settings) -> None:
        self._grader = grader
        self._store = store
        self._names = names_from(settings)
        self.findings: list[Finding] = []
        self.compared = 0
        self.open = 0

    def run(self, run: GradedRun) -> None:
        """Compares one run."""
        ours = decode_suite_record(run.record)
        published = self._store.get(self._names.suite_summary, run.run_id.encode())
        if published is None and ours.outcome is Outcome.ABANDONED:
            self.open += 1
            return
        self.compared += 1
        if published == run.record:
            self._tasks(run)
            self._state(run)
            return
        if published is not None and (
            self._is_newer(published, run) or _is_misrouted(published)
        ):
            return
        self._add(run, Fault.SUITE_RECORD, _how(published, run.record))

    def _is_newer(self, published: bytes, run: GradedRun) -> bool:
        ours = decode_suite_record(run.record).evidence
        try:
            theirs = decode_suite_record(published).evidence
        except SchemaError:
            return False
        # Evidence is compared with what is stored, so that a record which
        # merely claims more is not believed.
        facts = self._stored_facts(run.run_id)
        known = {fact.sequence for fact in self._grader.evidence_of(run.run_id)}
        return (
            facts is not None
            and theirs.calls + theirs.scores > ours.calls + ours.scores
            and any(fact.sequence not in known for fact in facts)
        )

    def _tasks(self, run: GradedRun) -> None:
        for value in run.tasks:
            task_id = _task_of(value)
            key = f"{run.run_id}#{task_id}".encode()
            published = self._store.get(self._names.task_summary, key)
            if published != value:
                self._add(run, Fault.TASK_RECORD, _how(published, value), task_id)

    def _state(self, run: GradedRun) -> None:
        stored = self._stored_facts(run.run_id)
        if stored is None:
            return
        ours = {fact.sequence: fact for fact in self._grader.evidence_of(run.run_id)}
        theirs = {fact.sequence: fact for fact in stored}
        wrong = [
            sequence
            for sequence in sorted(ours.keys() | theirs.keys())
            if sequence not in ours
            or sequence not in theirs
            or not same_event(ours[sequence], theirs[sequence])
        ]
        if wrong:
            detail = f"{len(wrong)} events differ, the first at sequence {wrong[0]}"
            self._add(run, Fault.STATE_ROW, detail)

    def _stored_facts(self, run_id: str) -> list[Fact] | None:
        """Facts of the stored row; None where its state was removed."""
        topic = self._names.runs_changelog
        data = self._store.get(topic, run_key(run_id))
        if data is None:
            return None
        try:
            row = decode_row(data)
            if row.status is RowStatus.MARKER:
                return None
            facts = list(row.tail)
            for number in range(row.blocks):
                block = self._store.get(topic, block_key(run_id, number))
                facts += decode_block(block or b"")
        except RowError:
            return []
        return facts

    def _add(
        self, run: GradedRun, fault: Fault, detail: str, task_id: str | None = None
    ) -> None:
        self.findings.append(
            Finding(run_id=run.run_id, fault=fault, detail=detail, task_id=task_id)
        )


class _TaskOf(msgspec.Struct, rename="camel"):
    task_id: str


class _TaskRecordOf(msgspec.Struct):
    task: _TaskOf


_task_decoder = msgspec.json.Decoder(_TaskRecordOf)


def _task_of(value: bytes) -> str:
    return _task_decoder.decode(value).task.task_id


def _is_misrouted(published: bytes) -> bool:
    """Whether the run was closed for where its events lay, which no event says."""
    try:
        record = decode_suite_record(published)
    except SchemaError:
        return False
    return not record.summary.passed and any(
        reason.code == RunReason.MISROUTED_EVENTS.value for reason in record.reasons
    )


def _how(published: bytes | None, ours: bytes) -> str:
    if published is None:
        return "not published"
    digests = [hashlib.sha256(value).hexdigest()[:16] for value in (published, ours)]
    return f"published {digests[0]}, the events give {digests[1]}"


async def _ask_rebuild(settings: Settings, run_ids: set[str]) -> None:
    names = names_from(settings)
    publisher = Publisher(client_options(settings))
    await publisher.start()
    try:
        await publisher.send(
            control_record(
                Control(kind=ControlKind.REBUILD, run_id=run_id), settings, names
            )
            for run_id in sorted(run_ids)
        )
    finally:
        await publisher.stop()
