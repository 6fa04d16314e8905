"""Makes the files that the scanners look at, as a cluster or a builder sees them."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def render_chart(helm: Path, values: Path, target: Path) -> None:
    """Writes the chart's manifests for a file of values to ``target``."""
    done = subprocess.run(
        [str(helm), "template", "eval", "deploy/helm/pathgate", "-f", str(values)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        # Helm reads settings of the person who runs the tests from HELM_* and HOME.
        env={"HOME": str(target.parent), "PATH": os.environ.get("PATH", "")},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    target.write_text(done.stdout, encoding="utf-8")


def copy_dockerfile(target: Path) -> None:
    """Writes deploy/Dockerfile to ``target``, the base image put in its places.

    Both scanners read ``FROM ${BASE_IMAGE}`` as an image without a tag, so that they
    would say nothing of the tag that stands in the default.
    """
    text = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    [base] = re.findall(r"^ARG BASE_IMAGE=(\S+)$", text, re.MULTILINE)
    target.write_text(text.replace("FROM ${BASE_IMAGE}", f"FROM {base}"), "utf-8")


def plant(source: Path, target: Path, old: str, new: str) -> None:
    """Copies ``source`` with every ``old`` replaced, of which there must be one."""
    text = source.read_text(encoding="utf-8")
    assert old in text, f"there is nothing to replace: {old!r}"
    target.parent.mkdir(exist_ok=True)
    target.write_text(text.replace(old, new), encoding="utf-8")


def split_planted(
    found: dict[str, set[str]],
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Takes check -> files apart: those of what we ship, and those of the copies."""
    shipped = {
        check: {name for name in names if not name.startswith("planted/")}
        for check, names in found.items()
    }
    planted = {check: names - shipped[check] for check, names in found.items()}
    return (
        {check: names for check, names in shipped.items() if names},
        {check: names for check, names in planted.items() if names},
    )
