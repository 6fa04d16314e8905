"""Grading from files: lines in, records out, memory flat."""

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import DecodeCode, DecodeError
from schemas.events import MAX_EVENT_BYTES
from streams.replay import FileGrader, GradedRun, Line, grader, open_log, read_lines
from tests.factories import (
    RUN,
    Log,
    Rejected,
    event,
    make_context,
    make_suite,
    numbered,
    replay,
    task,
)

SUITE = make_suite(task("t", {"forbidden": ["wire"]}), passScore=0.5)
CONTEXT = make_context(SUITE)


def run_id(number: int) -> str:
    return f"acme/run-{number:016d}"


def whole(number: int = 1) -> Log:
    return Log(run_id(number)).start().call("a").score("t", 0.9).completed(0.9).end()


def ignore(*_: object) -> None:
    """Takes what is rejected and looks away."""


def test_events_are_counted_by_what_they_did() -> None:
    """Read, graded, duplicate, conflicting, left out, rejected."""
    log = whole()
    other = event("provider.usage", {}, 9, run=log.run)
    rival = Log(log.run, 1).call("b", event_id="evt-zzzzzzzzzzzzzzzz").lines[0]
    rejected: list[Rejected] = []
    with FileGrader(CONTEXT, lambda *args: rejected.append(Rejected(*args))) as graded:
        lines = [*log.lines, log.lines[1], other, rival, b"{"]
        graded.add("a.ndjson", numbered(lines))
        counts = (
            graded.events,
            graded.graded,
            graded.duplicates,
            graded.conflicts,
            graded.overflowed,
            graded.rejected,
        )
    assert (8, 7, 1, 1, 0, 1) == counts
    assert [("a.ndjson", 9)] == [(r.source, r.line) for r in rejected]


def test_calls_that_are_left_out_are_counted() -> None:
    """Eleven calls where a run may hold ten."""
    context = make_context(SUITE, max_calls_per_trial=1)
    with FileGrader(context, ignore) as graded:
        graded.add("log", numbered(Log().start().calls(*["a"] * 11).lines))
        assert 1 == graded.overflowed


def test_a_line_that_is_too_long_is_rejected_as_such() -> None:
    """The reader did not keep it; the rest is graded."""
    rejected: list[Rejected] = []
    with FileGrader(CONTEXT, lambda *args: rejected.append(Rejected(*args))) as graded:
        graded.add("log", [Line(1, None), Line(2, None), *numbered(whole().lines)])
        assert 1 == len(list(graded.finish()))
    codes = [r.error.code for r in rejected]
    assert [DecodeCode.TOO_LARGE] * 2 == codes
    assert f"at most {MAX_EVENT_BYTES} bytes" in str(rejected[0].error)


def test_the_run_of_a_line_that_is_too_long_is_closed(tmp_path: Path) -> None:
    """Its start names the run; a forbidden call cannot hide behind its size."""
    first, call, *rest = whole(1).lines
    large = call.replace(b'"payload":{', b'"payload":{"x-pad":"%s",' % (b"a" * 2**20))
    log = tmp_path / "log.ndjson"
    log.write_bytes(b"\n".join([first, large, *rest]))
    with open_log(str(log)) as stream, FileGrader(CONTEXT, ignore) as graded:
        for lines in read_lines(stream, "log"):
            graded.add("log", lines)
        (run,) = graded.finish()
    assert b"calls-dropped" in run.record


@pytest.mark.parametrize("late", [False, True])
def test_a_run_whose_event_cannot_be_read_is_closed(*, late: bool) -> None:
    """A damaged call may have been a forbidden one; other runs are not touched."""
    damaged = whole(1).lines[1].replace(b'"toolName":"a"', b'"toolName":7')
    first = whole(1).lines + whole(2).lines
    lines = [*first, damaged] if late else [damaged, *first]
    runs, rejected = replay({"log": lines}, CONTEXT)
    assert 1 == len(rejected)
    assert ["calls-dropped"] == runs[run_id(1)].codes
    assert runs[run_id(2)].passed


def test_bytes_that_name_no_run_close_none() -> None:
    """Half a line, a type nobody reads, a line that was not kept."""
    other = event("provider.usage", {}, 9, run=run_id(1)).replace(b'9,"s', b'"x","s')
    with FileGrader(CONTEXT, ignore) as graded:
        lines = [*whole(1).lines, whole(1).lines[1][:40], other]
        graded.add("log", [*numbered(lines), Line(99, None)])
        assert 3 == graded.rejected
        (run,) = graded.finish()
    assert json.loads(run.record)["summary"]["passed"]


