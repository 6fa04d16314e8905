"""Trivy finds nothing in the chart and the image, but what stands here with a reason.

Only the checks that are built into the binary run; there is no database of
vulnerabilities. The exceptions are not passed to trivy: they are held against its
report, so that one which is no longer needed fails too.
"""

import json
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from tests.deploy.scanners.targets import split_planted

# Checks whose findings stay as they are, each with the reason above it.
EXCEPTIONS = {
    # As of checkov's CKV_K8S_11: a limit would throttle, the request reserves.
    "KSV011",
    # Reads "sasl_password_file" and its like as secrets. They are paths of files,
    # which are mounted from Secrets; the chart's own tests see to that.
    "AVD-KSV-01010",
}


def scan(scanners: Path, folder: Path, cache: Path) -> dict[str, set[str]]:
    """Check -> names of the files in ``folder`` that fail it.

    Nothing is fetched; ``cache`` is where trivy may leave files. Asserts that every
    file was read.
    """
    done = subprocess.run(
        [
            str(scanners / "trivy"),
            *("config", "--skip-check-update", "--cache-dir", str(cache)),
            *("--quiet", "--format", "json", str(folder)),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"HOME": str(cache), "PATH": str(scanners)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["Results"]
    read = {result["Target"] for result in results}
    assert read == {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    }
    found = defaultdict(set)
    for result in results:
        for failed in result.get("Misconfigurations", ()):
            found[failed["ID"]].add(result["Target"])
    return dict(found)


@pytest.fixture(scope="module")
def found(
    scanners: Path, scanned: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, set[str]]:
    """What trivy finds in what we ship and in the planted copies."""
    return scan(scanners, scanned, tmp_path_factory.mktemp("cache"))


def test_nothing_is_found_but_the_exceptions(found: dict[str, set[str]]) -> None:
    """No check fails without a reason, and no reason stands without its check."""
    shipped, _ = split_planted(found)
    assert shipped.keys() == EXCEPTIONS


def test_planted_faults_are_found(found: dict[str, set[str]]) -> None:
    """The scanner is alive: KSV001 is privilege escalation, DS002 the root user."""
    _, planted = split_planted(found)
    assert planted.keys() - EXCEPTIONS == {"KSV001", "DS002"}
    assert planted["KSV001"] == {"planted/default.yaml"}
    assert planted["DS002"] == {"planted/Dockerfile"}
