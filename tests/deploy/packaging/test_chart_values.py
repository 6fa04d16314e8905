"""The chart's values: documented, checked, and refused where they cannot work."""

import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.helm import sync
from streams.settings import FIELDS

Run = Callable[..., subprocess.CompletedProcess[str]]
CHART = "deploy/helm/pathgate"


@pytest.fixture(scope="module")
def schema(root: Path) -> dict[str, Any]:
    text = (root / CHART / "values.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.fixture(scope="module")
def values(root: Path) -> dict[str, Any]:
    text = (root / CHART / "values.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def render(run: Run, *settings: str) -> subprocess.CompletedProcess[str]:
    pairs = ["kafka.bootstrapServers=kafka:9092", *settings]
    flags = [word for pair in pairs for word in ("--set", pair)]
    return run("helm", "template", "eval", CHART, *flags)


def objects(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object schema with its path."""
    if node.get("type") == "object":
        yield path, node
    for name, child in node.get("properties", {}).items():
        yield from objects(child, f"{path}.{name}")
    if isinstance(node.get("items"), dict):
        yield from objects(node["items"], f"{path}[]")


def test_derived_files_are_current(root: Path) -> None:
    """Rules, dashboards and the settings' schema are what their sources make of them.

    Where this fails: ``python -m deploy.helm.sync``.
    """
    stale = [
        str(path.relative_to(root))
        for path, text in sync.files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert stale == []
    assert sync.strays() == []


def test_schema_is_draft_07(run: Run, schema: dict[str, Any]) -> None:
    """Helm 3 understands it, and it is a valid schema."""
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    done = run("check-jsonschema", "--check-metaschema", f"{CHART}/values.schema.json")
    assert done.returncode == 0, done.stdout


def test_every_object_is_closed(schema: dict[str, Any]) -> None:
    """An unknown key is accepted only where the whole object is Kubernetes's."""
    lax = [
        path
        for path, node in objects(schema, "values")
        if node.get("additionalProperties") is not False
        and node.get("additionalProperties") != {"type": "string"}
        and "$comment" not in node
    ]
    assert lax == []


def test_schema_and_values_name_the_same(
    schema: dict[str, Any], values: dict[str, Any]
) -> None:
    """Each value of values.yaml has a schema, and each schema a value."""

    def compare(node: dict[str, Any], held: Any, path: str) -> Iterator[str]:
        names = node.get("properties", {}).keys() - {"global"}
        if path == "values.config" or not names:
            return
        for name in names ^ held.keys():
            yield f"{path}.{name}"
        for name in names & held.keys():
            yield from compare(node["properties"][name], held[name], f"{path}.{name}")

    assert list(compare(schema, values, "values")) == []


def test_every_top_level_value_is_explained(root: Path) -> None:
    """A comment stands above each group of values, or above its first key."""
    text = (root / CHART / "values.yaml").read_text(encoding="utf-8")
    lines = ["", *text.splitlines(), ""]
    bare = [
        line
        for before, line, after in zip(lines, lines[1:], lines[2:], strict=False)
        if re.match(r"[a-z]\w*:", line)
        and not before.startswith("#")
        and not after.strip().startswith("#")
    ]
    assert bare == []


def test_config_takes_every_setting_but_the_derived(schema: dict[str, Any]) -> None:
    """`config` is the settings, less those that the chart sets itself."""
    accepted = schema["properties"]["config"]["properties"].keys()
    assert accepted == FIELDS.keys() - sync.DERIVED
    assert sync.DERIVED <= FIELDS.keys()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("replicaCuont=3", "replicaCuont"),
        ("kafka.sasl.pasword=x", "pasword"),
        ("config.late_windw_s=3", "late_windw_s"),
        ("config.sasl_username=x", "sasl_username"),
        ("probes.liveness.path=/readyz", "path"),
    ],
)
def test_unknown_keys_are_refused(run: Run, setting: str, told: str) -> None:
    """A misspelt value never passes for a default."""
    done = render(run, setting)
    assert done.returncode != 0
    assert told in done.stderr


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("replicaCount=two", "replicaCount"),
        ("replicaCount=0", "replicaCount"),
        ("persistence.enabled=maybe", "persistence"),
        ("config.partitions=0", "partitions"),
        ("config.attribution=nodes", "attribution"),
        ("config.default_pass_score=1.5", "default_pass_score"),
        ("kafka.securityProtocol=TLS", "securityProtocol"),
        ("image.tag=latest", "tag"),
        ("image.digest=sha256:12", "digest"),
        ("kafka.bootstrapServers=user:pw@kafka:9092", "bootstrapServers"),
        ("keda.minReplicaCount=0", "minReplicaCount"),
    ],
)
def test_wrong_values_are_refused(run: Run, setting: str, told: str) -> None:
    """A value of the wrong type or out of bounds names itself."""
    done = render(run, setting)
    assert done.returncode != 0
    assert told in done.stderr


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["kafka.bootstrapServers="], "kafka.bootstrapServers: required"),
        (["replicaCount=7"], "replicaCount: 7 workers have only config.partitions=6"),
        (
            ["keda.enabled=true", "keda.maxReplicaCount=7"],
            "keda.maxReplicaCount: 7 workers",
        ),
        (["kafka.securityProtocol=SASL_SSL"], "kafka.sasl.mechanism: needed"),
        (["kafka.sasl.mechanism=PLAIN"], "kafka.sasl.mechanism: has no use"),
        (["kafka.tls.caSecret=ca"], "kafka.tls: has no use"),
        (
            [
                "kafka.securityProtocol=SASL_SSL",
                "kafka.sasl.mechanism=PLAIN",
                "kafka.sasl.username=a",
                "kafka.sasl.existingSecret=a",
                "keda.enabled=true",
            ],
            "keda.authenticationRef",
        ),
    ],
)
def test_impossible_combinations_are_refused(
    run: Run, settings: list[str], told: str
) -> None:
    """What could not work fails at rendering, and says which value to change."""
    done = render(run, *settings)
    assert done.returncode != 0
    assert told in done.stderr


def test_version_is_the_projects(root: Path) -> None:
    """appVersion, which is the image's tag, follows pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    chart = yaml.safe_load((root / CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == project["project"]["version"]


def test_notes_name_the_next_commands(run: Run) -> None:
    """What is printed after an install tells how to look at it."""
    done = run(
        *("helm", "install", "eval", CHART, "--dry-run=client"),
        *("--set", "kafka.bootstrapServers=kafka:9092"),
    )
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:")[2]
    assert "rollout status statefulset/eval-pathgate" in notes
    assert "pathgate doctor" in notes
    assert "pathgate topics plan" in notes
