"""What the chart takes from the rest of the project, since Helm reads no file outside.

Copies the alert rules and dashboards into the chart, and writes the schema of
``config`` from the settings. A test holds the results equal to their sources::

    python -m deploy.helm.sync     # from the project's root, after any of them changed
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from streams.settings import FIELDS, Values

CHART = Path(__file__).with_name("pathgate")
DEPLOY = CHART.parents[1]
SCHEMA = CHART / "values.schema.json"
# Settings that the chart derives from other values, or from the pod.
DERIVED = frozenset(
    {
        "args_digest_key_file",
        "bootstrap_servers",
        "client_id",
        "data_dir",
        "group_instance_id",
        "sasl_mechanism",
        "sasl_password_file",
        "sasl_username",
        "security_protocol",
        "ssl_ca_file",
        "ssl_cert_file",
        "ssl_check_hostname",
        "ssl_key_file",
        "ssl_key_password_file",
        "suites_dir",
        "web_host",
        "web_port",
    }
)


def config_schema() -> dict[str, Any]:
    """The JSON Schema, draft-07, of the settings that ``config`` accepts."""
    document = msgspec.json.schema(Values)
    definitions = document["$defs"]
    properties = definitions["Values"]["properties"]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: _inlined(properties[name], definitions)
            for name in FIELDS
            if name not in DERIVED
        },
    }


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    """The schema with every reference replaced by what it names."""
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].removeprefix("#/$defs/")]
        rest = {k: v for k, v in node.items() if k != "$ref"}
        # The word's own description is about the type, not about the setting.
        bare = {k: v for k, v in target.items() if k not in {"title", "description"}}
        return _inlined(bare, definitions) | rest
    return {key: _inlined(value, definitions) for key, value in node.items()}


def schema_text() -> str:
    """The chart's schema as it should be: what is there, ``config`` renewed."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    schema["properties"]["config"] = config_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def files() -> dict[Path, str]:
    """Each file that is derived, and what it should hold."""
    found = {SCHEMA: schema_text()}
    rules = DEPLOY / "prometheus" / "rules.yml"
    found[CHART / "files" / "rules.yml"] = rules.read_text(encoding="utf-8")
    for dashboard in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
        target = CHART / "files" / "dashboards" / dashboard.name
        found[target] = dashboard.read_text(encoding="utf-8")
    return found


def strays() -> list[Path]:
    """Files of the chart whose source is no more."""
    wanted = files()
    held = (CHART / "files").rglob("*")
    return sorted(path for path in held if path.is_file() and path not in wanted)


def main() -> int:
    """Writes the files and removes strays; returns 0."""
    for path in strays():
        path.unlink()
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