def test_records_come_by_run_id() -> None:
    """Whatever order the runs had."""
    lines = [line for number in (3, 1, 2) for line in whole(number).lines]
    runs, _ = replay({"log": lines}, CONTEXT)
    assert [run_id(1), run_id(2), run_id(3)] == list(runs)


def test_task_records_are_made_on_request() -> None:
    """Without them a run has its suite record alone."""
    for tasks in (True, False):
        with FileGrader(CONTEXT, ignore, tasks=tasks) as graded:
            graded.add("log", numbered(whole().lines))
            (run,) = graded.finish()
        assert tasks is bool(run.tasks)
        assert json.loads(run.record)["runId"] == run.run_id


def test_ordinary_runs_have_no_record() -> None:
    """Neither ended ones nor open ones."""
    lines = Log().calls("a").end().lines + Log("acme/other").calls("a").lines
    runs, rejected = replay({"log": lines}, CONTEXT)
    assert {} == runs
    assert [] == rejected


def test_an_ordinary_run_that_turns_out_an_eval_is_graded() -> None:
    """Its calls, retired with it, are found again."""
    log = Log().call("wire").start(sequence=5).score("t").end()
    late = [log.lines[0], log.lines[3], *log.lines[1:3]]
    runs, _ = replay({"log": late}, CONTEXT)
    assert "unattributed-forbidden-call" in runs[RUN].codes


def base(number: int, score: float, baseline: str | None = None) -> list[bytes]:
    return Log(run_id(number)).start(baseline=baseline).score("t", score).end().lines


@pytest.mark.parametrize("baseline_first", [True, False])
def test_a_baseline_is_found_wherever_it_stands(*, baseline_first: bool) -> None:
    """0.9 against 0.7, before or after it in the log: 0.2."""
    parts = [base(1, 0.7), base(2, 0.9, run_id(1))]
    if not baseline_first:
        parts.reverse()
    runs, _ = replay({"log": parts[0] + parts[1]}, CONTEXT)
    regression = runs[run_id(2)].record.summary.regression
    assert regression
    assert (run_id(1), 0.2) == (regression.baseline_run_id, regression.score_delta)
    assert not runs[run_id(1)].record.summary.regression


def test_a_baseline_that_is_no_eval_or_nowhere_gives_no_difference() -> None:
    """Only a run with a record can be compared with."""
    ordinary = Log(run_id(1)).call("a").end().lines
    lines = ordinary + base(2, 0.9, run_id(1)) + base(3, 0.9, "acme/nowhere")
    runs, _ = replay({"log": lines}, CONTEXT)
    for number in (2, 3):
        assert not runs[run_id(number)].record.summary.regression


class Followed:
    """A grader that follows a log, and what it emitted."""

    def __init__(self) -> None:
        self.emitted: list[GradedRun] = []
        self.graded = FileGrader(CONTEXT, ignore, self.emitted.append)

    def add(self, *lines: bytes) -> list[bool]:
        """Verdicts that adding a block emitted."""
        before = len(self.emitted)
        self.graded.add("log", numbered(lines))
        return [
            json.loads(run.record)["summary"]["passed"] for run in self.emitted[before:]
        ]


def test_following_emits_a_run_when_it_ends_and_when_it_changes() -> None:
    """Nothing before, nothing twice, and a late forbidden call at once."""
    log = whole()
    follow = Followed()
    with follow.graded:
        assert [] == follow.add(*log.lines[:3])
        assert [True] == follow.add(log.lines[3])
        assert [] == follow.add(log.lines[4])
        assert [] == follow.add(*log.lines)
        late = Log(log.run, 9).call("wire").lines[0]
        assert [False] == follow.add(late)
        assert 2 == len(follow.emitted)
        (final,) = follow.graded.finish()
        assert final == follow.emitted[-1]


def test_following_emits_a_run_that_lost_an_event() -> None:
    """After its end: revised at once."""
    follow = Followed()
    with follow.graded:
        assert [True] == follow.add(*whole().lines)
        damaged = whole().lines[1].replace(b'"toolName":"a"', b'"toolName":7')
        assert [False] == follow.add(damaged)


def test_the_evidence_of_a_run_is_kept() -> None:
    """By sequence, whatever order it came in; none of a run that is not known."""
    with FileGrader(CONTEXT, ignore) as graded:
        graded.add("log", numbered(whole().lines[::-1]))
        list(graded.finish())
        facts = graded.evidence_of(run_id(1))
        assert [0, 1, 2, 3, 4] == [fact.sequence for fact in facts]
        assert [] == graded.evidence_of("acme/nobody")


