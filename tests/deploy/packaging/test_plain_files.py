"""Shell scripts and YAML files of the deployment, by their linters."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

# Long lines are commands and texts that lose by being broken; a document needs no
# marker, and flow lists of one word are easier to read on the line.
YAML_RULES = (
    "{extends: default, rules: {line-length: disable, document-start: disable,"
    " comments: {min-spaces-from-content: 1}, braces: {max-spaces-inside: 1},"
    " truthy: {check-keys: false}, comments-indentation: disable}}"
)


def tracked(root: Path, *patterns: str) -> list[str]:
    """The project's deployment files that match, without a chart's templates."""
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return [p for p in done.stdout.splitlines() if "/templates/" not in p]


def test_shell_scripts_are_clean(run: Run, root: Path) -> None:
    """The linter finds nothing in any script, with its optional checks of quoting."""
    scripts = tracked(root, "deploy/*.sh", "tests/deploy/*.sh")
    assert len(scripts) >= 4
    done = run("shellcheck", "--enable=quote-safe-variables", *scripts)
    assert (done.returncode, done.stdout) == (0, "")


def test_shellcheck_rejects(run: Run, tmp_path: Path) -> None:
    """The linter is alive: an unquoted variable is found."""
    path = tmp_path / "a.sh"
    path.write_text("#!/bin/bash\nrm -rf $1/x\n")
    assert "SC2086" in run("shellcheck", path).stdout


def test_scripts_can_be_run(root: Path) -> None:
    """Each script is executable and stops at the first error."""
    for name in tracked(root, "deploy/*.sh", "tests/deploy/*.sh"):
        path = root / name
        assert path.stat().st_mode & 0o111 == 0o111, name
        assert "\nset -euo pipefail\n" in path.read_text(encoding="utf-8"), name


def test_yaml_files_are_clean(run: Run, root: Path) -> None:
    """The linter has nothing to say of any YAML file that is not a template."""
    files = tracked(
        root, "deploy/*.yaml", "deploy/*.yml", "tests/deploy/packaging/*.yaml"
    )
    assert len(files) >= 8
    done = run("yamllint", "--strict", "-f", "parsable", "-d", YAML_RULES, *files)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("text", "rule"),
    [("a: 1\na: 2\n", "key-duplicates"), ("a:\n - b\n  c: d\n", "syntax")],
)
def test_yamllint_rejects(run: Run, tmp_path: Path, text: str, rule: str) -> None:
    """The linter is alive: a key given twice and broken syntax are found."""
    path = tmp_path / "a.yaml"
    path.write_text(text)
    done = run("yamllint", "--strict", "-f", "parsable", "-d", YAML_RULES, path)
    assert done.returncode != 0
    assert rule in done.stdout
