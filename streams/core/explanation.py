"""Why a trajectory did not match: expected against observed, step by step.

A reason explains, it decides nothing. Steps and calls are blamed at most once
each, so that a wrong call is not shown under every step it might have been
meant for.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from schemas.reasons import Reason, TrialReason
from schemas.suite import MatchMode
from streams.core.expectation import Expectation, ObservedCall
from streams.core.pairing import align, bits, pair

MAX_REASONS = 20


def explain(
    expectation: Expectation, calls: Sequence[ObservedCall], masks: Sequence[int]
) -> tuple[Reason, ...]:
    """Says why calls do not meet an expectation.

    Args:
        expectation: What was expected.
        calls: The calls, in ``sequence`` order.
        masks: The steps each call could serve.

    Returns:
        At most ``MAX_REASONS``, in this order: ``forbidden-tool``, one for each
        tool called, by first call; ``too-many-calls``, of the trial and then of
        each limited tool by name; then steps ascending and calls ascending:

        - ``args-unobservable`` or ``args-mismatch``: a required step is left
          without a call; the named call is of the right tool and serves
          nothing. ``key`` is the first expected top-level key that differs.
        - ``missing-step``: as before, and there is no such call. In ``exact``
          it names the call in the step's place, if that serves nothing.
        - ``wrong-order``: every required step has a call of its own, but not
          in order; the first step that none is left for, and the call that
          came too early.
        - ``unexpected-call``: a call serves no step where each must, or, with
          ``count`` and ``limit``, more such calls than ``maxExtraCalls``. Where
          the call is of the tool of a free step it is a reason about arguments
          instead.

        Empty if the calls do meet the expectation.
    """
    return tuple(islice(_find_reasons(expectation, calls, masks), MAX_REASONS))


def _find_reasons(
    expectation: Expectation, calls: Sequence[ObservedCall], masks: Sequence[int]
) -> Iterator[Reason]:
    yield from _explain_forbidden(expectation, calls)
    yield from _explain_limits(expectation, calls)
    yield from _EXPLAIN[expectation.mode](_Trial(expectation, calls, masks))


def _explain_forbidden(
    expectation: Expectation, calls: Sequence[ObservedCall]
) -> Iterator[Reason]:
    first: dict[str, int] = {}
    counts: dict[str, int] = {}
    for index, call in enumerate(calls):
        first.setdefault(call.tool, index)
        counts[call.tool] = counts.get(call.tool, 0) + 1
    for tool, index in first.items():
        entry = expectation.is_forbidden(tool)
        if entry is not None:
            yield Reason(
                code=TrialReason.FORBIDDEN_TOOL.value,
                call=index,
                expected=entry,
                observed=tool,
                count=counts[tool],
            )


def _explain_limits(
    expectation: Expectation, calls: Sequence[ObservedCall]
) -> Iterator[Reason]:
    limit = expectation.max_calls
    if limit is not None and len(calls) > limit:
        yield Reason(
            code=TrialReason.TOO_MANY_CALLS.value,
            call=limit,
            observed=calls[limit].tool,
            count=len(calls),
            limit=limit,
        )
    indexes: dict[str, list[int]] = {tool: [] for tool, _ in expectation.limits}
    for index, call in enumerate(calls):
        limited = expectation.limited.get(call.tool)
        if limited is not None:
            indexes[limited].append(index)
    for tool, limit in expectation.limits:
        of_tool = indexes[tool]
        if len(of_tool) > limit:
            yield Reason(
                code=TrialReason.TOO_MANY_CALLS.value,
                call=of_tool[limit],
                expected=tool,
                observed=calls[of_tool[limit]].tool,
                count=len(of_tool),
                limit=limit,
            )


class _Trial:
    """The calls of one trial, and which of them and of the steps are spoken for."""

    def __init__(
        self,
        expectation: Expectation,
        calls: Sequence[ObservedCall],
        masks: Sequence[int],
    ) -> None:
        self.expectation = expectation
        self.calls = calls
        self.masks = masks
        self.required = [*bits(expectation.required)]
        self.call_of: dict[int, int] = {}
        self.taken: set[int] = set()
        self.extras = len(calls)

    def settle(self, pairs: dict[int, int]) -> None:
        """Takes a pairing as the best reading of the trial."""
        self.call_of = dict(pairs)
        self.taken = set(pairs.values())
        self.extras = len(self.calls) - len(pairs)

    def settle_best(self) -> None:
        """Takes an optimal pairing without order, required steps first."""
        optional = bits(self.expectation.optional)
        self.settle(pair(self.masks, [*self.required, *optional]))

    def unserved(self) -> list[int]:
        """The required steps without a call, ascending."""
        return [step for step in self.required if step not in self.call_of]

    def blame(self, step: int, call: int) -> None:
        """Marks a step and a call as explained by one reason."""
        self.call_of[step] = call
        self.taken.add(call)

    def args_reason(self, step: int, call: int) -> Reason:
        """A call of the step's tool whose arguments do not serve it."""
        rule = self.expectation.steps[step]
        self.blame(step, call)
        lacks = rule.lacks_evidence(self.calls[call])
        code = TrialReason.ARGS_UNOBSERVABLE if lacks else TrialReason.ARGS_MISMATCH
        return Reason(
            code=code.value,
            step=step,
            call=call,
            expected=rule.name,
            observed=self.calls[call].tool,
            key=rule.find_difference(self.calls[call]),
        )

    def explain_steps(self, steps: Sequence[int]) -> Iterator[Reason]:
        """Reasons for required steps without a call."""
        rules = self.expectation.steps
        free = self._free_calls(steps)
        for step in steps:
            open_calls = [call for call in free[step] if call not in self.taken]
            if open_calls:
                lacking = (
                    call
                    for call in open_calls
                    if rules[step].lacks_evidence(self.calls[call])
                )
                yield self.args_reason(step, next(lacking, open_calls[0]))
                continue
            call = self._call_in_place(step)
            yield Reason(
                code=TrialReason.MISSING_STEP.value,
                step=step,
                call=call,
                expected=rules[step].name,
                observed=None if call is None else self.calls[call].tool,
            )

    def _free_calls(self, steps: Sequence[int]) -> dict[int, list[int]]:
        """Per step, the first free calls of its tool, as many as may be named."""
        enough = len(steps) + MAX_REASONS
        free: dict[int, list[int]] = {step: [] for step in steps}
        short = sum(1 << step for step in steps)
        for index, call in enumerate(self.calls):
            named = self.expectation.steps_of.get(call.tool, 0) & short
            if named and index not in self.taken:
                for step in bits(named):
                    free[step].append(index)
                    if len(free[step]) == enough:
                        short ^= 1 << step
        return free

    def _call_in_place(self, step: int) -> int | None:
        """In ``exact``, the call that stands where the step's should, if it is free."""
        if self.expectation.mode is not MatchMode.EXACT:
            return None
        before = [call for other, call in self.call_of.items() if other < step]
        place = max(before, default=-1) + 1
        if place >= len(self.calls) or place in self.taken:
            return None
        # The step is explained, the call is not: it is unexpected as well.
        self.call_of[step] = place
        return place

    def explain_calls(
        self, count: int | None = None, limit: int | None = None
    ) -> Iterator[Reason]:
        """Reasons for calls that serve no step."""
        for index, call in enumerate(self.calls):
            if index in self.taken:
                continue
            named = self.expectation.steps_of.get(call.tool, 0) & ~self.masks[index]
            step = next((s for s in bits(named) if s not in self.call_of), None)
            if step is None:
                yield Reason(
                    code=TrialReason.UNEXPECTED_CALL.value,
                    call=index,
                    observed=call.tool,
                    count=count,
                    limit=limit,
                )
            else:
                yield self.args_reason(step, index)

    def explain_extras(self) -> Iterator[Reason]:
        """Reasons for more calls than ``maxExtraCalls`` that serve no step."""
        limit = self.expectation.max_extra_calls
        if limit is not None and self.extras > limit:
            yield from self.explain_calls(self.extras, limit)

    def wrong_order(self) -> Reason:
        """The first required step for which no call is left after the one before."""
        required = iter(self.required)
        step = next(required)
        for mask in self.masks:
            if mask >> step & 1:
                step = next(required)
        call = self.call_of[step]
        return Reason(
            code=TrialReason.WRONG_ORDER.value,
            step=step,
            call=call,
            expected=self.expectation.steps[step].name,
            observed=self.calls[call].tool,
        )


