"""The systemd unit: accepted by systemd, shut off from the host, in step with pathgate."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from streams.cli.exit_codes import ExitCode
from streams.settings import FIELDS, Settings, variable_of
from tests.tiers import skip_or_fail

# systemd's own scale: 0 is shut off, 10 is wide open; a plain service has 9.6.
EXPOSURE_MAX = 2.0


@pytest.fixture(scope="module")
def unit(root: Path) -> str:
    return (root / "deploy/systemd/pathgate.service").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def drop_in(root: Path) -> str:
    path = root / "deploy/systemd/pathgate.service.d/credentials.conf"
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def analyze() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ``systemd-analyze``; no systemd has to run for it."""
    found = shutil.which("systemd-analyze")
    if found is None:
        skip_or_fail("no systemd-analyze; it comes with systemd (Debian: systemd)")

    def start(*args: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["systemd-analyze", "--no-pager", *map(str, args)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return start


@pytest.fixture(params=["pathgate.service", "pathgate-verify.service"])
def installed(request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> Path:
    """All units in a directory, of which one is looked at; their program exists."""
    units = tmp_path / "units"
    shutil.copytree(root / "deploy" / "systemd", units)
    for unit in units.glob("*.service"):
        text = unit.read_text(encoding="utf-8")
        unit.write_text(text.replace("/opt/pathgate/bin/pathgate", "/bin/true"))
    return units / str(request.param)


def test_systemd_accepts_the_units(
    analyze: Callable[..., subprocess.CompletedProcess[str]], installed: Path
) -> None:
    """No unknown key, no bad value, in the unit, its drop-in and its timer."""
    timer = installed.with_suffix(".timer")
    units = [installed, timer] if timer.exists() else [installed]
    done = analyze("verify", "--man=no", *units)
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_rejects_a_misspelt_key(
    analyze: Callable[..., subprocess.CompletedProcess[str]], installed: Path
) -> None:
    """The check is alive."""
    with installed.open("a", encoding="utf-8") as unit:
        unit.write("\n[Service]\nProtectHoome=yes\n")
    assert "ProtectHoome" in analyze("verify", "--man=no", installed).stderr


def exposure(told: subprocess.CompletedProcess[str]) -> float:
    match = re.search(r"exposure level for \S+: ([\d.]+)", told.stdout)
    assert match, told.stdout + told.stderr
    return float(match[1])


def test_unit_is_shut_off_from_the_host(
    analyze: Callable[..., subprocess.CompletedProcess[str]], installed: Path
) -> None:
    """The rating of systemd stays low; one setting taken away shows in it."""
    before = exposure(analyze("security", "--offline=yes", installed))
    assert before <= EXPOSURE_MAX
    text = installed.read_text(encoding="utf-8")
    installed.write_text(text.replace("SystemCallFilter=@system-service\n", ""))
    assert exposure(analyze("security", "--offline=yes", installed)) > before


def test_runs_the_worker_as_nobody_in_particular(unit: str) -> None:
    """A dynamic user, who may write the state directory alone."""
    assert "ExecStart=/opt/pathgate/bin/pathgate worker\n" in unit
    assert "DynamicUser=yes\n" in unit
    assert "ProtectSystem=strict\n" in unit
    assert "StateDirectory=pathgate\n" in unit
    assert "ReadWritePaths" not in unit


def test_restarts_but_for_wrong_settings(unit: str) -> None:
    """A crash is started again; exit code 78 waits for a person."""
    assert "Restart=always\n" in unit
    code = int(ExitCode.CONFIGURATION)
    assert f"RestartPreventExitStatus={code}\n" in unit


def test_has_time_to_drain(unit: str) -> None:
    """Two minutes from SIGTERM to SIGKILL, as in the chart."""
    assert "TimeoutStopSec=120\n" in unit


def test_variables_are_settings(root: Path, unit: str, drop_in: str) -> None:
    """Every PATHGATE_ variable, also those commented out, is one that is read."""
    verify = root / "deploy/systemd/pathgate-verify.service"
    text = unit + drop_in + verify.read_text(encoding="utf-8")
    names = set(re.findall(r"(PATHGATE_\w+)=", text))
    known = {variable_of(name) for name in FIELDS} | {"PATHGATE_CONFIG"}
    assert "PATHGATE_DATA_DIR" in names
    assert names <= known
    Settings.load({}, {"PATHGATE_DATA_DIR": "/var/lib/pathgate"})


def test_credentials_are_files_that_are_loaded(drop_in: str) -> None:
    """Each file setting points at a credential that the same drop-in loads."""
    loaded = set(re.findall(r"LoadCredential=([\w.-]+):", drop_in))
    named = set(re.findall(r"_FILE=%d/([\w.-]+)", drop_in))
    assert named
    assert named == loaded
