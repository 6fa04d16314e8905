"""The validators of the AsyncAPI document, installed once, and how tests run them.

All tests here carry the marker ``deploy``. Where the validators cannot be had the
tier is skipped, but with ``CI`` set it fails.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tiers import skip_or_fail

HERE = Path(__file__).parent

Check = Callable[[Path], subprocess.CompletedProcess[str]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder, so that ``-m "not deploy"`` leaves it out."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.deploy)


@pytest.fixture(scope="session")
def node_folder() -> Path:
    """The directory with the validators' ``node_modules``, installed if need be."""
    done = subprocess.run(
        [str(HERE / "tools.sh")], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:]
        reason = f"tools.sh could not install the validators: {said}"
        skip_or_fail(reason)
    return Path(done.stdout.strip())


def _run(node_folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a command that finds its modules in ``node_folder``."""
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=node_folder,
        env={**os.environ, "NODE_PATH": str(node_folder / "node_modules")},
        timeout=120,
    )


@pytest.fixture(scope="session")
def parse(node_folder: Path) -> Check:
    """Runs AsyncAPI's parser on a document; 1 if it has an error or a warning."""
    return lambda path: _run(node_folder, "node", HERE / "parse.js", path)


@pytest.fixture(scope="session")
def lint(node_folder: Path) -> Check:
    """Runs Spectral on a document; 1 if it has an error or a warning."""
    spectral = node_folder / "node_modules/.bin/spectral"
    return lambda path: _run(
        node_folder,
        *(spectral, "lint", "--fail-severity", "warn"),
        *("--display-only-failures", "--format", "text"),
        *("--ruleset", HERE / "spectral.yaml", path),
    )
