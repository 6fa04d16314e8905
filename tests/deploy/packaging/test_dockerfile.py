"""The Dockerfile: what it pins, who it runs as, and what may enter the image."""

import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from streams.settings import FIELDS

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def text(root: Path) -> str:
    return (root / "deploy" / "Dockerfile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def instructions(text: str) -> list[str]:
    """Each instruction on one line, comments left out."""
    bare = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", bare)
    return [line for line in joined.splitlines() if line.strip()]


def hadolint(run: Run, text: str) -> subprocess.CompletedProcess[str]:
    return run(
        "hadolint", "--no-color", "--failure-threshold", "style", "-", stdin=text
    )


def test_hadolint_finds_nothing(run: Run, text: str) -> None:
    """The linter has nothing to say, down to matters of style."""
    done = hadolint(run, text)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("planted", "rule"),
    [
        ("ARG BASE_IMAGE=x\nFROM python:latest\n", "DL3007"),  # floating tag
        ("FROM python:3.11\nENTRYPOINT pathgate\n", "DL3025"),  # shell form
        ('FROM python:3.11\nUSER root\nRUN true\nCMD ["x"]\n', "DL3002"),  # root
        ("FROM python:3.11\nRUN apt-get update && apt-get install -y x\n", "DL3008"),
    ],
)
def test_hadolint_rejects(run: Run, planted: str, rule: str) -> None:
    """The linter is alive: it finds what this file must not have."""
    done = hadolint(run, planted)
    assert done.returncode == 1
    assert rule in done.stdout


def test_runs_as_a_number(instructions: list[str]) -> None:
    """The last user is 10001 by number, which runAsNonRoot can verify."""
    users = [line for line in instructions if line.startswith("USER ")]
    assert users == ["USER 10001:10001"]


def test_starts_the_worker_as_the_first_process(instructions: list[str]) -> None:
    """Entry point and command are in exec form, so signals reach the worker."""
    assert 'ENTRYPOINT ["pathgate"]' in instructions
    assert 'CMD ["worker"]' in instructions
    assert "STOPSIGNAL SIGTERM" in instructions


def test_health_check_asks_the_settings_port(instructions: list[str]) -> None:
    """The check is in exec form, needs no other program, and asks /livez."""
    [check] = [line for line in instructions if line.startswith("HEALTHCHECK ")]
    port = FIELDS["web_port"].default
    assert '  CMD ["python3", "-c"' in check or ' CMD ["python3", "-c"' in check
    assert "/livez" in check
    assert f"or {port})" in check
    assert f"EXPOSE {port}" in instructions
    assert "curl" not in check
    assert "wget" not in check


def test_version_is_the_projects(root: Path, instructions: list[str]) -> None:
    """The label's default is the version of pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"ARG VERSION={project['project']['version']}" in instructions


def test_labels_are_the_oci_ones(text: str) -> None:
    """Each annotation that the image specification asks for is set."""
    found = set(re.findall(r"org\.opencontainers\.image\.([a-z.]+)=", text))
    assert found == {
        "base.digest",
        "base.name",
        "created",
        "description",
        "documentation",
        "licenses",
        "revision",
        "source",
        "title",
        "version",
    }


def test_no_secret_and_no_volume(instructions: list[str]) -> None:
    """Nothing secret is a build argument or variable, and no volume is implied."""
    words = " ".join(i for i in instructions if i.startswith(("ARG ", "ENV ")))
    assert not re.search(r"PASSWORD|SECRET|TOKEN", words)
    assert not [line for line in instructions if line.startswith(("VOLUME", "ADD"))]


def test_variables_are_settings(instructions: list[str]) -> None:
    """Every PATHGATE_ variable that the image sets is one that pathgate reads."""
    [env] = [i for i in instructions if i.startswith("ENV PATH=")]
    names = re.findall(r"PATHGATE_(\w+)=", env)
    assert names
    assert {name.lower() for name in names} <= FIELDS.keys()


def test_context_is_an_allow_list(root: Path) -> None:
    """Everything is ignored but what is copied, so nothing else can enter a layer."""
    lines = [
        line
        for line in (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert lines[0] == "*"
    allowed = {line[1:] for line in lines if line.startswith("!")}
    text = (root / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    copies = re.findall(r"^COPY (?!--from)(.+)$", text, flags=re.MULTILINE)
    sources = {word for copy in copies for word in copy.split()[:-1]}
    assert allowed == sources
