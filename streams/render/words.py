"""Each reason and disagreement in words: expected against observed."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import UNSET

from schemas.reasons import Reason, RunReason, TaskReason, TrialReason
from schemas.records import Disagreement, DisagreementKind, HostAudit, SuiteRecord
from schemas.summary import UNKNOWN_SUITE_ID, EvalSummary
from streams.render.figures import count_of, show_number, show_scores, visible

_Words = Callable[[Reason], str]


def explain(reason: Reason) -> str:
    """A reason in one sentence without its code.

    Steps and calls are counted from 1, as a person does; in the records from 0.

    Args:
        reason: Of a trial, a task or a run.
    """
    words = _WORDS[reason.code]
    about = f"task {visible(reason.task_id)}: " if reason.task_id else ""
    return about + words(reason)


def _step(reason: Reason) -> str:
    number = "a step" if reason.step is None else f"step {reason.step + 1}"
    return (
        number if reason.expected is None else f"{number} ({visible(reason.expected)})"
    )


def _call(reason: Reason) -> str:
    number = "a call" if reason.call is None else f"call {reason.call + 1}"
    return (
        number if reason.observed is None else f"{number} ({visible(reason.observed)})"
    )


def _forbidden(reason: Reason) -> str:
    text = f"{_call(reason)} is forbidden"
    if reason.expected is not None and reason.expected != reason.observed:
        text += f" by {visible(reason.expected)}"
    return text


def _wrong_order(reason: Reason) -> str:
    if reason.call is None and reason.observed is None:
        return f"{_step(reason)} was called out of order"
    return f"{_call(reason)} came where {_step(reason)} was expected"


def _too_many(reason: Reason) -> str:
    tool = reason.observed or reason.expected
    what = "calls" if tool is None else f"calls of {visible(tool)}"
    return f"{_figure(reason.count)} {what}, at most {_figure(reason.limit)} allowed"


def _arguments(reason: Reason) -> str:
    text = f"{_call(reason)} has other arguments than {_step(reason)} expects"
    return text if reason.key is None else f"{text}: key {visible(reason.key)}"


def _unobservable(reason: Reason) -> str:
    text = f"the event of {_call(reason)} does not tell the arguments that"
    text = f"{text} {_step(reason)} expects"
    return text if reason.key is None else f"{text}: key {visible(reason.key)}"


def _trials(reason: Reason) -> str:
    return f"{_numbered(reason.trials)} did not pass"


def _numbered(trials: Sequence[int]) -> str:
    noun = "trial" if len(trials) == 1 else "trials"
    return f"{noun} {', '.join(map(str, trials))}"


def _below(reason: Reason) -> str:
    if reason.value is not None and reason.limit is not None:
        value, limit = show_scores([float(reason.value), float(reason.limit)])
        return f"the gating score {value} is less than the pass score {limit}"
    if reason.count is not None:
        return (
            "no pass score is known, and"
            f" {count_of(reason.count, 'trial')} counted 0 in the gate"
        )
    return "no pass score is known, and the host's own verdict is not passed"


def _over(what: str, unit: str) -> _Words:
    def words(reason: Reason) -> str:
        return (
            f"{what} {_figure(reason.value)} {unit} is more than the"
            f" {_figure(reason.limit)} {unit} allowed"
        )

    return words


def _unreported(what: str, unit: str) -> _Words:
    def words(reason: Reason) -> str:
        return (
            f"at most {_figure(reason.limit)} {unit} of {what} is allowed, and not"
            " every trial reports it"
        )

    return words


def _scored(reason: Reason) -> str:
    if reason.limit is None:
        return "no pass score is known, and the host gave no verdict"
    return f"{_figure(reason.count)} of {_figure(reason.limit)} trials were scored"


def _extra(reason: Reason) -> str:
    return (
        f"{_figure(reason.count)} trials were scored, {_figure(reason.limit)} declared"
    )


def _unattributed(reason: Reason) -> str:
    tool = "a tool" if reason.observed is None else visible(reason.observed)
    text = f"{tool} was called outside every trial"
    if reason.count is not None and reason.count > 1:
        text += f", {reason.count} times"
    text += ", and is forbidden"
    if reason.expected is not None and reason.expected != reason.observed:
        text += f" by {visible(reason.expected)}"
    return text


def _unknown_task(reason: Reason) -> str:
    count = count_of(reason.count or 0, "trial")
    return f"the suite has no such task, and {count} of it came"


def _overflow(reason: Reason) -> str:
    return f"a trial has more than {_figure(reason.limit)} calls; the rest was left out"


def _plain(text: str) -> _Words:
    return lambda _reason: text


def _figure(number: float | None) -> str:
    return "?" if number is None else show_number(number)


_WORDS: dict[str, _Words] = {
    TrialReason.FORBIDDEN_TOOL.value: _forbidden,
    TrialReason.MISSING_STEP.value: lambda r: f"{_step(r)} was not called",
    TrialReason.UNEXPECTED_CALL.value: lambda r: f"{_call(r)} serves no step",
    TrialReason.WRONG_ORDER.value: _wrong_order,
    TrialReason.TOO_MANY_CALLS.value: _too_many,
    TrialReason.ARGS_MISMATCH.value: _arguments,
    TrialReason.ARGS_UNOBSERVABLE.value: _unobservable,
    TrialReason.FIXTURE_MISS.value: _plain("the trial failed closed on a fixture miss"),
    TrialReason.HOST_FAILED.value: _plain("the host's own verdict is not passed"),
    TaskReason.TRIAL_FAILED.value: _trials,
    TaskReason.MISSING_TRIAL.value: _scored,
    TaskReason.EXTRA_TRIAL.value: _extra,
    RunReason.BELOW_PASS_SCORE.value: _below,
    RunReason.COST_EXCEEDED.value: _over("the cost of", "USD"),
    RunReason.LATENCY_EXCEEDED.value: _over("the p95 latency of", "ms"),
    RunReason.COST_UNREPORTED.value: _unreported("cost", "USD"),
    RunReason.LATENCY_UNREPORTED.value: _unreported("p95 latency", "ms"),
    RunReason.INCOMPLETE.value: _scored,
    RunReason.RUN_FAILED.value: _plain("the run failed before its trials were done"),
    RunReason.RUN_CANCELLED.value: _plain(
        "the run was cancelled before its trials were done"
    ),
    RunReason.ABANDONED.value: _plain("nothing more came of the run"),
    RunReason.UNKNOWN_SUITE.value: _plain(
        "the suite and version it names are not loaded, or another event contradicts"
        " its eval.started"
    ),
    RunReason.UNKNOWN_TASK.value: _unknown_task,
    RunReason.SEQUENCE_CONFLICT.value: _plain(
        "its events contradict one another: two of one sequence number differ, or two"
        " eval.completed"
    ),
    RunReason.UNATTRIBUTED_FORBIDDEN_CALL.value: _unattributed,
    RunReason.NO_CALL_EVIDENCE.value: _plain(
        "tools are expected or forbidden, and no call event came at all"
    ),
    RunReason.NOTHING_EVALUATED.value: _plain("no task or no trial was evaluated"),
    RunReason.TRAJECTORY_OVERFLOW.value: _overflow,
    RunReason.CALLS_DROPPED.value: _plain(
        "events of it could not be read, or calls of it came before eval.started"
        " and were dropped"
    ),
    RunReason.MISROUTED_EVENTS.value: _plain(
        "some of its events lie on a partition that is not the run's"
    ),
}


def explain_in(record: SuiteRecord, reason: Reason) -> str:
    """A reason of a run in one sentence, by what its record tells beside it.

    Args:
        record: The run's.
        reason: One of its reasons.
    """
    is_unnamed = record.summary.suite_id == UNKNOWN_SUITE_ID
    if is_unnamed and reason.code == RunReason.UNKNOWN_SUITE:
        return "no eval.started names its suite"
    return explain(reason)


def explain_rule(record: SuiteRecord) -> str:
    """What RFC 0244 would have said, where it differs; else nothing."""
    if record.legacy_passed is record.summary.passed:
        return ""
    verdict = "passed" if record.legacy_passed else "not passed"
    return f"RFC 0244 would have {verdict} this run"


def explain_disagreements(
    found: Sequence[Disagreement], host: HostAudit | EvalSummary, ours: EvalSummary
) -> Iterator[tuple[str, str]]:
    """Where the host and pathgate differ, point for point.

    Args:
        found: What came of holding ``host`` against ``ours``.
        host: The host's figures, which tell which of the counts differs.
        ours: Our scorecard of the same run.

    Yields:
        Kind, and one sentence without it; in the order of ``found``.
    """
    sides = (
        ("taskCount", host.task_count, ours.task_count),
        ("passedCount", host.passed_count, ours.passed_count),
    )
    # In the order in which the audit finds them.
    differing = iter([name for name, theirs, our in sides if theirs != our])
    for one in found:
        figure = ""
        if one.kind == DisagreementKind.COUNTS_DIFFER and one.task_id is UNSET:
            figure = next(differing, "")
        yield one.kind, explain_disagreement(one, figure)


def explain_disagreement(found: Disagreement, figure: str = "") -> str:
    """Where the host and pathgate differ, in one sentence without its kind.

    Args:
        found: One point.
        figure: Which figure it is about, where neither its kind nor its field
            tells.
    """
    names = [found.field] if isinstance(found.field, str) else []
    names += [figure] if figure else []
    if isinstance(found.task_id, str):
        names.insert(0, f"task {found.task_id}")
    about = "".join(f"{visible(name)}: " for name in names)
    if isinstance(found.trials, tuple):
        trials = _numbered(found.trials)
        return f"{about}the host passed {trials} off the expected path"
    if found.host is UNSET and found.ours is UNSET:
        return f"{about}only one of the two has it"
    verdict = found.kind != DisagreementKind.FIELD_DIFFERS
    host, ours = _sides(found.host, found.ours, verdict=verdict)
    return f"{about}the host says {host}, the events say {ours}"


def _sides(host: object, ours: object, *, verdict: bool) -> Sequence[str]:
    if isinstance(host, float) and isinstance(ours, float):
        return show_scores([host, ours])
    return [_side(host, verdict=verdict), _side(ours, verdict=verdict)]


def _side(value: object, *, verdict: bool) -> str:
    if value is UNSET:
        return "nothing"
    if isinstance(value, bool):
        words = ("not passed", "passed") if verdict else ("false", "true")
        return words[value]
    return show_number(value) if isinstance(value, int | float) else visible(str(value))
