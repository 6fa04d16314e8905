"""One partition's runs: what is read of them, and what waits.

Everything here is synchronous and touches no broker: events go in, and what
has to be written is collected for the committer.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec

from schemas.codec import decode_event, is_v2_grammar, runs_of_rejected
from schemas.errors import DecodeError
from schemas.events import (
    Envelope,
    EvalCompleted,
    EvalScored,
    EvalStarted,
    Payload,
    ToolCalled,
)
from streams.agents.entry import Entry, load_entry
from streams.core.bloom import RotatingBloom
from streams.core.context import Context
from streams.core.rows import RowStatus, decode_head
from streams.core.run import Applied, RunState
from streams.kafka import Record
from streams.tables import PartitionRows, run_key

# Once an event, reading a member of an enumeration is a tenth of a microsecond.
_NEW, _DUPLICATE = Applied.NEW, Applied.DUPLICATE


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a shard needs of the settings.

    Args:
        hold: Whether events that belong together come over several topics, so
            that scores wait to be sealed.
        belongs: Whether a run's key hashes to a partition; by run id and
            partition.
        host_verdict_grace_s: As the setting.
        cache_runs: Runs kept decoded, for this shard.
    """

    hold: bool
    belongs: Callable[[str, int], bool]
    host_verdict_grace_s: float
    cache_runs: int


class Counts(msgspec.Struct):
    """What happened to the records of one chunk, for the metrics."""

    events: int = 0
    duplicates: int = 0
    late: int = 0
    too_late: int = 0
    too_late_forbidden: int = 0
    off_grammar: int = 0
    ordinary_calls: int = 0
    conflicts: int = 0
    overflowed: int = 0
    late_starts: int = 0
    misrouted: int = 0
    unknown: int = 0


class Unsealed(NamedTuple):
    """A score or ending that waits to be sealed."""

    run_id: str
    sequence: int
    seen_at_s: float


class TooLate(NamedTuple):
    """A forbidden call of a run whose state was removed."""

    run_id: str
    suite_key: str
    tool: str


class Acknowledgeable(Protocol):
    """An event of the stream whose value is a chunk."""

    def ack(self) -> bool:
        """Lets its offset be committed."""


class Unknown(msgspec.Struct):
    """What waits for the topic of ``eval.started`` to be read.

    Args:
        run_ids: Runs of which nothing but calls or an ending was read.
        chunks: Chunks that hold such calls: if they were acknowledged, the
            calls would be lost with the worker.
    """

    run_ids: list[str] = msgspec.field(default_factory=list)
    chunks: list[Acknowledgeable] = msgspec.field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self.run_ids or self.chunks)


