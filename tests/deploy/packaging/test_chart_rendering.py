"""The chart, rendered for each set of values: valid, and what a cluster needs it to be."""

import itertools
import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.settings import Settings
from streams.topics import names_from

Run = Callable[..., subprocess.CompletedProcess[str]]
Manifest = dict[str, Any]

CASES = ("default", "minimal", "everything", "tls-sasl")
# The oldest that Chart.yaml allows, and the newest that the validator knows.
OLDEST, NEWEST = "1.27", "1.37"
CUSTOM = {"PodMonitor", "PrometheusRule", "ScaledObject"}
# Helm's own keys, whose order in the document is of no matter.
LABELS = {
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/component",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
}


@pytest.fixture(scope="module")
def texts(
    run: Run, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Case -> a file with the manifests that the chart makes of it."""
    target = tmp_path_factory.mktemp("rendered")
    found = {}
    for case in CASES:
        values = root / "tests/deploy/packaging/values" / f"{case}.yaml"
        done = run("helm", "template", "eval", "deploy/helm/pathgate", "-f", values)
        assert done.returncode == 0, done.stderr
        found[case] = target / f"{case}.yaml"
        found[case].write_text(done.stdout, encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def rendered(texts: dict[str, Path]) -> dict[str, list[Manifest]]:
    """Case -> its manifests."""
    return {
        case: [doc for doc in yaml.safe_load_all(path.read_text("utf-8")) if doc]
        for case, path in texts.items()
    }


@pytest.fixture(params=CASES)
def manifests(
    request: pytest.FixtureRequest, rendered: dict[str, list[Manifest]]
) -> list[Manifest]:
    """The manifests of each case in turn."""
    return rendered[request.param]


def only(manifests: list[Manifest], kind: str, suffix: str = "") -> Manifest:
    [found] = [
        doc
        for doc in manifests
        if doc["kind"] == kind and doc["metadata"]["name"].endswith(suffix)
    ]
    return found


def pod_specs(manifests: list[Manifest]) -> Iterator[Manifest]:
    for doc in manifests:
        if doc["kind"] in {"StatefulSet", "Job"}:
            yield doc["spec"]["template"]["spec"]
        if doc["kind"] == "CronJob":
            yield doc["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def settings_of(manifests: list[Manifest], suffix: str) -> dict[str, Any]:
    """What the worker or the topics job reads from its file."""
    return tomllib.loads(only(manifests, "ConfigMap", suffix)["data"]["pathgate.toml"])


# ------------------------------------------------------------------- validity


@pytest.mark.parametrize("case", CASES)
def test_lint_is_clean(run: Run, root: Path, case: str) -> None:
    """Helm's strict lint has no warning in any case."""
    values = root / "tests/deploy/packaging/values" / f"{case}.yaml"
    done = run("helm", "lint", "--strict", "deploy/helm/pathgate", "-f", values)
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_manifests_are_valid(run: Run, texts: dict[str, Path], version: str) -> None:
    """Every field is one that the cluster's version has, of the right type."""
    done = run("kubernetes-validate", "--strict", "-k", version, *texts.values())
    assert done.returncode == 0, done.stdout + done.stderr


def test_validator_rejects_an_unknown_field(run: Run, tmp_path: Path) -> None:
    """The validator is alive: a field that Kubernetes lacks is an error."""
    path = tmp_path / "service.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {prots: []}\n"
    )
    done = run("kubernetes-validate", "--strict", "-k", NEWEST, path)
    assert done.returncode != 0
    assert "prots" in done.stdout + done.stderr


