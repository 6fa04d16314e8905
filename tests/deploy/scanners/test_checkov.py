"""Checkov finds nothing in the chart and the image, but what stands here with a reason.

The exceptions are not passed to checkov: they are held against its report, so that
one which is no longer needed fails too. Checkov joins all files into one graph, in which
a policy of one case counts for the pods of all: it cannot say here that the default
values leave the NetworkPolicy out, which is the installer's choice.
"""

import json
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from tests.deploy.scanners.targets import split_planted

# Checks whose findings stay as they are, each with the reason above it.
EXCEPTIONS = {
    # The manifests name no namespace: whoever installs a release chooses it, with
    # helm's --namespace. Checkov takes none for "default".
    "CKV_K8S_21",
    # A CPU limit throttles a worker that has work while the node has spare time, and
    # what it reads then lags. The request reserves its share; memory has a limit.
    "CKV_K8S_11",
    # The digest is known once the image was pushed to a registry, and is then set in
    # image.digest; the default is the tag of the chart's own version.
    "CKV_K8S_43",
    # A tag of a version does not move, so an image that is there need not be asked
    # for again; a restart must not depend on the registry.
    "CKV_K8S_15",
}
# What an image with a digest must not have; everything.yaml sets one.
OF_TAGS = {"CKV_K8S_43", "CKV_K8S_15"}


def scan(scanners: Path, folder: Path, home: Path) -> dict[str, set[str]]:
    """Check -> names of the files in ``folder`` that fail it.

    Nothing is fetched; ``home`` is where checkov may leave files. Asserts that both
    kinds of files were read, and each to its end.
    """
    done = subprocess.run(
        [
            str(scanners / "checkov"),
            *("--directory", str(folder), "--framework", "kubernetes", "dockerfile"),
            *("--skip-download", "--quiet", "--compact", "--output", "json"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"HOME": str(home), "PATH": str(scanners)},
        timeout=120,
    )
    assert done.stdout.startswith("["), done.stdout + done.stderr
    reports = json.loads(done.stdout)
    assert {report["check_type"] for report in reports} == {"kubernetes", "dockerfile"}
    found = defaultdict(set)
    for report in reports:
        assert report["summary"]["parsing_errors"] == 0, report["summary"]
        assert report["summary"]["resource_count"] > 0, report["summary"]
        for failed in report["results"]["failed_checks"]:
            found[failed["check_id"]].add(failed["file_path"].removeprefix("/"))
    return dict(found)


@pytest.fixture(scope="module")
def found(
    scanners: Path, scanned: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, set[str]]:
    """What checkov finds in what we ship and in the planted copies."""
    return scan(scanners, scanned, tmp_path_factory.mktemp("home"))


def test_nothing_is_found_but_the_exceptions(found: dict[str, set[str]]) -> None:
    """No check fails without a reason, and no reason stands without its check."""
    shipped, _ = split_planted(found)
    assert shipped.keys() == EXCEPTIONS


def test_image_with_a_digest_needs_no_exception(found: dict[str, set[str]]) -> None:
    """What is excused for a tag is put right by the setting for the digest."""
    assert [check for check in OF_TAGS if "everything.yaml" in found[check]] == []


def test_planted_faults_are_found(found: dict[str, set[str]]) -> None:
    """The scanner is alive: CKV_K8S_20 is privilege escalation, CKV_DOCKER_3 no user."""
    _, planted = split_planted(found)
    assert planted.keys() - EXCEPTIONS == {"CKV_K8S_20", "CKV_DOCKER_3"}
    assert planted["CKV_K8S_20"] == {"planted/default.yaml"}
    assert planted["CKV_DOCKER_3"] == {"planted/Dockerfile"}
