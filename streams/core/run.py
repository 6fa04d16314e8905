"""The state of one run: its evidence, folded in any order, counted once.

The state is the set of the run's events, reduced to facts, and which of its
scores are sealed. Everything published is computed from it, so events in any
order, duplicated or late, end in the same records.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from enum import IntEnum
from sys import intern

import msgspec

from schemas.events import Envelope, Payload, ToolCalled
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
    precedence,
    same_event,
    settle_arguments,
    trim,
)
from streams.core.policy import Attribution
from streams.core.scored import ScoredTrials, insert
from streams.core.trajectory import ArgsNeed

# A run holds this many times the calls that one trial may have. Which trials
# they belong to is known only when the scores are, so the bound of memory
# cannot be a trial's; the same events leave the same calls out in any order.
RUN_CALLS_FACTOR = 10


class Applied(IntEnum):
    """What an event did to the state."""

    NEW = 0
    DUPLICATE = 1
    CONFLICT = 2
    OVERFLOW = 3


# Reading a member of an enumeration costs as much as making a fact.
_NEW = Applied.NEW
_BY_NODE = Attribution.NODE

# What a run has that holds none of them: most that are open. Each empty set of
# its own would take 216 bytes, each dictionary 64.
_NOT_SCORED = ScoredTrials()
_NONE: frozenset[int] = frozenset()

_DERIVED = (
    "_disputed",
    "_is_ambiguous",
    "call_count",
    "completed",
    "ended",
    "facts",
    "order",
    "scored",
    "started",
    "suite",
)


class RunState:
    """Evidence of one run.

    Args:
        run_id: The run.
        hold: Whether scores and endings wait to be sealed (several topics), or
            order is given (one log).

    Attributes:
        facts: ``sequence`` -> fact, one an event; in the order in which they
            came, as long as it is not ``rewritten``.
        order: The sequences of ``facts``, ascending.
        scored: Its scored trials.
        rewritten: Whether a stored fact was replaced, not only facts added.
        call_count: Distinct calls.
        latest_at: Time of the latest event used.
        conflict: Two different events had one ``sequence``, or two verdicts of
            the host differ; where events differ in arguments alone, see
            ``is_contradictory``.
        overflow: Calls were left out, the last by ``sequence``: more than
            ``RUN_CALLS_FACTOR`` times ``max_calls_per_trial``.
        calls_dropped: Calls were dropped as those of an ordinary run.
        unreadable: An event of the run could not be read.
        misrouted: Events of the run were on a partition that is not its own.
        idle: The run was closed because nothing more came.
        started: First ``eval.started`` by sequence.
        suite: The suite it names, where that is known. None where another
            start names another suite: nobody can say which is evaluated.
        completed: First ``eval.completed`` by sequence.
        ended: First ending of the run by sequence.
    """

    __slots__ = (
        "_by_node",
        "_disputed",
        "_hold",
        "_is_ambiguous",
        "_unsealed",
        "call_count",
        "calls_dropped",
        "completed",
        "conflict",
        "ended",
        "facts",
        "idle",
        "latest_at",
        "misrouted",
        "order",
        "overflow",
        "rewritten",
        "run_id",
        "scored",
        "started",
        "suite",
        "unreadable",
    )

    def __init__(self, run_id: str, *, hold: bool = False) -> None:
        self.run_id = run_id
        self.facts: dict[int, Fact] = {}
        self.order: list[int] = []
        self.scored = _NOT_SCORED
        self.rewritten = False
        self.call_count = 0
        self.latest_at: datetime | None = None
        self.conflict = False
        self.overflow = False
        self.calls_dropped = False
        self.unreadable = False
        self.misrouted = False
        self.idle = False
        self.started: Started | None = None
        self.suite: CompiledSuite | None = None
        self.completed: Completed | None = None
        self.ended: Ended | None = None
        self._hold = hold
        self._is_ambiguous = False
        # None where there are none.
        self._unsealed: set[int] | None = None
        self._disputed: set[int] | None = None
        # Sequences of calls by node; made when needed, dropped on change.
        self._by_node: dict[str | None, list[int]] | None = None

    @property
    def publishes(self) -> bool:
        """Whether the run is an eval: it was started or scored."""
        return self.started is not None or bool(self.scores)

    @property
    def scores(self) -> Sequence[int]:
        """The sequences of the scores, ascending."""
        return self.scored.scores

    @property
    def unsealed(self) -> AbstractSet[int]:
        """Scores and endings, by sequence, which events may be missing before."""
        return self._unsealed or _NONE

    @unsealed.setter
    def unsealed(self, sequences: Iterable[int]) -> None:
        self._unsealed = set(sequences) or None

    @property
    def is_contradictory(self) -> bool:
        """Whether events contradict one another in what is graded.

        Arguments that no step compares are not kept, so they cannot differ.
        """
        return self.conflict or any(map(self._matters, self._disputed or ()))

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
        return self.scored.by_task.get(task_id, [])

    def apply(self, envelope: Envelope, payload: Payload, context: Context) -> Applied:
        """Folds one event in.

        Args:
            envelope: The event; of this run.
            payload: Its payload.
            context: Policy, digester and the suites that are known. Where the
                run's suite is not, all arguments are digested.

        Returns:
            What it did. Late, repeated and conflicting events are no errors.
        """
        if self.latest_at is None or envelope.timestamp > self.latest_at:
            self.latest_at = envelope.timestamp
        if not isinstance(payload, ToolCalled):
            return self._apply_mark(mark_from(envelope, payload), context)
        sequence, suite = envelope.sequence, self.suite
        # One text for a name that many calls share.
        tool = intern(payload.tool_name)
        if suite is None or tool in suite.tools_with_args:
            call = self._call_with_args(envelope, payload, context)
        else:
            event_id, node_id = envelope.event_id, envelope.node_id
            call = Call(sequence, event_id, tool, None, None, node_id)
        order, most = self.order, context.policy.max_calls_per_trial * RUN_CALLS_FACTOR
        if self.call_count < most and (not order or sequence > order[-1]):
            # The run's newest event: no other can be touched by it.
            self.facts[sequence] = call
            order.append(sequence)
            self.call_count += 1
            self._by_node = None
            return _NEW
        return self._apply_late_call(call, most, context)

    def _apply_mark(
        self, fact: Score | Started | Completed | Ended, context: Context
    ) -> Applied:
        existing = self.facts.get(fact.sequence)
        if existing is not None:
            return self._again(existing, fact, context)
        suite = self.suite
        self._add(fact, context)
        if self.suite is not suite:
            self._trim()
        return _NEW

    def know_suite(self, suite: CompiledSuite) -> None:
        """Takes the suite that ``eval.started`` names, once it is known."""
        if self._is_ambiguous:
            return
        self.suite = suite
        self._trim()
        self.scored.forget_all()

    @property
    def unsealed_trials(self) -> int:
        """How many trials are scored and not sealed."""
        return self._count_scores(self.unsealed)

    def seal(self, sequence: int) -> int:
        """Marks the score or ending with this ``sequence`` as sealed.

        Returns:
            How many trials were sealed by that: 1 or 0.
        """
        if self._unsealed is None or sequence not in self._unsealed:
            return 0
        self._unsealed.discard(sequence)
        return self._count_scores((sequence,))

    def seal_gapless(self, attribution: Attribution) -> int:
        """Seals what no event can be missing before: no sequence is left out.

        Sequences are strictly increasing within a run, so where every number
        from the score before (or from ``eval.started``) up to a score is taken
        by a known event, all calls of its trial are known. Hosts whose logs
        hold other events in between leave gaps; those wait for the barrier.

        Args:
            attribution: By node, a trial may reach back to the start.

        Returns:
            How many trials were sealed; of endings that were, nothing is said.
        """
        started, order, unsealed = self.started, self.order, self._unsealed
        if started is None or unsealed is None:
            return 0
        if order[-1] - order[0] < len(order):
            sealed = [s for s in unsealed if s > started.sequence]
        else:
            sealed = [s for s in unsealed if self._is_gapless(s, started, attribution)]
        unsealed.difference_update(sealed)
        return self._count_scores(sealed)

    def _count_scores(self, sequences: Iterable[int]) -> int:
        facts = self.facts
        return sum([isinstance(facts[sequence], Score) for sequence in sequences])

    def _is_gapless(
        self, sequence: int, started: Started, attribution: Attribution
    ) -> bool:
        if started.sequence > sequence:
            return False
        low = started.sequence
        if attribution is Attribution.SEQUENCE and isinstance(
            self.facts[sequence], Score
        ):
            index = bisect_left(self.scores, sequence)
            if index:
                low = max(low, self.scores[index - 1])
        held = bisect_left(self.order, sequence) - bisect_left(self.order, low)
        return held == sequence - low

    def restore(self, facts: Iterable[Fact], context: Context) -> None:
        """Takes stored facts in, in any order; seals and flags are apart."""
        hold, self._hold = self._hold, False
        for fact in facts:
            if fact.sequence not in self.facts:
                self._add(fact, context)
        self._hold = hold
        self._trim()

    def merge(self, facts: Iterable[Fact], context: Context) -> None:
        """Takes facts of the same run in, as if their events came once more.

        Args:
            facts: In any order; those that are known change nothing, those that
                contradict one are conflicts. Scores and endings that are new
                wait to be sealed.
            context: As in ``apply``.
        """
        # The start first: what is kept of a call depends on its suite.
        for fact in sorted(facts, key=lambda fact: not isinstance(fact, Started)):
            known, suite = self.facts.get(fact.sequence), self.suite
            kept = self._trimmed(fact) if isinstance(fact, Call) else fact
            if known is None:
                self._add(kept, context)
            elif known != kept:
                self._again(known, kept, context)
            if self.suite is not suite:
                self._trim()

    def calls_of(self, sequence: int, attribution: Attribution) -> list[Call]:
        """The calls of the trial that the score at ``sequence`` ends.

        Args:
            sequence: Of a score of this run.
            attribution: By sequence, or by node.

        Returns:
            Its calls in ``sequence`` order: those after the score before it
            (with the same node, if by node) and after ``eval.started``. A
            score that stands before the start has the calls before it: its
            trial is judged by its path all the same.

        Source: DESIGN.md §3, "Which trial a call belongs to".
        """
        if attribution == _BY_NODE:
            node_id = self.score_at(sequence).node_id
            scores = self.scored.by_node[node_id]
            order = self._calls_by_node().get(node_id, [])
        else:
            scores, order = self.scored.scores, self.order
        index = bisect_left(scores, sequence)
        before = scores[index - 1] if index else -1
        if self.started is not None and before < self.started.sequence < sequence:
            before = self.started.sequence
        facts = self.facts
        span = order[bisect_right(order, before) : bisect_left(order, sequence)]
        return [fact for s in span if isinstance(fact := facts[s], Call)]

    def unattributed_calls(self, attribution: Attribution) -> list[Call]:
        """Calls that belong to no trial: before the start, after the last score."""
        facts, order = self.facts, self.order
        start = self.started.sequence if self.started is not None else -1
        early = order[: bisect_left(order, start)]
        if attribution != _BY_NODE:
            last = max(self.scores[-1] if self.scores else -1, start)
            late = order[bisect_right(order, last) :]
        else:
            late = []
            for node_id, calls in self._calls_by_node().items():
                scores = self.scored.by_node.get(node_id)
                last = max(scores[-1] if scores else -1, start)
                late += calls[bisect_right(calls, last) :]
            late.sort()
        return [f for s in early + late if isinstance(f := facts[s], Call)]

    def _call_with_args(
        self, envelope: Envelope, payload: ToolCalled, context: Context
    ) -> Call:
        suite = self.suite
        if suite is None:
            return call_from(envelope, payload, ArgsNeed.PARTS, context.digester)
        need, _, keys = suite.args_kept(payload.tool_name)
        return call_from(envelope, payload, need, context.digester, keys)

    def _apply_late_call(self, call: Call, most: int, context: Context) -> Applied:
        sequence = call.sequence
        existing = self.facts.get(sequence)
        if existing is not None:
            return self._again(existing, call, context)
        if self.call_count >= most:
            self.overflow = True
            if not self._evict_after(sequence, context):
                return Applied.OVERFLOW
        self._add(call, context)
        return _NEW

    def _evict_after(self, sequence: int, context: Context) -> bool:
        """Leaves out the run's last call, if it comes after ``sequence``."""
        for index in range(len(self.order) - 1, -1, -1):
            last = self.order[index]
            fact = self.facts[last]
            if last < sequence:
                return False
            if isinstance(fact, Call):
                del self.order[index]
                del self.facts[last]
                if self._disputed:
                    self._disputed.discard(last)
                self.call_count -= 1
                self.rewritten = True
                self._invalidate_after(last, fact.node_id, context)
                return True
        return False

    def _again(self, existing: Fact, fact: Fact, context: Context) -> Applied:
        """Takes in a second event of one sequence; the smaller stands."""
        if same_event(existing, fact):
            if not isinstance(existing, Call) or not isinstance(fact, Call):
                return Applied.DUPLICATE
            settled = settle_arguments(existing, fact)
            if settled == existing:
                return Applied.DUPLICATE
            self._replace(settled, context)
            return Applied.CONFLICT
        self.scored.dirty.update(self.scored.by_task)
        self.conflict = True
        stands, falls = sorted((existing, fact), key=precedence)
        if isinstance(stands, Started) and not stands.disputed:
            # What is no start may have stood before another start and hidden it.
            agrees = (
                isinstance(falls, Started)
                and not falls.disputed
                and stands.suite_key == falls.suite_key
            )
            if not agrees:
                stands = msgspec.structs.replace(stands, disputed=True)
        if stands is not existing:
            self._replace(stands, context)
            if self._hold and not isinstance(stands, Call | Started):
                self._unseal(stands.sequence)
        return Applied.CONFLICT

    def _matters(self, sequence: int) -> bool:
        """Whether a step may compare what two events of this sequence differ in."""
        call, suite = self.facts[sequence], self.suite
        return (
            isinstance(call, Call)
            and suite is not None
            and suite.args_need(call.tool) >= call.disputed
        )

    def _add(self, fact: Fact, context: Context) -> None:
        sequence = fact.sequence
        self.facts[sequence] = fact
        insert(self.order, sequence)
        if isinstance(fact, Call):
            self.call_count += 1
            self._by_node = None
            if fact.disputed:
                if self._disputed is None:
                    self._disputed = set()
                self._disputed.add(sequence)
            scores = self.scored.scores
            if scores and sequence < scores[-1]:
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
            self._add_start(fact, context)
            return
        elif isinstance(fact, Completed):
            self._add_completed(fact)
        elif self.ended is None or sequence < self.ended.sequence:
            self.ended = fact
        if self._hold:
            self._unseal(sequence)

    def _add_completed(self, fact: Completed) -> None:
        first = self.completed
        if first is not None and first.figures != fact.figures:
            # A host gives one verdict of a run; nobody can say which of two holds.
            self.conflict = True
            self.scored.dirty.update(self.scored.by_task)
        if first is None or fact.sequence < first.sequence:
            self.completed = fact

    def _unseal(self, sequence: int) -> None:
        if self._unsealed is None:
            self._unsealed = set()
        self._unsealed.add(sequence)

    def _add_start(self, fact: Started, context: Context) -> None:
        first = self.started
        if fact.disputed or (first is not None and first.suite_key != fact.suite_key):
            self._is_ambiguous = True
        if first is None or fact.sequence < first.sequence:
            self.started = fact
            self.suite = context.suites.get(fact.suite_key)
        if self._is_ambiguous:
            self.suite = None
        self.scored.forget_all()

    def _add_score(self, fact: Score, context: Context) -> None:
        sequence = fact.sequence
        scores = self.scored.scores
        if scores and sequence < scores[-1]:
            self._invalidate_after(sequence, fact.node_id, context)
        if self.scored is _NOT_SCORED:
            self.scored = ScoredTrials()
        self.scored.add(fact)

    def _invalidate_after(
        self, sequence: int, node_id: str | None, context: Context
    ) -> None:
        """Has the trial that a call at ``sequence`` is of graded anew."""
        attribution = context.policy.attribution
        later = self.scored.forget_after(sequence, attribution, node_id)
        if later is not None:
            self.scored.dirty.add(self.score_at(later).task_id)

    def _calls_by_node(self) -> dict[str | None, list[int]]:
        if self._by_node is None:
            self._by_node = {}
            for sequence in self.order:
                fact = self.facts[sequence]
                if isinstance(fact, Call):
                    self._by_node.setdefault(fact.node_id, []).append(sequence)
        return self._by_node

    def _trim(self) -> None:
        """Keeps of the calls' arguments what the suite needs, now it is known."""
        facts = self.facts
        if self.suite is None:
            return
        for sequence, fact in facts.items():
            if isinstance(fact, Call):
                trimmed = self._trimmed(fact)
                if trimmed is not fact:
                    facts[sequence] = trimmed
                    self.rewritten = True

    def _trimmed(self, call: Call) -> Call:
        if self.suite is None:
            return call
        need, named, _ = self.suite.args_kept(call.tool)
        return trim(call, need, named)

    def _replace(self, fact: Fact, context: Context) -> None:
        """Puts a fact in another's place and derives everything anew."""
        facts = {**self.facts, fact.sequence: fact}
        fresh = RunState(self.run_id)
        fresh.scored = ScoredTrials()
        fresh.restore(facts.values(), context)
        suite, started = self.suite, fresh.started
        if suite is not None and started is not None and started.suite_key == suite.key:
            fresh.know_suite(suite)
        # A task whose score fell is no less changed.
        fresh.scored.dirty |= self.scored.dirty
        for name in _DERIVED:
            setattr(self, name, getattr(fresh, name))
        self.rewritten = True
        self._by_node = None
        self.unsealed = {
            s for s in self.unsealed if not isinstance(self.facts[s], Call | Started)
        }
