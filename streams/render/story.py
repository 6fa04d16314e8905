"""What went wrong with a run or a task, a line a fact, for any format."""

from schemas.reasons import Reason
from schemas.records import SuiteRecord, TaskRecord, TrialEntry
from streams.render.trajectory import expected_line, observed_line
from streams.render.view import failed_trials
from streams.render.words import explain, explain_in, explain_rule

PASSED_BEFORE = "passed by RFC 0244"


def named(reason: Reason) -> str:
    """A reason with its code."""
    return f"{reason.code}: {explain(reason)}"


def run_reasons(record: SuiteRecord) -> list[str]:
    """Why a run's gate is closed."""
    return [f"{each.code}: {explain_in(record, each)}" for each in record.reasons]


def run_story(record: SuiteRecord) -> list[str]:
    """Why a run's gate is closed, and what RFC 0244 would have said."""
    rule = explain_rule(record)
    lines = run_reasons(record)
    return [*lines, rule] if rule else lines


def task_story(record: TaskRecord) -> list[str]:
    """Why a task did not pass, with each trial that did not."""
    lines = [named(reason) for reason in record.reasons]
    if record.legacy_passed:
        lines.append(PASSED_BEFORE)
    for trial in failed_trials(record):
        about = f"trial {trial.trial}: "
        lines += [about + line for line in trial_story(trial)]
    return lines


def trial_story(trial: TrialEntry) -> list[str]:
    """Why a trial did not pass; off its path also expected and observed."""
    lines = [named(reason) for reason in trial.reasons]
    if trial.matched is False:
        lines.append(f"expected {expected_line(trial)}")
        lines.append(f"observed {observed_line(trial)}")
    return lines
