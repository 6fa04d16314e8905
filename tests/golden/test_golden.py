"""Logs whose records were worked out by hand; see each folder's DERIVATION.md."""

import json
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streams.core.context import Context
from streams.core.policy import Policy
from streams.replay import open_log, read_lines
from streams.suites import compile_suites, load_directory
from tests.factories import DIGESTER, Outcome, replay

HERE = Path(__file__).parent
FOLDERS = sorted(path.parent.name for path in HERE.glob("*/expected.json"))


def read_cases() -> list[Any]:
    return [
        pytest.param(
            folder,
            case.get("policy", {}),
            run,
            expected,
            id="-".join([folder, run, *map(str, case.get("policy", {}).values())]),
        )
        for folder in FOLDERS
        for case in json.loads((HERE / folder / "expected.json").read_text())
        for run, expected in case["runs"].items()
    ]


def grade_folder(folder: str, choices: dict[str, Any]) -> dict[str, Outcome]:
    suites = compile_suites(load_directory(HERE / folder / "suites"), DIGESTER)
    context = Context(
        policy=msgspec.convert(choices, Policy), digester=DIGESTER, suites=suites
    )
    source = str(HERE / folder / "log.ndjson")
    with open_log(source) as stream:
        lines = [
            line.data
            for block in read_lines(stream, source)
            for line in block
            if line.data is not None
        ]
    runs, rejected = replay({source: lines}, context)
    assert not rejected
    return {
        run_id.rpartition("/")[2].rstrip("0123456789").rstrip("-"): outcome
        for run_id, outcome in runs.items()
    }


@pytest.mark.parametrize(("folder", "choices", "run", "expected"), read_cases())
def test_records_are_those_worked_out_by_hand(
    folder: str, choices: dict[str, Any], run: str, expected: dict[str, Any] | None
) -> None:
    """The suite record, and the task records that are given, are equal to them."""
    outcome = grade_folder(folder, choices).get(run)
    if expected is None:
        assert outcome is None
        return
    assert outcome is not None
    record = json.loads(outcome.raw[0])
    assert (1, outcome.record.run_id) == (
        record.pop("recordVersion"),
        record.pop("runId"),
    )
    expected = dict(expected)
    for task_id, theirs in expected.pop("tasks", {}).items():
        ours = json.loads(msgspec.json.encode(outcome.tasks[task_id]))
        kept = ("evidence", "trials", "reasons", "legacyPassed")
        assert theirs == {key: ours[key] for key in kept}
    if "passed" in expected:
        assert expected.pop("passed") is outcome.passed
    if "summary" in expected:
        assert expected == record
        return
    for path, value in expected.items():
        assert value == reduce(lambda at, key: at[key], path.split("."), record), path


@pytest.mark.parametrize("folder", FOLDERS)
def test_task_records_hold_the_entries_of_the_summary(folder: str) -> None:
    """A task record's ``task`` is the very entry of the summary."""
    for outcome in grade_folder(folder, {}).values():
        entries = outcome.entries
        for task_id, record in outcome.tasks.items():
            assert entries[task_id] == record.task
            assert outcome.record.run_id == record.run_id
            assert outcome.record.summary.suite_id == record.suite_id
            assert outcome.record.summary.suite_version == record.suite_version


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_golden_log_says_how_its_figures_came(folder: str) -> None:
    """Each folder has a derivation that speaks of each of its runs."""
    text = (HERE / folder / "DERIVATION.md").read_text()
    cases = json.loads((HERE / folder / "expected.json").read_text())
    for run in cases[0]["runs"]:
        assert f"**{run}**" in text