def test_oldest_version_is_the_one_the_chart_names(root: Path) -> None:
    """What is validated is what Chart.yaml promises."""
    chart = yaml.safe_load((root / "deploy/helm/pathgate/Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={OLDEST}.0-0"


def test_custom_resources_are_valid(
    run: Run, root: Path, rendered: dict[str, list[Manifest]]
) -> None:
    """The operators know every field of the monitors, rules and scalers."""
    custom = [
        doc
        for doc in itertools.chain.from_iterable(rendered.values())
        if doc["kind"] in CUSTOM
    ]
    assert {doc["kind"] for doc in custom} == CUSTOM
    script = root / "tests/deploy/packaging/crds.py"
    done = run("python", script, stdin=json.dumps(custom))
    assert (done.returncode, done.stdout.strip()) == (0, "")


def test_custom_resource_check_rejects(
    run: Run, root: Path, rendered: dict[str, list[Manifest]]
) -> None:
    """The check is alive: an unknown key and a wrong type are both found."""
    monitor = json.loads(json.dumps(only(rendered["everything"], "PodMonitor")))
    monitor["spec"]["podMetricsEndpoints"][0]["intervall"] = "15s"
    scaler = json.loads(json.dumps(only(rendered["everything"], "ScaledObject")))
    scaler["spec"]["maxReplicaCount"] = "many"
    script = root / "tests/deploy/packaging/crds.py"
    done = run("python", script, stdin=json.dumps([monitor, scaler]))
    assert done.returncode == 1
    assert "PodMonitor.spec.podMetricsEndpoints[0].intervall: unknown" in done.stdout
    assert "maxReplicaCount" in done.stdout


# ------------------------------------------------------------ names and labels


def test_labels_are_the_recommended_ones(manifests: list[Manifest]) -> None:
    """Each object carries the labels that tools group by."""
    bare = [
        (doc["kind"], doc["metadata"]["name"])
        for doc in manifests
        if not doc["metadata"]["labels"].keys() >= LABELS
    ]
    assert bare == []


def test_names_are_unique_and_of_the_release(manifests: list[Manifest]) -> None:
    """Two releases in one namespace do not touch each other's objects."""
    names = [(doc["kind"], doc["metadata"]["name"]) for doc in manifests]
    assert len(names) == len(set(names))
    assert all(name.startswith("eval-") for _, name in names)


def test_selectors_hold_only_what_never_changes(manifests: list[Manifest]) -> None:
    """A selector is immutable, so it names no version; and it selects the workers."""
    stateful = only(manifests, "StatefulSet")
    wanted = stateful["spec"]["selector"]["matchLabels"]
    assert wanted.keys() == {
        "app.kubernetes.io/name",
        "app.kubernetes.io/instance",
        "app.kubernetes.io/component",
    }
    assert wanted.items() <= stateful["spec"]["template"]["metadata"]["labels"].items()
    assert only(manifests, "Service")["spec"]["selector"] == wanted
    assert (
        only(manifests, "Service")["metadata"]["name"]
        == (stateful["spec"]["serviceName"])
    )


def test_no_image_floats(manifests: list[Manifest]) -> None:
    """Every image has a tag that is not latest, or a digest."""
    images = {
        container["image"]
        for spec in pod_specs(manifests)
        for container in spec["containers"]
    }
    assert images
    pinned = re.compile(r".+(@sha256:[0-9a-f]{64}|:(?!latest$)[\w.-]+)")
    assert [image for image in images if not pinned.fullmatch(image)] == []


def test_digest_wins_over_tag(rendered: dict[str, list[Manifest]]) -> None:
    """A digest is what runs, whatever the tag says."""
    [spec, *_] = pod_specs([only(rendered["everything"], "StatefulSet")])
    assert "@sha256:" in spec["containers"][0]["image"]
    assert "9.9.9" not in spec["containers"][0]["image"]


# -------------------------------------------------------------------- security


def test_pods_meet_the_restricted_standard(manifests: list[Manifest]) -> None:
    """Pod Security "restricted", plus a read-only root and no way to the API."""
    for spec in pod_specs(manifests):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 10001
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
        allowed = {"configMap", "emptyDir", "secret", "name"}
        assert {key for volume in spec["volumes"] for key in volume} <= allowed


def test_secrets_are_mounted_and_never_written_out(
    rendered: dict[str, list[Manifest]],
) -> None:
    """Passwords and keys reach the worker as files of Secrets that exist already."""
    manifests = rendered["tls-sasl"]
    assert "Secret" not in {doc["kind"] for doc in manifests}
    settings = settings_of(manifests, "-settings")
    [spec] = pod_specs([only(manifests, "StatefulSet")])
    [container] = spec["containers"]
    files = {
        f"{mount['mountPath']}/{item['path']}"
        for mount in container["volumeMounts"]
        for volume in spec["volumes"]
        if volume["name"] == mount["name"] and "secret" in volume
        for item in volume["secret"]["items"]
    }
    named = {settings[key] for key in settings if key.endswith("_file")}
    assert named == files
    assert all(
        volume["secret"]["defaultMode"] == 0o440
        for volume in spec["volumes"]
        if "secret" in volume
    )


def test_topics_job_has_its_own_user(rendered: dict[str, list[Manifest]]) -> None:
    """Creating topics runs with the provisioner's rights, grading with the worker's."""
    manifests = rendered["tls-sasl"]
    assert settings_of(manifests, "-settings")["sasl_username"] == "pathgate"
    assert settings_of(manifests, "-topics")["sasl_username"] == "pathgate-topics"
    [spec] = pod_specs([only(manifests, "Job")])
    [sasl] = [v for v in spec["volumes"] if v["name"] == "sasl"]
    assert sasl["secret"]["secretName"] == "pathgate-topics"
    assert sasl["secret"]["items"] == [{"key": "secret", "path": "password"}]


def test_verifying_has_its_own_user_and_the_same_grading(
    rendered: dict[str, list[Manifest]],
) -> None:
    """It reads with rights of its own, and grades by the very settings of the workers."""
    manifests = rendered["tls-sasl"]
    worker = settings_of(manifests, "-settings")
    verifier = settings_of(manifests, "-verify")
    assert verifier.pop("sasl_username") == "pathgate-verify"
    assert worker.pop("sasl_username") == "pathgate"
    assert verifier == worker
    for case, arguments in (
        ("tls-sasl", ["verify"]),
        ("everything", ["verify", "--repair"]),
    ):
        [spec] = pod_specs([only(rendered[case], "CronJob")])
        assert spec["containers"][0]["args"] == arguments
        mounts = {m["name"] for m in spec["containers"][0]["volumeMounts"]}
        assert mounts == {volume["name"] for volume in spec["volumes"]}
        # Where it keeps the records that it compares with.
        assert "tmp" in mounts


# ---------------------------------------------------------------------- worker


@pytest.mark.parametrize("suffix", ["-settings", "-topics", "-verify"])
@pytest.mark.parametrize("case", CASES)
def test_settings_are_what_pathgate_reads(
    rendered: dict[str, list[Manifest]],
    tmp_path: Path,
    case: str,
    suffix: str,
) -> None:
    """The file in each ConfigMap loads, once the files that it names are there."""
    documents = [
        doc
        for doc in rendered[case]
        if doc["kind"] == "ConfigMap" and doc["metadata"]["name"].endswith(suffix)
    ]
    if not documents:
        assert suffix != "-settings"
        return
    text = documents[0]["data"]["pathgate.toml"]
    for name in re.findall(r'_file = "(.+)"', text):
        local = tmp_path / name.lstrip("/")
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_text("sixteen bytes or more", encoding="ascii")
        text = text.replace(name, str(local))
    path = tmp_path / "pathgate.toml"
    path.write_text(text, encoding="utf-8")
    settings = Settings.load({}, {}, path)
    assert settings.bootstrap_servers.startswith("kafka")


def test_counts_are_written_whole(rendered: dict[str, list[Manifest]]) -> None:
    """Helm reads numbers as floats; a count of a million is still no 1e+06."""
    text = only(rendered["everything"], "ConfigMap", "-settings")["data"][
        "pathgate.toml"
    ]
    assert "max_calls_per_trial = 1000000\n" in text
    assert "default_pass_score = 0.8\n" in text


def test_environment_is_of_known_settings(manifests: list[Manifest]) -> None:
    """Every variable of the pods is one that pathgate reads."""
    names = {
        variable["name"]
        for spec in pod_specs(manifests)
        for container in spec["containers"]
        for variable in container["env"]
    }
    env = dict.fromkeys(names - {"PATHGATE_CONFIG", "PATHGATE_LOG_LEVEL"}, "8321")
    Settings.load({}, env)


def test_tables_are_on_the_volume(manifests: list[Manifest]) -> None:
    """The data directory lies on the state volume, the rest of the root is read-only."""
    [spec] = pod_specs([only(manifests, "StatefulSet")])
    [container] = spec["containers"]
    [data_dir] = [
        v["value"] for v in container["env"] if v["name"] == "PATHGATE_DATA_DIR"
    ]
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert data_dir.startswith(mounts["state"] + "/")
    claims = only(manifests, "StatefulSet")["spec"].get("volumeClaimTemplates", [])
    named = {v["name"] for v in spec["volumes"]}
    named |= {claim["metadata"]["name"] for claim in claims}
    assert set(mounts) <= named


def test_probes_ask_what_each_may_ask(manifests: list[Manifest]) -> None:
    """Liveness and startup never look at recovery; only readiness may."""
    [spec] = pod_specs([only(manifests, "StatefulSet")])
    [container] = spec["containers"]
    paths = {
        probe: container[f"{probe}Probe"]["httpGet"]["path"]
        for probe in ("startup", "liveness", "readiness")
    }
    assert paths == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}
    startup = container["startupProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] >= 300
    assert container["livenessProbe"]["failureThreshold"] >= 3
    assert container["livenessProbe"]["timeoutSeconds"] >= 2
    assert spec["terminationGracePeriodSeconds"] >= 60


def test_workers_start_together(manifests: list[Manifest]) -> None:
    """No worker waits for another one's recovery."""
    assert only(manifests, "StatefulSet")["spec"]["podManagementPolicy"] == "Parallel"


def test_settings_change_restarts_the_workers(run: Run) -> None:
    """Another setting gives the pods another checksum, the same one the same."""

    def checksum(*more: str) -> str:
        done = run(
            *("helm", "template", "eval", "deploy/helm/pathgate"),
            *("-s", "templates/statefulset.yaml"),
            *("--set", "kafka.bootstrapServers=kafka:9092", *more),
        )
        pod = yaml.safe_load(done.stdout)["spec"]["template"]["metadata"]
        return str(pod["annotations"]["checksum/config"])

    assert checksum() == checksum()
    assert checksum() != checksum("--set", "config.late_window_s=90000")


# ------------------------------------------------------------ beside the worker


def test_budget_follows_the_count(rendered: dict[str, list[Manifest]]) -> None:
    """At most one worker is taken at a time, and a single one never blocks a drain."""
    for case, manifests in rendered.items():
        budgets = [d for d in manifests if d["kind"] == "PodDisruptionBudget"]
        if case == "minimal":
            assert budgets == []
            continue
        [budget] = budgets
        assert budget["spec"]["maxUnavailable"] == 1
        assert "minAvailable" not in budget["spec"]
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_scaler_owns_the_count(rendered: dict[str, list[Manifest]]) -> None:
    """With KEDA the set names no count; it scales by lag, within the partitions."""
    manifests = rendered["everything"]
    stateful = only(manifests, "StatefulSet")
    scaler = only(manifests, "ScaledObject")["spec"]
    assert "replicas" not in stateful["spec"]
    assert scaler["scaleTargetRef"]["name"] == stateful["metadata"]["name"]
    assert scaler["minReplicaCount"] >= 1
    assert (
        scaler["maxReplicaCount"] == settings_of(manifests, "-settings")["partitions"]
    )


@pytest.mark.parametrize("case", ["everything", "tls-sasl"])
def test_scaler_watches_the_event_topics(
    rendered: dict[str, list[Manifest]], case: str
) -> None:
    """The lag is that of the worker's group on the topics that the settings name."""
    told = settings_of(rendered[case], "-settings")
    plain = {k: v for k, v in told.items() if k.startswith("topic_") or k == "app_id"}
    settings = Settings.load(plain, {})
    triggers = only(rendered[case], "ScaledObject")["spec"]["triggers"]
    watched = {trigger["metadata"]["topic"] for trigger in triggers}
    assert watched == set(names_from(settings).sources)
    groups = {trigger["metadata"]["consumerGroup"] for trigger in triggers}
    assert groups == {settings.app_id}
    for trigger in triggers:
        assert trigger["metadata"]["offsetResetPolicy"] == "earliest"
        assert trigger["metadata"]["allowIdleConsumers"] == "false"


def test_scaler_speaks_the_brokers_protocol(
    rendered: dict[str, list[Manifest]],
) -> None:
    """KEDA's own words for SCRAM-SHA-512 over TLS, with the credentials' reference."""
    triggers = only(rendered["tls-sasl"], "ScaledObject")["spec"]["triggers"]
    for trigger in triggers:
        assert trigger["metadata"]["sasl"] == "scram_sha512"
        assert trigger["metadata"]["tls"] == "enable"
        assert trigger["authenticationRef"] == {"name": "kafka"}


def test_network_policy_lets_out_what_is_needed(
    rendered: dict[str, list[Manifest]],
) -> None:
    """In: the one port. Out: DNS and the brokers' ports, taken from the addresses."""
    policy = only(rendered["everything"], "NetworkPolicy")["spec"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    [ingress] = policy["ingress"]
    assert [port["port"] for port in ingress["ports"]] == ["http"]
    out = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert out == {53, 9092, 9192, 4317}


def test_monitor_names_the_job_that_the_rules_select(
    rendered: dict[str, list[Manifest]],
) -> None:
    """Series get job="pathgate" whatever the release is called."""
    monitor = only(rendered["everything"], "PodMonitor")["spec"]
    [endpoint] = monitor["podMetricsEndpoints"]
    assert {"targetLabel": "job", "replacement": "pathgate"} in endpoint["relabelings"]
    assert (endpoint["port"], endpoint["path"]) == ("http", "/metrics")
    labels = only(rendered["everything"], "StatefulSet")["spec"]["template"][
        "metadata"
    ]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()


def test_rules_are_those_of_prometheus(
    root: Path, rendered: dict[str, list[Manifest]]
) -> None:
    """The PrometheusRule holds the groups of rules.yml, template marks untouched."""
    rules = yaml.safe_load((root / "deploy/prometheus/rules.yml").read_text("utf-8"))
    assert only(rendered["everything"], "PrometheusRule")["spec"] == rules


def test_dashboards_are_those_of_grafana(
    root: Path, rendered: dict[str, list[Manifest]]
) -> None:
    """The ConfigMap holds each dashboard of deploy/grafana under its file name."""
    sources = (root / "deploy/grafana/dashboards").glob("*.json")
    expected = {path.name: json.loads(path.read_text("utf-8")) for path in sources}
    document = only(rendered["everything"], "ConfigMap", "-dashboards")
    held = document.get("data") or {}
    assert {name: json.loads(text) for name, text in held.items()} == expected
    assert document["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_hooks_bring_what_they_need(rendered: dict[str, list[Manifest]]) -> None:
    """The topics job runs before the release's objects exist, so it uses none of them."""
    manifests = rendered["everything"]
    job = only(manifests, "Job")
    spec = job["spec"]["template"]["spec"]
    hooked = {
        doc["metadata"]["name"]: int(
            doc["metadata"]["annotations"]["helm.sh/hook-weight"]
        )
        for doc in manifests
        if "helm.sh/hook" in doc["metadata"].get("annotations", {})
        and doc["kind"] == "ConfigMap"
    }
    used = {v["configMap"]["name"] for v in spec["volumes"] if "configMap" in v}
    assert used == hooked.keys()
    assert max(hooked.values()) < int(
        job["metadata"]["annotations"]["helm.sh/hook-weight"]
    )
    assert "serviceAccountName" not in spec
