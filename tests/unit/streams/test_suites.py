"""A directory of suites: what is read, and every error at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.codec import decode_suite
from streams.core.arguments import ArgsDigester
from streams.core.compiled import CompiledSuite
from streams.suites import (
    SuiteConflictError,
    SuitesError,
    add_suite,
    compile_suites,
    load_directory,
)


def document(suite_id: str = "acme.evals.a", **more: Any) -> dict[str, Any]:
    return {
        "suiteId": suite_id,
        "version": "1.0.0",
        "modes": ["golden"],
        "tasks": [{"taskId": "t"}],
    } | more


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def problems_of(path: Path) -> tuple[str, ...]:
    with pytest.raises(SuitesError) as caught:
        load_directory(path)
    return caught.value.problems


def test_suites_are_keyed_in_the_order_of_their_files(tmp_path: Path) -> None:
    """Key, file and bytes of each suite; the order is the names'."""
    second = write(tmp_path / "b.json", document("acme.evals.a"))
    first = write(tmp_path / "a.json", document("acme.evals.z", version="2.0.0"))
    loaded = load_directory(tmp_path)
    assert list(loaded.suites) == ["acme.evals.z@2.0.0", "acme.evals.a@1.0.0"]
    assert loaded.files == {
        "acme.evals.z@2.0.0": str(first),
        "acme.evals.a@1.0.0": str(second),
    }
    assert loaded.documents["acme.evals.a@1.0.0"] == second.read_bytes()
    assert loaded.aliases == {}


def test_aliases_stand_apart(tmp_path: Path) -> None:
    """The alias map is no suite."""
    write(tmp_path / "a.json", document())
    write(tmp_path / "aliases.json", {"aliases": {"mcp__gh__search": "search"}})
    loaded = load_directory(tmp_path)
    assert loaded.aliases == {"mcp__gh__search": "search"}
    assert list(loaded.suites) == ["acme.evals.a@1.0.0"]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    """Notes, hidden files and directories; a mounted ConfigMap has all three."""
    write(tmp_path / "a.json", document())
    (tmp_path / "README.md").write_text("no suite")
    (tmp_path / ".draft.json").write_text("no suite")
    (tmp_path / "..2026_01_01").mkdir()
    (tmp_path / "old.json").mkdir()
    assert list(load_directory(tmp_path).suites) == ["acme.evals.a@1.0.0"]


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    """Three bad files give three lines, each with file and JSON path."""
    write(tmp_path / "a.json", document(tasks=[]))
    (tmp_path / "b.json").write_text("{")
    write(tmp_path / "c.json", document("acme.evals.c", threshold={}))
    found = problems_of(tmp_path)
    assert [line.split(": ")[:2] for line in found] == [
        [str(tmp_path / "a.json"), "$.tasks"],
        [str(tmp_path / "b.json"), "$"],
        [str(tmp_path / "c.json"), "$.threshold"],
    ]
    assert all("expected" in line for line in found)


def test_one_version_in_two_files_is_an_error(tmp_path: Path) -> None:
    """Which of the two would be the gate nobody could say."""
    first = write(tmp_path / "a.json", document())
    second = write(tmp_path / "b.json", document(modes=["rubric"]))
    assert problems_of(tmp_path) == (
        (
            f"{second}: $.version: expected a suiteId and version of its own,"
            f" {first} has acme.evals.a@1.0.0 too"
        ),
    )


def test_directory_without_suites_is_an_error(tmp_path: Path) -> None:
    """Every run would be of an unknown suite."""
    expected = f"{tmp_path}: expected at least one suite, a file named *.json"
    assert problems_of(tmp_path) == (expected,)


def test_missing_directory_is_an_error(tmp_path: Path) -> None:
    """It is named."""
    path = tmp_path / "none"
    expected = f"{path}: cannot be read: No such file or directory"
    assert problems_of(path) == (expected,)


def test_every_fault_of_every_file_is_named_in_its_place(tmp_path: Path) -> None:
    """By file, and in a file as it is written; the alias map comes first.

    ``steps`` stands after ``forbidden`` and ``maxCalls`` here, and ``version``
    after all tasks. The second task's id is the first's.
    """
    trajectory = {
        "match": "exact",
        "maxExtraCalls": 1,
        "forbidden": ["x*y", "b"],
        "maxCallsPerTool": {"a*": 1},
        "steps": [{"tool": "a*"}, {"tool": ["c", "b"]}],
    }
    expected = {"kind": "golden", "trajectory": trajectory}
    tasks = [{"expected": expected, "taskId": "t"}] * 2
    (tmp_path / "aliases.json").write_text('{"aliases": {"m": "m", "n": "*"}}')
    write(tmp_path / "a.json", document("acme.evals.a"))
    bad = {"suiteId": "acme.evals.a", "modes": [], "tasks": tasks, "version": "1.0.0"}
    write(tmp_path / "b.json", bad)
    (tmp_path / "c.json").write_text("{")
    write(tmp_path / "d.json", document("acme.evals.d", tasks=tasks[:1]))
    of_task = [
        "maxExtraCalls",
        "forbidden[0]",
        'maxCallsPerTool["a*"]',
        "steps[0].tool",
        "steps[1].tool[1]",
    ]
    in_tasks = [
        [f"$.tasks[{index}].expected.trajectory.{place}" for place in of_task]
        for index in range(2)
    ]
    assert [tuple(line.split(": ")[:2]) for line in problems_of(tmp_path)] == [
        *((str(tmp_path / "aliases.json"), f"$.aliases.{name}") for name in "mn"),
        *((str(tmp_path / "b.json"), path) for path in in_tasks[0]),
        *((str(tmp_path / "b.json"), path) for path in in_tasks[1]),
        (str(tmp_path / "b.json"), "$.tasks[1].taskId"),
        (str(tmp_path / "b.json"), "$.version"),
        (str(tmp_path / "c.json"), "$"),
        *((str(tmp_path / "d.json"), path) for path in in_tasks[0]),
    ]


def test_loaded_suites_compile(tmp_path: Path) -> None:
    """What was loaded has a meaning; it is compiled under its key."""
    write(tmp_path / "a.json", document())
    write(tmp_path / "b.json", document("acme.evals.b"))
    compiled = compile_suites(load_directory(tmp_path), ArgsDigester(None))
    assert [(key, suite.key) for key, suite in compiled.items()] == [
        ("acme.evals.a@1.0.0", "acme.evals.a@1.0.0"),
        ("acme.evals.b@1.0.0", "acme.evals.b@1.0.0"),
    ]


def compiled(source: str, **more: Any) -> CompiledSuite:
    data = json.dumps(document(**more)).encode()
    return CompiledSuite(decode_suite(data, source), ArgsDigester(None), {}, source)


def test_a_version_has_one_content_wherever_it_comes_from() -> None:
    """The same suite again is no news; another under its version is an error."""
    known: dict[str, CompiledSuite] = {}
    first = compiled("suites/a.json")
    assert add_suite(known, first)
    assert not add_suite(known, compiled("topic/0/7"))
    with pytest.raises(SuiteConflictError) as caught:
        add_suite(known, compiled("topic/0/8", thresholds={"passScore": 0.1}))
    assert str(caught.value) == (
        "acme.evals.a@1.0.0: topic/0/8 and suites/a.json have it with different"
        " contents; give one of them a new version"
    )
    assert add_suite(known, compiled("topic/0/9", version="1.0.1"))
    assert list(known) == ["acme.evals.a@1.0.0", "acme.evals.a@1.0.1"]
    assert known["acme.evals.a@1.0.0"] is first
