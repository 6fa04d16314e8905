"""The locks: every dependency, one version each, its files known by hash."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

_ENTRY = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^ ;]+)(?P<rest>.*)$")


def read_lock(path: Path) -> dict[str, tuple[Version, list[str]]]:
    """Project -> its version and hashes."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    found: dict[str, tuple[Version, list[str]]] = {}
    for line in text.splitlines():
        match = _ENTRY.match(line)
        if match:
            hashes = re.findall(r"--hash=(\S+)", match["rest"])
            version = Version(match["version"])
            found[canonicalize_name(match["name"])] = (version, hashes)
    return found


@pytest.fixture(
    params=[
        ("requirements.lock", ("project", "dependencies")),
        ("build-requirements.lock", ("build-system", "requires")),
    ],
    ids=["runtime", "build"],
)
def lock(request: pytest.FixtureRequest, root: Path) -> tuple[Path, list[Requirement]]:
    """A lock file and the requirements that it is made from."""
    name, (table, key) = request.param
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [Requirement(text) for text in project[table][key]]
    return root / "deploy" / name, wanted


def test_lock_meets_each_requirement(lock: tuple[Path, list[Requirement]]) -> None:
    """Every dependency of pyproject.toml is locked to a version that it allows."""
    path, wanted = lock
    held = read_lock(path)
    missed = [
        str(need)
        for need in wanted
        if canonicalize_name(need.name) not in held
        or held[canonicalize_name(need.name)][0] not in need.specifier
    ]
    assert missed == []


def needed(
    roots: list[Requirement], environment: dict[str, str]
) -> set[tuple[str, str]]:
    """(project, who needs it) of everything that the requirements lead to.

    Read from what is installed here, which the tests run with.
    """
    found: set[tuple[str, str]] = set()
    open_ends = [(need, "pyproject.toml") for need in roots]
    seen: set[tuple[str, str]] = set()
    while open_ends:
        need, who = open_ends.pop()
        name = canonicalize_name(need.name)
        found.add((name, who))
        for extra in need.extras | {""}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for text in metadata.requires(name) or []:
                child = Requirement(text)
                if child.marker is None or child.marker.evaluate(
                    environment | {"extra": extra}
                ):
                    open_ends.append((child, name))
    return found


def test_lock_holds_what_the_dependencies_need(root: Path) -> None:
    """Extras and dependencies of dependencies are locked too."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    roots = [Requirement(text) for text in project["project"]["dependencies"]]
    held = read_lock(root / "deploy" / "requirements.lock")
    reached = needed(roots, {"sys_platform": "linux"})
    assert ("rocksdict", "faust-streaming") in reached
    assert {pair for pair in reached if pair[0] not in held} == set()


def test_lock_has_a_hash_for_each_file(lock: tuple[Path, list[Requirement]]) -> None:
    """Every entry is pinned and hashed, so an index cannot substitute a file."""
    path, _ = lock
    held = read_lock(path)
    assert held
    assert [name for name, (_, hashes) in held.items() if not hashes] == []
    assert all(h.startswith("sha256:") for _, hashes in held.values() for h in hashes)


def test_lock_names_no_index(lock: tuple[Path, list[Requirement]]) -> None:
    """Where packages come from is the builder's choice."""
    path, _ = lock
    text = path.read_text(encoding="utf-8")
    assert re.search(r"https?://|--index|--find-links|--trusted", text) is None


def test_lock_reader_sees_what_is_amiss(tmp_path: Path) -> None:
    """The reader that the tests above rely on finds versions and missing hashes."""
    path = tmp_path / "a.lock"
    path.write_text("one==1.0 \\\n    --hash=sha256:ab\n    # via x\ntwo==2\n")
    assert read_lock(path) == {
        "one": (Version("1.0"), ["sha256:ab"]),
        "two": (Version("2"), []),
    }
