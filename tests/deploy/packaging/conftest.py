"""The validators of the deployment files, installed once, and how tests run them.

All tests here carry the marker ``deploy``. Where the validators cannot be had the
tier is skipped, but with ``CI`` set it fails.
"""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.tiers import skip_or_fail

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

Run = Callable[..., subprocess.CompletedProcess[str]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder, so that ``-m "not deploy"`` leaves it out."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.deploy)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's root."""
    return ROOT


@pytest.fixture(scope="session")
def tools() -> Path:
    """The directory of the validators, installed first if need be."""
    done = subprocess.run(
        [str(HERE / "tools.sh")], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:]
        skip_or_fail(f"tools.sh could not install the validators: {said}")
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def run(tools: Path) -> Run:
    """Runs a validator from the project's root, output as text, no check of its code."""

    def start(
        tool: str, *args: str | Path, stdin: str = "", env: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        clean = {
            # Helm and Compose read settings of the person who runs the tests.
            "HOME": str(tools.parent),
            "PATH": f"{tools}:{os.environ.get('PATH', '')}",
            **dict(pair.split("=", 1) for pair in env),
        }
        return subprocess.run(
            [str(tools / tool), *map(str, args)],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=clean,
            timeout=300,
        )

    return start
