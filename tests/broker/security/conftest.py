"""A broker as ``deploy/compose/tls.yaml`` configures it, run without containers.

What the compose files say of the broker, its users and their rights is taken from
them word for word; only paths, ports and host names are this machine's. So what
passes here is what a user of those files gets.
"""

import itertools
import os
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.kafka import broker
from streams.settings import Settings

ROOT = Path(__file__).parents[3]
COMPOSE = ROOT / "deploy" / "compose.yaml"
TLS = ROOT / "deploy" / "compose" / "tls.yaml"
# The classes behind the scripts of Kafka's distribution that ours call.
_TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions.sh": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
}


@dataclass(frozen=True, kw_only=True)
class SecureBroker:
    """The broker that runs, and what a client needs to be let in.

    Args:
        home: Directory of everything: certificates, passwords, logs.
        internal: ``host:port`` of the listener with client certificates.
        client: ``host:port`` of the listener with passwords.
        kafka_bin: Directory that stands for the distribution's ``bin``.
    """

    home: Path
    internal: str
    client: str
    kafka_bin: Path

    @property
    def certs(self) -> Path:
        """What ``make-certs.sh`` made, the administrator's properties beside."""
        return self.home / "certs"

    def password(self, user: str) -> str:
        """The password that the broker was told of."""
        text = (self.certs / f"{user}.password").read_text(encoding="ascii")
        return text.strip()

    def settings(self, user: str, **more: object) -> Settings:
        """Settings of pathgate for one of the users."""
        flags: dict[str, object] = {
            "bootstrap_servers": self.client,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": user,
            "sasl_password_file": str(self.certs / f"{user}.password"),
            "ssl_ca_file": str(self.certs / "ca.crt"),
            "replication_factor": 1,
            "min_insync_replicas": 1,
            "partitions": 2,
        }
        return Settings.load(flags | more, {})

    def aiokafka(self, user: str, **more: object) -> dict[str, Any]:
        """Options of a plain aiokafka client for one of the users."""
        context = ssl.create_default_context(cafile=str(self.certs / "ca.crt"))
        return {
            "bootstrap_servers": self.client,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": user,
            "sasl_plain_password": self.password(user),
            "ssl_context": context,
            **more,
        }

    def tool(self, name: str, *args: str) -> subprocess.CompletedProcess[str]:
        """Runs one of Kafka's scripts as the administrator."""
        command = [str(self.kafka_bin / name), "--bootstrap-server", self.internal]
        command += ["--command-config", str(self.certs / "admin.properties"), *args]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60
        )


def property_name(variable: str) -> str:
    """The server property that the image makes of a variable.

    Source: the official image's rule: ``_`` is a dot, ``__`` an underscore,
        ``___`` a dash.
    """
    dotted = variable.removeprefix("KAFKA_").lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")


def read_properties() -> dict[str, str]:
    """What both compose files together make of ``server.properties``."""
    base = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    over = yaml.safe_load(TLS.read_text(encoding="utf-8"))
    both = (doc["services"]["kafka"]["environment"] for doc in (base, over))
    variables = dict(itertools.chain.from_iterable(env.items() for env in both))
    return {
        property_name(name): value
        for name, value in variables.items()
        if name.startswith("KAFKA_") and name != "KAFKA_HEAP_OPTS"
    }


def localise(text: str, home: Path, ports: dict[str, int]) -> str:
    """The container's paths, ports and names turned into this machine's."""
    for old, new in {
        "/run/secrets": str(home / "certs"),
        "/var/lib/kafka/data": str(home / "data"),
        "@kafka:": "@localhost:",
        "//kafka:": "//localhost:",
        "//:": "//localhost:",
    }.items():
        text = text.replace(old, new)
    for old, port in ports.items():
        text = text.replace(f":{old}", f":{port}")
    return text


def _java() -> list[str]:
    return [
        str(broker.find_java()),
        *broker._jvm_options(512),
        *broker._shared_classes(),
        "-cp",
        broker._class_path(),
    ]


def _write_tools(target: Path) -> None:
    """Scripts with the names of the distribution's, over the harness's jars."""
    target.mkdir()
    words = " ".join(f"'{word}'" for word in _java())
    for name, tool in _TOOLS.items():
        script = target / name
        script.write_text(f'#!/bin/sh\nexec {words} {tool} "$@"\n', encoding="utf-8")
        script.chmod(0o755)


def _answers(secure: SecureBroker) -> bool:
    """Whether the health check of the compose file passes."""
    return secure.tool("kafka-broker-api-versions.sh").returncode == 0


@pytest.fixture(scope="session")
def secure(
    _broker_tier: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureBroker]:
    """The broker with TLS, passwords and exactly the shipped rights."""
    home = tmp_path_factory.mktemp("secure")
    numbers = broker.free_ports(4)
    ports = dict(zip(("19092", "9094", "9092", "9093"), numbers, strict=True))
    _run(["bash", str(ROOT / "deploy/compose/make-certs.sh"), str(home / "certs")])
    admin = (ROOT / "deploy/compose/admin.properties").read_text(encoding="ascii")
    (home / "certs" / "admin.properties").write_text(localise(admin, home, ports))
    properties = home / "server.properties"
    lines = [f"{key}={value}" for key, value in read_properties().items()]
    properties.write_text(localise("\n".join(lines), home, ports), encoding="utf-8")
    cluster_id = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"][
        "kafka"
    ]["environment"]["CLUSTER_ID"]
    broker.java_tool(
        "kafka.tools.StorageTool",
        *("format", "--cluster-id", cluster_id, "--config", str(properties)),
    )
    _write_tools(home / "bin")
    found = SecureBroker(
        home=home,
        internal=f"localhost:{ports['19092']}",
        client=f"localhost:{ports['9094']}",
        kafka_bin=home / "bin",
    )
    with (home / "server.log").open("wb") as log:
        process = broker._spawn([*_java(), "kafka.Kafka", str(properties)], log)
    try:
        if not broker._poll(lambda: _answers(found) or process.poll() is not None, 90):
            pytest.fail(_tail(home), pytrace=False)
        if process.poll() is not None:
            pytest.fail(_tail(home), pytrace=False)
        _run(
            [
                *("bash", str(ROOT / "deploy/compose/users.sh"), found.internal),
                *(str(found.certs / "admin.properties"), str(found.certs)),
            ],
            KAFKA_BIN=str(found.kafka_bin),
        )
        yield found
    finally:
        process.kill()
        process.wait()


def _tail(home: Path) -> str:
    text = (home / "server.log").read_text(encoding="utf-8", errors="replace")
    return f"the broker did not start:\n{text[-3000:]}"


def _run(command: list[str], **env: str) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={**os.environ, **env},
    )
    if done.returncode != 0:
        pytest.fail(f"{command}: {done.stdout}{done.stderr}", pytrace=False)