class Shard:
    """The runs of one assigned partition.

    Args:
        partition: Its number.
        rows: Its stored rows.
        context: Policy, digester and suites.
        options: From the settings.

    Attributes:
        dirty: Runs that something happened to since the committer took them.
        unsealed: Scores and endings that wait for all source topics.
        unknown: What waits for the topic of ``eval.started``.
        rejected: Records that are no events, with the error and their topic.
        misrouted: Ids of runs that do not belong here; the partition of theirs
            is told.
        misrouted_evals: Such runs, and their suites' ids, whose very start is
            here: on their own partition nobody may ever hear of them.
        rebuilds: Ids of runs to be rebuilt from the topics.
        too_late: Forbidden calls of runs whose state was removed.
        read_up_to_s: Everything that was published before this was read,
            seconds since the epoch; 0 until that is known.
    """

    def __init__(
        self,
        partition: int,
        rows: PartitionRows,
        context: Context,
        options: Options,
    ) -> None:
        self.partition = partition
        self.rows = rows
        self.context = context
        self.options = options
        self.dirty: dict[str, Entry] = {}
        self.unsealed: list[Unsealed] = []
        self.unknown = Unknown()
        self.rejected: list[tuple[str, Record, DecodeError]] = []
        self.misrouted: list[str] = []
        self.misrouted_evals: list[tuple[str, str]] = []
        self.rebuilds: set[str] = set()
        self.too_late: list[TooLate] = []
        self.read_up_to_s = 0.0
        self.dropped = RotatingBloom()
        self.runs: dict[str, Entry] = {}
        # Runs first seen since the partition was assigned; None once it is known
        # which runs' calls had been dropped before.
        self._opened: set[str] | None = set()
        self._unknown: dict[str, list[tuple[Envelope, Payload]]] = {}
        self._strangers: dict[str, None] = {}

    @property
    def unknown_count(self) -> int:
        """Runs of which nothing but calls or an ending was read so far."""
        return len(self._unknown)

    def read(self, topic: str, records: Sequence[Record]) -> Counts:
        """Folds the records of one chunk in.

        Args:
            topic: The source topic.
            records: In offset order.

        Returns:
            What happened to them.
        """
        counts = Counts(events=len(records))
        applied = [0, 0, 0, 0]
        runs, dirty, context = self.runs, self.dirty, self.context
        for record in records:
            try:
                envelope, payload = decode_event(record.value or b"")
            except DecodeError as error:
                self.rejected.append((topic, record, error))
                self._lose(record)
                continue
            if payload is None:
                continue
            run_id = envelope.run_id
            entry = runs.get(run_id)
            if entry is None:
                entry = self._find(envelope, payload, counts)
                if entry is None:
                    continue
            done = entry.state.apply(envelope, payload, context)
            applied[done] += 1
            if done is _NEW:
                counts.late += entry.closed
            elif done is _DUPLICATE and entry.is_clean:
                continue
            if type(payload) is EvalScored:
                entry.scored_at_s = record.timestamp / 1000.0
            entry.is_clean = False
            dirty[run_id] = entry
        counts.duplicates += applied[Applied.DUPLICATE]
        counts.conflicts += applied[Applied.CONFLICT]
        counts.overflowed += applied[Applied.OVERFLOW]
        return counts

    def seal(self, unsealed: Iterable[Unsealed]) -> list[Unsealed]:
        """Seals scores and endings whose cut has been passed.

        Returns:
            The scores among them that were not sealed before.
        """
        trials = []
        for waited in unsealed:
            entry = self.find(waited.run_id)
            if entry is None:
                continue
            entry.waiting.discard(waited.sequence)
            if waited.sequence in entry.state.unsealed:
                if entry.state.seal(waited.sequence):
                    trials.append(waited)
                self.touch(entry)
        return trials

    def drop(self, run_ids: Iterable[str]) -> int:
        """Drops the calls of runs that are still unknown: they are no evals.

        Returns:
            How many calls were dropped.
        """
        dropped = 0
        for run_id in run_ids:
            held = self._unknown.pop(run_id, None)
            if held is not None:
                self.dropped.add(run_id)
                dropped += len(held)
        return dropped

    def take_unsealed(self) -> list[Unsealed]:
        """Hands over the scores and endings that wait for the next cut."""
        unsealed, self.unsealed = self.unsealed, []
        return unsealed

    def take_unknown(self) -> Unknown:
        """Hands over what waits for ``eval.started``."""
        unknown, self.unknown = self.unknown, Unknown()
        return unknown

    def wait_for_seals(self, entry: Entry, now_s: float) -> None:
        """Has what is unsealed of a run wait for the next cut."""
        state = entry.state
        for sequence in state.unsealed - entry.waiting:
            entry.waiting.add(sequence)
            self.unsealed.append(Unsealed(state.run_id, sequence, now_s))

    def find(self, run_id: str) -> Entry | None:
        """The run, from memory or its row; None if there is no state of it."""
        entry = self.runs.get(run_id)
        if entry is not None:
            return entry
        data = self.rows.get(run_key(run_id))
        if data is None or decode_head(data).status is RowStatus.MARKER:
            return None
        return self._load(run_id, data)

    def open(self, run_id: str) -> Entry | None:
        """The run; a new one if there is none, None if its state was removed."""
        entry = self.find(run_id)
        if entry is None and self.rows.get(run_key(run_id)) is None:
            entry = self._begin(run_id)
        return entry

    def remember_dropped(self, run_id: str) -> None:
        """Notes that calls of a run were read before the partition was assigned.

        If no state of it is there, they were dropped; if it was opened since,
        they are missing in it.
        """
        if self._opened is not None and run_id in self._opened:
            entry = self.find(run_id)
            if entry is not None and not entry.state.calls_dropped:
                entry.state.calls_dropped = True
                self.rebuilds.add(run_id)
                self.touch(entry)
        elif run_id not in self.runs and self.rows.get(run_key(run_id)) is None:
            self.dropped.add(run_id)

    def remembers_all(self) -> None:
        """Notes that every run whose calls were dropped before is remembered."""
        opened, self._opened = self._opened, None
        for run_id in opened or ():
            entry = self.find(run_id)
            if entry is not None:
                self.touch(entry)

    @property
    def knows_dropped(self) -> bool:
        """Whether it is known of which runs calls were dropped before."""
        return self._opened is None

    def may_lack_calls(self, run_id: str) -> bool:
        """Whether it is not known yet if calls of a run were dropped before."""
        return self._opened is not None and run_id in self._opened

    def touch(self, entry: Entry) -> None:
        """Has the committer look at the run."""
        entry.is_clean = False
        self.dirty[entry.state.run_id] = entry

    def evict(self) -> None:
        """Lets go of runs beyond the cache's size, the longest held first."""
        surplus = len(self.runs) - self.options.cache_runs
        if surplus <= 0:
            return
        # A run that may lack calls is stored as one that does: kept until that is
        # known, or it would be rebuilt when it is read back.
        clean = (
            run_id
            for run_id, entry in self.runs.items()
            if entry.is_clean and not entry.unstored and not self.may_lack_calls(run_id)
        )
        for run_id in list(islice(clean, surplus)):
            del self.runs[run_id]

    def _lose(self, record: Record) -> None:
        """Closes the runs whose event cannot be read, if they can be told."""
        for run_id in runs_of_rejected(record.value or b"", record.key):
            entry = self.find(run_id)
            if entry is not None:
                entry.state.unreadable = True
                self.touch(entry)
            elif self.options.belongs(run_id, self.partition):
                # A start that comes later finds that evidence was lost.
                self.dropped.add(run_id)

    def _load(self, run_id: str, data: bytes) -> Entry:
        entry = load_entry(
            run_id, data, self.rows, self.context, hold=self.options.hold
        )
        entry.is_clean = True
        self.runs[run_id] = entry
        if entry.state.calls_dropped:
            # Stored before it could be rebuilt.
            self.rebuilds.add(run_id)
        return entry

    def _find(
        self, envelope: Envelope, payload: Payload, counts: Counts
    ) -> Entry | None:
        """The run of an event that is not in memory, or None if it must wait."""
        run_id = envelope.run_id
        marks_run = isinstance(payload, EvalStarted | EvalScored | EvalCompleted)
        held = self._unknown.get(run_id)
        if held is None:
            data = self.rows.get(run_key(run_id))
            if data is not None:
                return self._find_stored(run_id, data, payload, counts)
            if not self._belongs(run_id, counts):
                if isinstance(payload, EvalStarted):
                    self.misrouted_evals.append((run_id, payload.suite_id))
                return None
            counts.off_grammar += not is_v2_grammar(envelope)
        if not marks_run:
            self._wait_unknown(envelope, payload, held, counts)
            return None
        entry = self._begin(run_id)
        counts.late_starts += entry.state.calls_dropped
        return entry

    def _begin(self, run_id: str) -> Entry:
        """A new run, with what was held of it; what was dropped is asked for."""
        entry = self.runs[run_id] = Entry(RunState(run_id, hold=self.options.hold))
        if self._opened is not None:
            self._opened.add(run_id)
        if run_id in self.dropped:
            entry.state.calls_dropped = True
            self.rebuilds.add(run_id)
        for earlier in self._unknown.pop(run_id, ()):
            entry.state.apply(*earlier, self.context)
        return entry

    def _find_stored(
        self, run_id: str, data: bytes, payload: Payload, counts: Counts
    ) -> Entry | None:
        head = decode_head(data)
        if head.status is not RowStatus.MARKER:
            entry = self._load(run_id, data)
            # Written again even if the event is known: the changelog may lack it.
            entry.is_clean = False
            return entry
        counts.too_late += 1
        suite = self.context.suites.get(head.suite_key)
        if (
            isinstance(payload, ToolCalled)
            and suite is not None
            and suite.is_forbidden(payload.tool_name) is not None
        ):
            counts.too_late_forbidden += 1
            self.too_late.append(TooLate(run_id, head.suite_key, payload.tool_name))
        return None

    def _belongs(self, run_id: str, counts: Counts) -> bool:
        if run_id in self._strangers:
            return False
        if self.options.belongs(run_id, self.partition):
            return True
        counts.misrouted += 1
        self.misrouted.append(run_id)
        self._strangers[run_id] = None
        if len(self._strangers) > _MAX_STRANGERS:
            del self._strangers[next(iter(self._strangers))]
        return False

    def _wait_unknown(
        self,
        envelope: Envelope,
        payload: Payload,
        held: list[tuple[Envelope, Payload]] | None,
        counts: Counts,
    ) -> None:
        if not self.options.hold:
            # One topic: eval.started would have been read before this.
            self.dropped.add(envelope.run_id)
            counts.ordinary_calls += 1
        elif held is None:
            counts.unknown += 1
            self._unknown[envelope.run_id] = [(envelope, payload)]
            self.unknown.run_ids.append(envelope.run_id)
        else:
            counts.unknown += 1
            held.append((envelope, payload))


_MAX_STRANGERS = 100_000
