"""Who hears of which alert, as the sample's routes and inhibitions have it."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.monitoring.test_rules import ALERTS

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"

ROUTES: dict[str, Any] = yaml.safe_load(CONFIG.read_text("utf-8"))

# Labels -> receivers, in the order of the routes.
HEARD = {
    "severity=critical area=gate": "pathgate-oncall,eval-owners",
    "severity=critical area=worker": "pathgate-oncall",
    "severity=critical area=input": "pathgate-oncall",
    "severity=warning area=gate": "eval-owners",
    "severity=warning area=host": "host-owners",
    "severity=warning area=input": "pathgate-team",
    "severity=warning area=worker": "pathgate-team",
}


def amtool(tools: Path, *args: str) -> tuple[int, str]:
    """Exit code and output of amtool."""
    done = subprocess.run(
        [str(tools / "amtool"), *args], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def routed(tools: Path, labels: str, receivers: str) -> int:
    """Exit code of amtool's check that labels reach just these receivers."""
    return amtool(
        tools,
        "config",
        "routes",
        "test",
        f"--config.file={CONFIG}",
        f"--verify.receivers={receivers}",
        *labels.split(),
    )[0]


def test_amtool_is_content(monitoring_tools: Path) -> None:
    """The sample is a configuration Alertmanager takes."""
    code, said = amtool(monitoring_tools, "check-config", str(CONFIG))
    assert (0, True) == (code, "SUCCESS" in said)


def test_amtool_refuses_an_unknown_receiver(
    monitoring_tools: Path, tmp_path: Path
) -> None:
    """A route to nobody is found."""
    broken = tmp_path / "alertmanager.yml"
    text = CONFIG.read_text("utf-8")
    broken.write_text(text.replace("- name: host-owners", "- name: hosts"), "utf-8")
    assert 1 == amtool(monitoring_tools, "check-config", str(broken))[0]


@pytest.mark.parametrize("labels", HEARD)
def test_alert_reaches_those_who_act(monitoring_tools: Path, labels: str) -> None:
    """Each kind of alert reaches its receivers and nobody else."""
    assert 0 == routed(monitoring_tools, labels, HEARD[labels])


def test_route_check_notices_a_wrong_receiver(monitoring_tools: Path) -> None:
    """A check fails where the labels reach somebody else."""
    assert 0 != routed(monitoring_tools, "severity=warning area=gate", "host-owners")


def test_every_alert_is_one_of_the_cases() -> None:
    """No alert of the rules has labels whose route is untested."""
    labels = {
        f"severity={rule['labels']['severity']} area={rule['labels']['area']}"
        for rule in ALERTS.values()
    }
    assert labels <= set(HEARD)


def test_amlint_finds_nothing(monitoring_tools: Path) -> None:
    """No unreachable route, no alert that inhibits itself."""
    done = subprocess.run(
        [str(monitoring_tools / "amlint"), "check", "--strict", str(CONFIG)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)


def test_amlint_finds_an_unreachable_route(
    monitoring_tools: Path, tmp_path: Path
) -> None:
    """A route behind one that takes everything is found."""
    config = json.loads(json.dumps(ROUTES))
    everything = {"receiver": "pathgate-team", "matchers": ['severity=~".*"']}
    config["route"]["routes"].insert(0, everything)
    broken = tmp_path / "alertmanager.yml"
    broken.write_text(yaml.safe_dump(config), "utf-8")
    done = subprocess.run(
        [str(monitoring_tools / "amlint"), "check", "--strict", str(broken)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (1, True) == (done.returncode, "unreachable-route" in done.stdout)


def _named(matchers: list[str]) -> set[str]:
    [matcher] = matchers
    found = re.fullmatch(r'alertname=~?"([\w|]+)"', matcher)
    assert found, matcher
    return set(found[1].split("|"))


@pytest.mark.parametrize(
    "rule", ROUTES["inhibit_rules"], ids=lambda r: r["source_matchers"][0]
)
def test_inhibition_names_alerts_that_exist(rule: dict[str, Any]) -> None:
    """A renamed alert would no longer hide, nor be hidden."""
    hiding, hidden = _named(rule["source_matchers"]), _named(rule["target_matchers"])
    assert hiding | hidden <= set(ALERTS)
    assert not hiding & hidden


def test_gate_results_are_never_hidden() -> None:
    """No alert about a verdict is inhibited, whatever else is wrong."""
    hidden = {
        name
        for rule in ROUTES["inhibit_rules"]
        for name in _named(rule["target_matchers"])
    }
    assert not [name for name in hidden if ALERTS[name]["labels"]["area"] == "gate"]


def test_notifications_are_grouped_by_alert_and_suite() -> None:
    """Ten workers that report one suite are one notification."""
    assert ["alertname", "suite"] == ROUTES["route"]["group_by"]
