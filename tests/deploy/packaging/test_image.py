"""The image, built from the Dockerfile and run: slow, so only with a switch.

Needs root, buildah and debootstrap (Debian: ``apt-get install buildah
debootstrap``), no Docker and no image registry: the base image is a minimal Debian
with its Python, made here once and kept in the tools' cache. Buildah's chroot
isolation runs the container's user, file system and environment; it has no network
or process namespace of its own, and the root is read-only by remounting it.

    PATHGATE_TEST_IMAGE=1 python -m pytest -m deploy -k image tests/deploy/packaging
"""

import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import skip_or_fail

pytestmark = pytest.mark.timeout(900)

BASE = "localhost/pathgate-base:local"
IMAGE = "localhost/pathgate:test"
CACHE = Path(
    os.environ.get("PATHGATE_TOOLS_CACHE", Path.home() / ".cache/pathgate/tools")
)


def call(*command: str | Path, timeout_s: float = 600) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-4000:]
        pytest.fail(f"{command} exited with {done.returncode}:\n{said}", pytrace=False)
    return done.stdout.strip()


class Buildah:
    """Buildah with a store of its own, so that nothing of the machine's is touched."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.policy = home / "policy.json"
        self.policy.write_text('{"default":[{"type":"insecureAcceptAnything"}]}')
        # vfs copies every layer whole; it is for machines without overlay mounts.
        self.driver = "overlay"
        trial = subprocess.run(
            self.command("info"), capture_output=True, check=False, timeout=60
        )
        if trial.returncode != 0:
            self.driver = "vfs"

    def command(self, verb: str, *args: str | Path) -> list[str]:
        """The command line of a verb; those that pull need a signature policy."""
        words = ["buildah", "--storage-driver", self.driver]
        words += ["--root", str(self.home / "store"), "--runroot"]
        words += [str(self.home / "run"), verb]
        if verb in {"bud", "from", "commit"}:
            words += ["--signature-policy", str(self.policy)]
        return [*words, *map(str, args)]

    def __call__(self, verb: str, *args: str | Path) -> str:
        """Runs a verb to its end and returns what it printed."""
        return call(*self.command(verb, *args))


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """Buildah, or the reason why the image is not built here."""
    if os.environ.get("PATHGATE_TEST_IMAGE") != "1":
        pytest.skip("the image is built only with PATHGATE_TEST_IMAGE=1")
    for tool in ("buildah", "debootstrap"):
        if shutil.which(tool) is None:
            skip_or_fail(f"no {tool}; apt-get install {tool}")
    if os.geteuid() != 0:
        skip_or_fail("building without a user namespace needs root")
    home = tmp_path_factory.mktemp("buildah")
    yield Buildah(home)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def base(buildah: Buildah) -> str:
    """The name of the base image: a minimal Debian with Python, venv and pip."""
    root = CACHE / "debian-bookworm"
    ready = CACHE / "debian-bookworm.ready"
    if not ready.exists():
        shutil.rmtree(root, ignore_errors=True)
        packages = "python3,python3-venv,python3-pip,ca-certificates"
        CACHE.mkdir(parents=True, exist_ok=True)
        call(
            *("debootstrap", "--variant=minbase", f"--include={packages}"),
            *("bookworm", root),
        )
        ready.touch()
    container = buildah("from", "scratch")
    buildah("copy", "-q", container, root, "/")
    # How packages are reached is this machine's matter, not the Dockerfile's.
    for name, value in os.environ.items():
        if name.startswith("PIP_") and name != "PIP_FIND_LINKS":
            buildah("config", "--env", f"{name}={value}", container)
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.exists():
        buildah("copy", "-q", container, certificates, certificates)
    buildah("commit", "-q", "--rm", container, BASE)
    return BASE


@pytest.fixture(scope="module")
def image(buildah: Buildah, base: str, root: Path) -> str:
    """The image, built from a clean checkout of what is committed or new."""
    buildah(
        *("bud", "--isolation", "chroot", "--format", "docker"),
        *("--ignorefile", root / ".dockerignore", "-f", root / "deploy/Dockerfile"),
        *("--build-arg", f"BASE_IMAGE={base}", "--build-arg", "REVISION=abc123"),
        *("-t", IMAGE, root),
    )
    return IMAGE


@pytest.fixture(scope="module")
def container(buildah: Buildah, image: str) -> str:
    """A working container of the image; one for all, since each is a whole copy."""
    return buildah("from", image)


def run_in(buildah: Buildah, container: str, *command: str) -> str:
    """Runs a command as the image's user, with nothing of its own to write to."""
    return buildah("run", "--isolation", "chroot", container, "--", *command)


