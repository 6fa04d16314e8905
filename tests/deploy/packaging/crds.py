"""Checks custom resources against models of the operators' own schemas.

Runs in the venv of ``tools.sh``: reads a JSON list of manifests from standard
input, prints one line a problem. The models ignore what they do not know, so a key
that does not come back is one that the operator does not have.
"""

import importlib
import json
import sys
from collections.abc import Iterator

# By name, since the project's own environment does not have them.
MODULES = {
    "monitoring.coreos.com/v1": "cloudcoil.models.prometheus_operator.v1",
    "keda.sh/v1alpha1": "cloudcoil.models.keda.v1alpha1",
}


def find_lost(given: object, kept: object, path: str) -> Iterator[str]:
    """Paths that are in ``given`` and not in ``kept``."""
    if isinstance(given, dict):
        for key, value in given.items():
            if not isinstance(kept, dict) or key not in kept:
                yield f"{path}.{key}: unknown"
            else:
                yield from find_lost(value, kept[key], f"{path}.{key}")
    elif isinstance(given, list) and isinstance(kept, list):
        for index, (one, other) in enumerate(zip(given, kept, strict=True)):
            yield from find_lost(one, other, f"{path}[{index}]")


def main() -> int:
    """Checks each manifest; returns 1 if anything was printed."""
    problems = []
    for manifest in json.load(sys.stdin):
        kind = manifest["kind"]
        module = importlib.import_module(MODULES[manifest["apiVersion"]])
        model = getattr(module, kind)
        try:
            read = model.model_validate(manifest)
        except ValueError as error:
            problems.append(f"{kind}: {error}")
            continue
        kept = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
        problems += find_lost(manifest, kept, kind)
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
