"""The security scanners, installed once, and what they look at.

All tests here carry the marker ``deploy``. Where a tool cannot be had the tier is
skipped, but with ``CI`` set it fails.
"""

import subprocess
from pathlib import Path

import pytest

from tests.deploy.scanners.targets import ROOT, copy_dockerfile, plant, render_chart
from tests.tiers import skip_or_fail

HERE = Path(__file__).parent
# Its tools have the helm that renders the chart.
PACKAGING = HERE.parent / "packaging"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder, so that ``-m "not deploy"`` leaves it out."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.deploy)


def _install(script: Path) -> Path:
    """The directory that a tools.sh prints; skips the test where it fails."""
    done = subprocess.run([str(script)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        name = script.relative_to(ROOT)
        reason = f"{name} could not install its tools: {done.stderr.strip()[-300:]}"
        skip_or_fail(reason)
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def scanners() -> Path:
    """Directory of checkov and trivy, installed first if need be."""
    return _install(HERE / "tools.sh")


@pytest.fixture(scope="session")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the chart, rendered for each set of values, and the Dockerfile.

    Its subfolder ``planted`` has copies with two faults, in one scan with the rest
    since most of a scan is the start of the scanner: the worker may gain privileges,
    and the image runs as root.
    """
    helm = _install(PACKAGING / "tools.sh") / "helm"
    folder = tmp_path_factory.mktemp("scanned")
    for values in sorted((PACKAGING / "values").glob("*.yaml")):
        render_chart(helm, values, folder / values.name)
    copy_dockerfile(folder / "Dockerfile")
    for name, old, new in (
        (
            "default.yaml",
            "allowPrivilegeEscalation: false",
            "allowPrivilegeEscalation: true",
        ),
        ("Dockerfile", "\nUSER 10001:10001\n", "\n"),
    ):
        plant(folder / name, folder / "planted" / name, old, new)
    return folder