def test_following_emits_what_never_ended_at_the_end() -> None:
    """As abandoned."""
    follow = Followed()
    with follow.graded:
        follow.add(*Log().start().score("t").lines)
        assert [] == follow.emitted
        list(follow.graded.finish())
    assert ["complete"] == [json.loads(r.record)["outcome"] for r in follow.emitted]


def test_following_emits_a_changed_task_record() -> None:
    """Also where the suite record is the same."""
    suite = make_suite(task("t"), count=2, rule="any", passScore=0)
    emitted: list[GradedRun] = []
    log = Log().start().score("t", 0.5).score("t", 0.5).end()
    with FileGrader(make_context(suite), ignore, emitted.append) as graded:
        graded.add("log", numbered(log.lines))
        graded.add("log", numbered(Log(first=7).call("x").lines))
    # One call more, of no trial: the suite record counts it, no task does.
    assert 2 == len(emitted)
    assert emitted[0].tasks == emitted[1].tasks


def test_ended_runs_leave_memory_while_reading() -> None:
    """Also where one call brings them back: at most a thousand stay."""
    with FileGrader(CONTEXT, ignore) as graded:
        for number in range(1500):
            graded.add("log", numbered(whole(number).lines))
            assert len(graded._runs) <= grader.COOLING_RUNS
        late = [Log(run_id(n), 9).call("wire").lines[0] for n in range(1500)]
        graded.add("log", numbered(late))
        assert len(graded._runs) <= grader.COOLING_RUNS
        assert len(graded._cooling) <= grader.COOLING_RUNS
        records = list(graded.finish())
    assert 1500 == len(records)
    assert not any(json.loads(r.record)["summary"]["passed"] for r in records)


def test_ended_runs_leave_memory_within_one_block() -> None:
    """A whole log may be one block."""
    lines = [line for number in range(1500) for line in whole(number).lines]
    most = []

    def seen() -> Iterator[Line]:
        for entry in numbered(lines):
            most.append(len(graded._runs))
            yield entry

    with FileGrader(CONTEXT, ignore) as graded:
        graded.add("log", seen())
        assert max(most) <= 2 * grader.COOLING_RUNS + 1
        assert 1500 == len(list(graded.finish()))


def test_runs_that_never_end_are_put_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are graded as abandoned, or go on where they left off."""
    monkeypatch.setattr(grader, "MAX_OPEN_RUNS", 10)
    with FileGrader(CONTEXT, ignore) as graded:
        for number in range(1000):
            graded.add("log", numbered(whole(number).lines[:3]))
            assert len(graded._runs) <= 10
        for number in range(0, 1000, 2):
            graded.add("log", numbered(whole(number).lines[3:]))
        runs = list(graded.finish())
    assert 1000 == len(runs)
    calls = [json.loads(run.record)["evidence"]["calls"] for run in runs]
    assert [1] * 1000 == calls
    hosts = [b'"host"' in run.record for run in runs]
    assert [True, False] * 500 == hosts


def test_an_ended_run_may_be_put_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is graded in the end like any other."""
    monkeypatch.setattr(grader, "MAX_OPEN_RUNS", 2)
    monkeypatch.setattr(grader, "COOLING_RUNS", 1)
    lines = [*whole(1).lines, *whole(2).lines[:2], *whole(3).lines[:2]]
    runs, _ = replay({"log": lines + whole(4).lines}, CONTEXT)
    outcomes = [runs[run_id(number)].record.outcome for number in (1, 2, 3, 4)]
    assert ["complete", "abandoned", "abandoned", "complete"] == outcomes


def test_memory_does_not_grow_with_finished_runs() -> None:
    """As many runs again, past what is kept a while, need next to no more."""
    with FileGrader(CONTEXT, ignore, tasks=False) as graded:

        def feed(first: int, last: int) -> int:
            for number in range(first, last):
                graded.add("log", numbered(whole(number).lines))
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = feed(0, 1100)
            after = feed(1100, 2200)
        finally:
            tracemalloc.stop()
    assert after - before < 200_000


def test_what_was_put_on_disk_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When done, and when something failed on the way."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with FileGrader(CONTEXT, ignore):
        assert 1 == len(list(tmp_path.iterdir()))
    assert [] == list(tmp_path.iterdir())

    def refuse(_source: str, _line: int, error: DecodeError) -> None:
        raise error

    with pytest.raises(DecodeError), FileGrader(CONTEXT, refuse) as graded:
        graded.add("log", [Line(1, b"{")])
    assert [] == list(tmp_path.iterdir())
