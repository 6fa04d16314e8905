"""The compose files: valid, pinned, closed to the network, and in step with the rest."""

import json
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.acl.acls import users_from
from deploy.kafka.broker import kafka_version
from streams.settings import FIELDS, SECRET_FILES, Settings, variable_of

Run = Callable[..., subprocess.CompletedProcess[str]]
BASE = ("-f", "deploy/compose.yaml")
TLS = (*BASE, "-f", "deploy/compose/tls.yaml")
PROFILES = ("--profile", "monitoring", "--profile", "demo")
# Services that end by themselves.
ONE_SHOT = {"topics", "users", "demo"}
# Services that run pathgate or its packages.
OURS = ("topics", "worker", "demo")
# Their images write where they are installed.
WRITES_ROOT = {"kafka", "users"}


def merge(run: Run, *flags: str) -> dict[str, Any]:
    """What Compose itself makes of the files."""
    done = run("docker-compose", *flags, "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module", params=["plain", "tls"])
def model(request: pytest.FixtureRequest, run: Run) -> dict[str, Any]:
    """Both variants, every profile included."""
    return merge(run, *(BASE if request.param == "plain" else TLS), *PROFILES)


@pytest.fixture(scope="module")
def secured(run: Run) -> dict[str, Any]:
    return merge(run, *TLS, *PROFILES)


# ------------------------------------------------------------------- validity


@pytest.mark.parametrize("flags", [BASE, TLS], ids=["plain", "tls"])
def test_compose_accepts_the_files(run: Run, flags: tuple[str, ...]) -> None:
    """No error and no warning: no obsolete key, no unset variable."""
    done = run("docker-compose", *flags, *PROFILES, "config", "-q")
    assert (done.returncode, done.stderr) == (0, "")


def test_compose_rejects_an_unknown_key(run: Run, tmp_path: Path) -> None:
    """The check is alive."""
    path = tmp_path / "compose.yaml"
    path.write_text("services:\n  a:\n    image: b:1\n    helthcheck: {}\n")
    done = run("docker-compose", "-f", str(path), "config", "-q")
    assert done.returncode != 0
    assert "helthcheck" in done.stderr


@pytest.mark.parametrize("name", ["compose.yaml", "compose/tls.yaml"])
def test_files_follow_the_specification(run: Run, name: str) -> None:
    """Each file by itself follows the Compose specification's schema."""
    done = run(
        "check-jsonschema", "--builtin-schema", "vendor.compose-spec", f"deploy/{name}"
    )
    assert done.returncode == 0, done.stdout


def test_specification_check_rejects(run: Run, tmp_path: Path) -> None:
    """The check is alive: a wrong type is found."""
    path = tmp_path / "compose.yaml"
    path.write_text("services:\n  a:\n    image: b:1\n    read_only: [yes]\n")
    done = run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(path))
    assert done.returncode == 1


def lint(run: Run, path: str) -> list[dict[str, Any]]:
    done = run("compose-lint", "check", "--format", "json", path)
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def test_security_lint_finds_only_what_is_explained(run: Run) -> None:
    """Nothing but missing digests, missing CPU limits, and Kafka's writable root.

    A digest cannot be known for an image that is built here, and pins the others
    to one platform; a CPU limit on a broker or worker costs it its heartbeats.
    """
    found = {
        (one["rule_id"], one["service"]) for one in lint(run, "deploy/compose.yaml")
    }
    explained = {"CL-0019", "CL-0026"}
    rest = {pair for pair in found if pair[0] not in explained}
    assert rest == {("CL-0007", "kafka")}


def test_security_lint_rejects(run: Run, tmp_path: Path) -> None:
    """The linter is alive: an open port and a privileged service are found."""
    path = tmp_path / "compose.yaml"
    path.write_text(
        'services:\n  a:\n    image: b:1\n    privileged: true\n    ports: ["80:80"]\n'
    )
    rules = {one["rule_id"] for one in lint(run, str(path))}
    assert {"CL-0002", "CL-0005"} <= rules