@pytest.fixture
def configuration(buildah: Buildah, image: str) -> dict[str, Any]:
    """What the image says of itself."""
    told = json.loads(buildah("inspect", "--type", "image", image))
    found: dict[str, Any] = told["Docker"]["config"]
    return found


def test_image_says_how_it_runs(configuration: dict[str, Any]) -> None:
    """User, entry point, command, signal, port and health check are in the image."""
    assert configuration["User"] == "10001:10001"
    assert configuration["Entrypoint"] == ["pathgate"]
    assert configuration["Cmd"] == ["worker"]
    assert configuration["StopSignal"] == "SIGTERM"
    assert configuration["ExposedPorts"].keys() == {"8321/tcp"}
    assert configuration["Healthcheck"]["Test"][:3] == ["CMD", "python3", "-c"]
    labels = configuration["Labels"]
    assert labels["org.opencontainers.image.revision"] == "abc123"
    assert labels["org.opencontainers.image.base.name"] == BASE


def test_image_holds_no_more_than_it_runs(buildah: Buildah, container: str) -> None:
    """Of pip, tests, sources and locks nothing is in the last stage."""
    assert run_in(buildah, container, "ls", "/opt") == "venv"
    assert not {"src", "wheels"} & set(run_in(buildah, container, "ls", "/").split())
    packages = run_in(
        buildah, container, "ls", "/opt/venv/lib/python3.11/site-packages"
    )
    names = set(packages.split())
    assert {"streams", "schemas", "faust"} <= names
    assert not {"pip", "setuptools", "tests", "pytest"} & names


def test_command_works_as_the_user(buildah: Buildah, container: str) -> None:
    """The command line runs as 10001, compiled, with a writable state directory."""
    assert run_in(buildah, container, "id", "-u") == "10001"
    assert "pathgate" in run_in(buildah, container, "pathgate", "--version")
    assert "eval.scored" in run_in(buildah, container, "pathgate", "topics", "plan")
    run_in(buildah, container, "touch", "/var/lib/pathgate/probe")
    compiled = run_in(
        *(buildah, container, "sh", "-c"),
        "ls /opt/venv/lib/python3.11/site-packages/streams/__pycache__ | head -1",
    )
    assert compiled.endswith(".pyc")


def test_any_user_of_group_0_may_run_it(buildah: Buildah, container: str) -> None:
    """Clusters that choose the uid give the group 0: the state is writable to it."""
    buildah(
        *("run", "--isolation", "chroot", "--user", "1234567:0", container, "--"),
        *("sh", "-c", "touch /var/lib/pathgate/other && pathgate --version"),
    )


class _Live(http.server.BaseHTTPRequestHandler):
    """Answers /livez as a worker does that is well."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/livez" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def test_health_check_follows_the_worker(
    buildah: Buildah, container: str, configuration: dict[str, Any]
) -> None:
    """The image's own check passes while /livez answers 200, and fails otherwise."""
    check = configuration["Healthcheck"]["Test"][1:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Live)
    command = buildah.command(
        *("run", "--isolation", "chroot"),
        *("-e", f"PATHGATE_WEB_PORT={server.server_port}", container, "--", *check),
    )
    with server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        up = subprocess.run(command, capture_output=True, check=False, timeout=60)
        server.shutdown()
        serving.join()
    down = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert up.returncode == 0, up.stderr
    assert down.returncode != 0