def _explain_ordered(trial: _Trial) -> Iterator[Reason]:
    expectation = trial.expectation
    trial.settle_best()
    unserved = trial.unserved()
    if unserved:
        yield from trial.explain_steps(unserved)
    else:
        pairs = align(trial.masks, len(expectation.steps), expectation.optional)
        if pairs is None:
            yield trial.wrong_order()
        else:
            trial.settle(pairs)
    if expectation.mode is MatchMode.EXACT:
        yield from trial.explain_calls()
    else:
        yield from trial.explain_extras()


def _explain_any_order(trial: _Trial) -> Iterator[Reason]:
    trial.settle_best()
    yield from trial.explain_steps(trial.unserved())
    yield from trial.explain_extras()


def _explain_paired(trial: _Trial) -> Iterator[Reason]:
    trial.settle_best()
    yield from trial.explain_steps(trial.unserved())
    yield from trial.explain_calls()


_EXPLAIN: dict[MatchMode, Callable[[_Trial], Iterator[Reason]]] = {
    MatchMode.EXACT: _explain_ordered,
    MatchMode.IN_ORDER: _explain_ordered,
    MatchMode.ANY_ORDER: _explain_any_order,
    MatchMode.UNORDERED: _explain_paired,
    MatchMode.SUBSET: _explain_paired,
}
