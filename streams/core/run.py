"""The state of one run: its evidence, folded in any order, counted once.

The state is the set of the run's events, reduced to facts, and which of its
scores are sealed. Everything published is computed from it, so events in any
order, duplicated or late, end in the same records.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from datetime import datetime
from enum import IntEnum

import msgspec

from schemas.events import Envelope, Payload, ToolCalled
from schemas.reasons import Reason
from streams.core.compiled import CompiledSuite
from streams.core.context import Context
from streams.core.evidence import (
    Call,
    Completed,
    Ended,
    Fact,
    Score,
    Started,
    call_from,
    mark_from,
    same_evidence,
)
from streams.core.policy import Attribution
from streams.core.trajectory import ArgsNeed


class Applied(IntEnum):
    """What an event did to the state."""

    NEW = 0
    DUPLICATE = 1
    CONFLICT = 2
    OVERFLOW = 3


class TrialResult(msgspec.Struct, frozen=True):
    """One graded trial, as far as it does not depend on the other trials.

    Args:
        score: The fact it was scored by.
        matched: Whether the trajectory met the expectation; None without one.
        passed: Our verdict.
        calls: Number of its calls.
        observed: Its tools in order, at most 50; empty unless ``matched`` is
            false.
        reasons: Why it did not pass.
    """

    score: Score
    matched: bool | None
    passed: bool
    calls: int
    observed: tuple[str, ...]
    reasons: tuple[Reason, ...]

    @property
    def gated(self) -> bool:
        """Whether it contributes 0 to the pass decision (RFC 0246 §A)."""
        return self.matched is False or self.score.fixture_miss


_DERIVED = ("facts", "order", "scores", "started", "completed", "ended", "suite")
_facts_encoder = msgspec.msgpack.Encoder()


class RunState:
    """Evidence of one run.

    Args:
        run_id: The run.
        hold: Whether scores and endings wait to be sealed (several topics), or
            order is given (one log).

    Attributes:
        facts: ``sequence`` -> fact, one an event.
        order: The sequences of ``facts``, ascending.
        scores: The sequences of the scores, ascending.
        unsealed: Sequences of scores and endings that events which precede
            them may still be missing for.
        results: Cache: sequence of a score -> its graded trial.
        dirty: Tasks whose trials changed since they were last taken.
        rewritten: Whether a stored fact was replaced, not only facts added.
        call_count: Distinct calls.
        latest_at: Time of the latest event used.
        conflict: Two different events had one ``sequence``.
        overflow: Calls were left out beyond ``max_calls_per_trial``.
        calls_dropped: Calls were dropped as those of an ordinary run.
        misrouted: Events of the run were on a partition that is not its own.
        idle: The run was closed because nothing more came.
        started: First ``eval.started`` by sequence.
        suite: The suite it names, where that is known.
        completed: First ``eval.completed`` by sequence.
        ended: First ending of the run by sequence.
    """

    __slots__ = (
        "_by_task",
        "_hold",
        "_tail_calls",
        "call_count",
        "calls_dropped",
        "completed",
        "conflict",
        "dirty",
        "ended",
        "facts",
        "idle",
        "latest_at",
        "misrouted",
        "order",
        "overflow",
        "results",
        "rewritten",
        "run_id",
        "scores",
        "started",
        "suite",
        "unsealed",
    )

    def __init__(self, run_id: str, *, hold: bool = False) -> None:
        self.run_id = run_id
        self.facts: dict[int, Fact] = {}
        self.order: list[int] = []
        self.scores: list[int] = []
        self.unsealed: set[int] = set()
        self.results: dict[int, TrialResult] = {}
        self.dirty: set[str] = set()
        self.rewritten = False
        self.call_count = 0
        self.latest_at: datetime | None = None
        self.conflict = False
        self.overflow = False
        self.calls_dropped = False
        self.misrouted = False
        self.idle = False
        self.started: Started | None = None
        self.suite: CompiledSuite | None = None
        self.completed: Completed | None = None
        self.ended: Ended | None = None
        self._hold = hold
        self._tail_calls = 0
        self._by_task: dict[str, list[int]] = {}

    @property
    def publishes(self) -> bool:
        """Whether the run is an eval: it was started or scored."""
        return self.started is not None or bool(self.scores)

    def score_at(self, sequence: int) -> Score:
        """The score with this ``sequence``.

        Raises:
            KeyError: There is none.
        """
        fact = self.facts[sequence]
        if not isinstance(fact, Score):
            raise KeyError(sequence)
        return fact

    def scores_of(self, task_id: str) -> list[int]:
        """Sequences of the scores of one task, ascending."""
        return self._by_task.get(task_id, [])

    def apply(
        self, envelope: Envelope, payload: Payload, context: Context
    ) -> Applied:
        """Folds one event in.

        Args:
            envelope: The event; of this run.
            payload: Its payload.
            context: Policy, digester and the suites that are known. Where the
                run's suite is not, all arguments are digested.

        Returns:
            What it did. Late, repeated and conflicting events are no errors.
        """
        sequence = envelope.sequence
        if isinstance(payload, ToolCalled):
            suite = self.suite
            need = (
                ArgsNeed.PARTS if suite is None else suite.args_need(payload.tool_name)
            )
            fact: Fact = call_from(envelope, payload, need, context.digester)
        else:
            fact = mark_from(envelope, payload)
        existing = self.facts.get(sequence)
        if existing is not None:
            return self._again(existing, fact, context)
        if isinstance(fact, Call) and self._is_full(sequence, context):
            self.overflow = True
            return Applied.OVERFLOW
        self._add(fact, context)
        if self.latest_at is None or envelope.timestamp > self.latest_at:
            self.latest_at = envelope.timestamp
        return Applied.NEW

    def know_suite(self, suite: CompiledSuite) -> None:
        """Takes the suite that ``eval.started`` names, once it is known."""
        self.suite = suite
        self.results.clear()
        self.dirty.update(self._task_ids())

    def seal(self, sequence: int) -> None:
        """Marks the score or ending with this ``sequence`` as sealed."""
        self.unsealed.discard(sequence)

    def restore(self, facts: Iterable[Fact], context: Context) -> None:
        """Takes stored facts in, in any order; seals and flags are apart."""
        hold, self._hold = self._hold, False
        for fact in facts:
            if fact.sequence not in self.facts:
                self._add(fact, context)
        self._hold = hold

    def calls_of(self, sequence: int, attribution: Attribution) -> list[Call]:
        """The calls of the trial that the score at ``sequence`` ends.

        Args:
            sequence: Of a score of this run.
            attribution: By sequence, or by node.

        Returns:
            Its calls in ``sequence`` order: those after the score before it
            (with the same node, if by node), after ``eval.started``.

        Source: DESIGN.md §3, "Which trial a call belongs to".
        """
        facts, order = self.facts, self.order
        before = self._score_before(sequence, attribution)
        if self.started is not None and self.started.sequence > before:
            before = self.started.sequence
        span = order[bisect_right(order, before) : bisect_left(order, sequence)]
        calls = [fact for s in span if isinstance(fact := facts[s], Call)]
        if attribution is Attribution.NODE:
            node_id = self.score_at(sequence).node_id
            return [call for call in calls if call.node_id == node_id]
        return calls

    def unattributed_calls(self, attribution: Attribution) -> list[Call]:
        """Calls that belong to no trial: before the start, after the last score."""
        facts, order = self.facts, self.order
        start = self.started.sequence if self.started is not None else -1
        early = order[: bisect_left(order, start)] if start > 0 else []
        if attribution is Attribution.SEQUENCE:
            last = self.scores[-1] if self.scores else -1
            late = order[bisect_right(order, max(last, start)) :]
            return [f for s in early + late if isinstance(f := facts[s], Call)]
        last_by_node: dict[str | None, int] = {}
        for sequence in self.scores:
            last_by_node[self.score_at(sequence).node_id] = sequence
        return [
            f
            for s in order
            if isinstance(f := facts[s], Call)
            and (s < start or s > last_by_node.get(f.node_id, -1))
        ]

    def _again(self, existing: Fact, fact: Fact, context: Context) -> Applied:
        if same_evidence(existing, fact):
            return Applied.DUPLICATE
        known, self.conflict = self.conflict, True
        if _precedence(fact) < _precedence(existing):
            self.facts[fact.sequence] = fact
            self._rebuild(context)
            if self._hold and not isinstance(fact, Call):
                self.unsealed.add(fact.sequence)
            return Applied.CONFLICT
        if not known:
            self.dirty.update(self._task_ids())
        return Applied.DUPLICATE if known else Applied.CONFLICT

    def _is_full(self, sequence: int, context: Context) -> bool:
        limit = context.policy.max_calls_per_trial
        if not self.scores or sequence > self.scores[-1]:
            return self._tail_calls >= limit
        index = bisect_left(self.scores, sequence)
        low = self.scores[index - 1] if index else -1
        order = self.order
        held = bisect_left(order, self.scores[index]) - bisect_right(order, low)
        return held >= limit

    def _add(self, fact: Fact, context: Context) -> None:
        sequence = fact.sequence
        order = self.order
        self.facts[sequence] = fact
        if not order or sequence > order[-1]:
            order.append(sequence)
        else:
            insort(order, sequence)
        if isinstance(fact, Call):
            self.call_count += 1
            if not self.scores or sequence > self.scores[-1]:
                self._tail_calls += 1
            else:
                self._invalidate_after(sequence, fact.node_id, context)
        else:
            self._add_mark(fact, context)

    def _add_mark(
        self, fact: Score | Started | Completed | Ended, context: Context
    ) -> None:
        sequence = fact.sequence
        if isinstance(fact, Score):
            self._add_score(fact, context)
        elif isinstance(fact, Started):
            if self.started is None or sequence < self.started.sequence:
                self.started = fact
                self.suite = context.suites.get(fact.suite_key)
                self.results.clear()
                self.dirty.update(self._task_ids())
            return
        elif isinstance(fact, Completed):
            if self.completed is None or sequence < self.completed.sequence:
                self.completed = fact
        elif self.ended is None or sequence < self.ended.sequence:
            self.ended = fact
        if self._hold:
            self.unsealed.add(sequence)

    def _add_score(self, fact: Score, context: Context) -> None:
        sequence = fact.sequence
        if not self.scores or sequence > self.scores[-1]:
            self.scores.append(sequence)
            self._tail_calls = len(self.order) - bisect_right(self.order, sequence)
        else:
            self._invalidate_after(sequence, fact.node_id, context)
            insort(self.scores, sequence)
        insort(self._by_task.setdefault(fact.task_id, []), sequence)
        self.dirty.add(fact.task_id)

    def _invalidate_after(
        self, sequence: int, node_id: str | None, context: Context
    ) -> None:
        by_sequence = context.policy.attribution is Attribution.SEQUENCE
        for later in self.scores[bisect_right(self.scores, sequence) :]:
            score = self.score_at(later)
            if by_sequence or score.node_id == node_id:
                self.results.pop(later, None)
                self.dirty.add(score.task_id)
                return

    def _score_before(self, sequence: int, attribution: Attribution) -> int:
        index = bisect_left(self.scores, sequence)
        if attribution is Attribution.SEQUENCE:
            return self.scores[index - 1] if index else -1
        node_id = self.score_at(sequence).node_id
        for earlier in reversed(self.scores[:index]):
            if self.score_at(earlier).node_id == node_id:
                return earlier
        return -1

    def _task_ids(self) -> set[str]:
        return set(self._by_task)

    def _rebuild(self, context: Context) -> None:
        """Derives everything anew from ``facts``, after one was replaced."""
        facts = [self.facts[sequence] for sequence in self.order]
        unsealed = self.unsealed
        gone = self._task_ids_of_results()
        fresh = RunState(self.run_id)
        fresh.restore(facts, context)
        for name in _DERIVED:
            setattr(self, name, getattr(fresh, name))
        self.call_count = fresh.call_count
        self._tail_calls = fresh._tail_calls  # noqa: SLF001  # own class
        self._by_task = fresh._by_task  # noqa: SLF001  # own class
        self.results = {}
        self.dirty |= fresh.dirty | gone
        self.rewritten = True
        self.unsealed = {
            s for s in unsealed if s in self.facts and not isinstance(self.facts[s], Call)
        }

    def _task_ids_of_results(self) -> set[str]:
        return {result.score.task_id for result in self.results.values()}


def _precedence(fact: Fact) -> tuple[str, bytes]:
    """Which of two events with one ``sequence`` stands: the smaller event id.

    The encoded fact decides between two different events that also share the
    id, so that arrival order never does.
    """
    return fact.event_id, _facts_encoder.encode(fact)
