"""What renderers are given: one run's records, and the totals of all."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from schemas.codec import decode_suite_record, decode_task_record
from schemas.records import SuiteRecord, TaskRecord, TrialEntry
from schemas.summary import TaskEntry
from streams.render.figures import count_of

PASSED = "PASSED"
NOT_PASSED = "NOT PASSED"


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One graded run.

    Args:
        suite: Its suite record.
        tasks: Its task records, in suite order; may be empty.
        lines: Bytes of the suite record, then of each task record, as
            published.
    """

    suite: SuiteRecord
    tasks: tuple[TaskRecord, ...]
    lines: tuple[bytes, ...]

    @property
    def passed(self) -> bool:
        """Whether the gate is open."""
        return self.suite.summary.passed

    @property
    def suite_key(self) -> str:
        """``suiteId@version``."""
        summary = self.suite.summary
        return f"{summary.suite_id}@{summary.suite_version}"

    @property
    def off_path_count(self) -> int:
        """Trials that took another path than was expected."""
        return sum(
            trial.matched is False for task in self.tasks for trial in task.trials
        )

    def record_of(self, entry: TaskEntry) -> TaskRecord | None:
        """The task record of an entry of the scorecard, if it is there."""
        return next((t for t in self.tasks if t.task.task_id == entry.task_id), None)


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of all runs.

    Args:
        passed: Runs that passed.
        not_passed: Runs that did not.
        changed: Runs that RFC 0244 would have passed, of ``not_passed``.
        undecided: Why an all-passed answer would be no answer; empty else.
    """

    passed: int
    not_passed: int
    changed: int
    undecided: str = ""

    def __str__(self) -> str:
        """One line."""
        graded = self.passed + self.not_passed
        text = (
            f"{count_of(graded, 'run')} graded: {self.passed} passed,"
            f" {self.not_passed} not passed"
        )
        if self.changed:
            text += f" (RFC 0244 would have passed {self.changed} of them)"
        return f"{text}; undecided: {self.undecided}" if self.undecided else text


def view_of(record: bytes, tasks: Sequence[bytes]) -> RunView:
    """A run from the bytes of its records.

    Args:
        record: The suite record as published.
        tasks: The task records as published, in suite order.

    Raises:
        DecodeError: Bytes that are no such record.
    """
    return RunView(
        suite=decode_suite_record(record),
        tasks=tuple(decode_task_record(task) for task in tasks),
        lines=(record, *tasks),
    )


def gated_of(entry: TaskEntry) -> float:
    """The gating score of a task: its score where the gate changes nothing."""
    return entry.score if entry.gated_score is UNSET else float(entry.gated_score)


def gated_aggregate_of(record: SuiteRecord) -> float:
    """The gating aggregate of a run, likewise."""
    gated = record.summary.gated_aggregate_score
    return record.summary.aggregate_score if gated is UNSET else float(gated)


def verdict_word(*, passed: bool) -> str:
    """The verdict in words, so that colour is never its only sign."""
    return PASSED if passed else NOT_PASSED


def failed_trials(task: TaskRecord) -> list[TrialEntry]:
    """The trials that did not pass."""
    return [trial for trial in task.trials if not trial.passed]
