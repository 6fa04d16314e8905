"""Real runs of an agent: 50 airline tasks, four trials each.

The data stands beside the project, not in it; where it is missing the tests
say so and are skipped. Figures are those the data's own notes give: published
pass^1 to pass^4 of these runs, and what the gate makes of them.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.core.context import Context
from streams.core.policy import Policy
from streams.replay import FileGrader, open_log, read_lines
from streams.suites import compile_suites, load_directory
from tests.factories import DIGESTER, Outcome, replay

DATA = Path(__file__).parents[3] / "shared" / "data" / "tau-airline"
LOG = str(DATA / "airline-gpt-4o.ndjson")

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="no ../shared/data/tau-airline beside the project"
)


def read_events() -> list[bytes]:
    with open_log(LOG) as stream:
        return [
            line.data
            for block in read_lines(stream, LOG)
            for line in block
            if line.data is not None
        ]


def grade_with(folder: str, lines: list[bytes]) -> Outcome:
    suites = compile_suites(load_directory(DATA / folder), DIGESTER)
    context = Context(policy=Policy(), digester=DIGESTER, suites=suites)
    runs, rejected = replay({LOG: lines}, context)
    assert not rejected
    (outcome,) = runs.values()
    return outcome


@pytest.fixture(scope="module")
def events() -> list[bytes]:
    return read_events()


@pytest.fixture(scope="module")
def gated(events: list[bytes]) -> Outcome:
    return grade_with("suites", events)


def test_the_old_rule_passes_the_suite_and_the_gate_does_not(gated: Outcome) -> None:
    """Aggregate 0.42 clears the bar of 0.4; the gated aggregate 0.275 does not."""
    summary = gated.record.summary
    # 84 of 200 trials were rewarded; 55 of those were on their path.
    assert (84 / 200, 55 / 200) == (
        summary.aggregate_score,
        summary.gated_aggregate_score,
    )
    assert gated.record.legacy_passed
    assert not summary.passed
    assert ["below-pass-score"] == gated.codes
    assert (50, 7) == (summary.task_count, summary.passed_count)


def test_trial_statistics_are_the_published_ones(events: list[bytes]) -> None:
    """Without expectations pass^1 to pass^4 are 0.42, 0.27333, 0.22, 0.2."""
    outcome = grade_with("suites-plain", events)
    stats = outcome.record.summary.trial_stats
    assert stats
    assert 4 == stats.count
    # Means over 50 tasks; C(4,2) = 6 makes the second a number of 300ths.
    assert (0.42, 82 / 300, 0.22, 0.2) == stats.pass_hat_k
    assert outcome.passed


def calls_of_trial(events: list[bytes], task_id: str, trial: int) -> list[Any]:
    """The payloads of one trial's calls, found without any of our code."""
    calls: list[Any] = []
    seen = 0
    for line in events:
        entry = json.loads(line)
        if entry["type"] == "agent.tool-called":
            calls.append(entry["payload"])
        elif entry["type"] == "eval.scored":
            if entry["payload"]["taskId"] == task_id:
                seen += 1
                if seen == trial:
                    return calls
            calls = []
    raise AssertionError(task_id)


def test_a_rewarded_trial_on_its_path_by_hand(
    gated: Outcome, events: list[bytes]
) -> None:
    """airline-01, trial 2: the one expected call was made, nothing forbidden was.

    Expected is ``cancel_reservation`` of Z7GOZK, in any order among others.
    """
    calls = calls_of_trial(events, "airline-01", 2)
    args = [call for call in calls if call["toolName"] == "cancel_reservation"]
    digest = hashlib.sha256(b'{"reservation_id":"Z7GOZK"}').hexdigest()
    assert [True] == [
        call.get("argsHash") == digest
        or call.get("inputs") == {"reservation_id": "Z7GOZK"}
        for call in args
    ]
    trial = gated.tasks["airline-01"].trials[1]
    assert (True, True, 1.0, 1.0, len(calls)) == (
        trial.matched,
        trial.passed,
        trial.score,
        trial.gating_score,
        trial.calls,
    )


def test_a_rewarded_trial_off_its_path_by_hand(
    gated: Outcome, events: list[bytes]
) -> None:
    """airline-15, trial 3: rewarded 1, though it changed flights, which is forbidden."""
    calls = calls_of_trial(events, "airline-15", 3)
    tools = ["get_user_details", "get_reservation_details"]
    tools.append("update_reservation_flights")
    assert tools == [call["toolName"] for call in calls]
    trial = gated.tasks["airline-15"].trials[2]
    assert (False, False, 1.0, 0.0) == (
        trial.matched,
        trial.passed,
        trial.score,
        trial.gating_score,
    )
    (reason,) = trial.reasons
    assert ("forbidden-tool", 2) == (reason.code, reason.call)
    assert tuple(tools) == trial.observed


def test_order_and_repetition_change_nothing(
    gated: Outcome, events: list[bytes]
) -> None:
    """The same log backwards and twice gives the same bytes."""
    assert gated.raw == grade_with("suites", [*reversed(events), *events]).raw


def test_no_argument_is_found_in_the_records(
    gated: Outcome, events: list[bytes]
) -> None:
    """No value of any call's arguments stands in what is published."""
    published = b"".join(gated.raw).decode()
    for line in events:
        payload = json.loads(line)["payload"]
        for value in strings_of(payload.get("inputs")):
            assert len(value) < 6 or value not in published


def strings_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from strings_of(member)
    elif isinstance(value, list):
        for member in value:
            yield from strings_of(member)


def test_every_line_of_the_log_is_read(events: list[bytes]) -> None:
    """Every line of the log is an event, and all are of one run."""
    suites = compile_suites(load_directory(DATA / "suites"), DIGESTER)
    context = Context(policy=Policy(), digester=DIGESTER, suites=suites)
    with (
        open_log(LOG) as stream,
        FileGrader(context, lambda *_: pytest.fail("rejected")) as grader,
    ):
        for lines in read_lines(stream, LOG):
            grader.add(LOG, lines)
        assert len(events) == grader.events
        assert 1 == len(list(grader.finish()))