# ----------------------------------------------------------------- the services


def test_no_version_key(root: Path) -> None:
    """The obsolete top-level key is not there; the project has a name."""
    document = yaml.safe_load((root / "deploy/compose.yaml").read_text("utf-8"))
    assert "version" not in document
    assert document["name"] == "pathgate"


def test_images_are_pinned(model: dict[str, Any]) -> None:
    """Each image has a full version, none floats."""
    images = {service["image"] for service in model["services"].values()}
    loose = {i for i in images if not re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", i)}
    assert loose == set()


def test_image_versions_are_the_projects(root: Path, model: dict[str, Any]) -> None:
    """The worker's tag is the project's version; the broker is the tested one."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    version = project["project"]["version"]
    services = model["services"]
    assert {services[name]["image"] for name in OURS} == {f"pathgate:{version}"}
    assert services["kafka"]["image"] == f"apache/kafka:{kafka_version()}"


def test_ports_are_on_loopback(model: dict[str, Any]) -> None:
    """Nothing listens where another machine could reach it, and no port twice."""
    ports = [
        (port.get("host_ip"), port["published"])
        for service in model["services"].values()
        for port in service.get("ports", [])
    ]
    assert ports
    assert {address for address, _ in ports} == {"127.0.0.1"}
    assert len(ports) == len(set(ports))


def test_services_are_hardened(model: dict[str, Any]) -> None:
    """No capability, no new privilege, bounded memory and processes, a user of its own."""
    for name, service in model["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert int(service["mem_limit"]) > 0, name
        assert service["pids_limit"] > 0, name
        assert service.get("user"), name
        assert service.get("read_only", False) is (name not in WRITES_ROOT), name


def test_bind_mounts_are_read_only_and_exist(root: Path, model: dict[str, Any]) -> None:
    """The project's files are mounted, never written; what is written is a volume."""
    for name, service in model["services"].items():
        for mount in service.get("volumes", []):
            if mount["type"] == "bind":
                assert mount["read_only"] is True, name
                assert Path(mount["source"]).exists(), mount["source"]
                assert Path(mount["source"]).is_relative_to(root)


def test_services_start_by_health(model: dict[str, Any]) -> None:
    """Broker, then topics, then worker; each waits for what it needs to be there."""
    services = model["services"]

    def waits(name: str) -> dict[str, str]:
        return {
            other: told["condition"]
            for other, told in services[name]["depends_on"].items()
        }

    first = (
        {"kafka": "service_healthy", "users": "service_completed_successfully"}
        if "users" in services
        else {"kafka": "service_healthy"}
    )
    assert waits("topics") == first
    assert waits("worker") == {"topics": "service_completed_successfully"}
    assert waits("demo") == {"worker": "service_healthy"}
    for name, service in services.items():
        if name in ONE_SHOT:
            assert service["restart"] == "no", name
        else:
            assert service["healthcheck"]["test"][0] == "CMD", name
            assert service["restart"] == "unless-stopped", name


def test_monitoring_and_demo_are_profiles(run: Run) -> None:
    """Without the profiles only the broker and what grades are started."""
    assert merge(run, *BASE)["services"].keys() == {"kafka", "topics", "worker"}


def test_worker_has_time_to_drain(model: dict[str, Any]) -> None:
    """It is given two minutes, as in the chart, against Compose's ten seconds."""
    assert model["services"]["worker"]["stop_grace_period"] == "2m0s"


# ---------------------------------------------------------------- what they say


@pytest.mark.parametrize("service", OURS)
def test_variables_are_settings(model: dict[str, Any], service: str) -> None:
    """Every variable is one that pathgate reads, of a type that it takes."""
    env = {
        name: value
        for name, value in model["services"][service]["environment"].items()
        if not name.endswith("_FILE")
    }
    known = {variable_of(name) for name in FIELDS}
    assert model["services"][service]["environment"].keys() <= known
    if env.get("PATHGATE_SECURITY_PROTOCOL") == "SASL_SSL":
        env[variable_of("sasl_password")] = "x"
        assert "sasl_password" in SECRET_FILES
    settings = Settings.load({}, env)
    assert settings.replication_factor == settings.min_insync_replicas == 1


def test_passwords_are_files(secured: dict[str, Any]) -> None:
    """No password stands in a variable, which `docker inspect` would show."""
    for service in secured["services"].values():
        held = service.get("environment", {})
        assert not [n for n in held if n.endswith("PASSWORD")]


def test_secrets_are_mounted_where_the_settings_look(
    secured: dict[str, Any],
) -> None:
    """Each file that a setting names is a secret of that service."""
    for name in OURS:
        service = secured["services"][name]
        # A short form's target is the secret's own name.
        targets = {s.get("target") or s["source"] for s in service["secrets"]}
        mounted = {f"/run/secrets/{Path(target).name}" for target in targets}
        named = {v for k, v in service["environment"].items() if k.endswith("_FILE")}
        assert named == mounted


def test_each_user_has_a_password_file(root: Path, secured: dict[str, Any]) -> None:
    """Every user that has rights gets a password, and the script makes it."""
    users = {
        secret.removesuffix(".password")
        for secret in secured["secrets"]
        if secret.endswith(".password")
    }
    assert users == {user.name for user in users_from(Settings.load({}, {}))}
    script = (root / "deploy/compose/make-certs.sh").read_text(encoding="utf-8")
    [made] = re.findall(r"^for user in (.+); do$", script, flags=re.MULTILINE)
    assert set(made.split()) == users
    named = {
        secured["services"][name]["environment"]["PATHGATE_SASL_USERNAME"]
        for name in OURS
    }
    assert named == {"pathgate", "pathgate-topics", "pathgate-host"}


def test_keys_are_not_in_git(root: Path) -> None:
    """What the script makes is ignored, and no key is among the project's files."""
    ignored = subprocess.run(
        ["git", "check-ignore", "-q", "deploy/compose/certs/kafka.pem"],
        cwd=root,
        check=False,
    )
    assert ignored.returncode == 0
    listed = subprocess.run(
        ["git", "grep", "-lE", "BEGIN ([A-Z]+ )?PRIVATE KEY", "--", "deploy"],
        cwd=root,
        check=False,
        capture_output=True,
        text=True,
    )
    assert listed.stdout == ""


def test_prometheus_differs_by_names_only(root: Path) -> None:
    """The containers' configuration is the sample with other addresses."""

    def read(path: str) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((root / path).read_text("utf-8"))
        return found

    ours = read("deploy/compose/prometheus.yml")
    sample = read("deploy/prometheus/prometheus.yml")
    text = json.dumps(sample)
    text = text.replace("127.0.0.1:8321", "worker:8321")
    text = text.replace("127.0.0.1:9093", "alertmanager:9093")
    assert ours == json.loads(text)


def test_grafana_differs_by_name_only(root: Path, model: dict[str, Any]) -> None:
    """The data source is the sample with another address; dashboards are found."""
    ours = (root / "deploy/compose/datasource.yml").read_text("utf-8")
    sample = (root / "deploy/grafana/provisioning/datasources/pathgate.yml").read_text(
        "utf-8"
    )
    text = sample.replace("127.0.0.1:9090", "prometheus:9090")
    assert yaml.safe_load(ours) == yaml.safe_load(text)
    provider = yaml.safe_load(
        (root / "deploy/grafana/provisioning/dashboards/pathgate.yml").read_text(
            "utf-8"
        )
    )["providers"][0]
    targets = {m["target"] for m in model["services"]["grafana"]["volumes"]}
    assert provider["options"]["path"] in targets
