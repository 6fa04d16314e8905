#!/usr/bin/env python3
"""Fills config.toml into rules.yml.in and prints rules.yml.

Needs nothing but Python 3.11. ``@{name}`` stands for a setting, since ``$`` and
``{{ }}`` are Prometheus' own.
"""

import argparse
import string
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class _Template(string.Template):
    """``@{name}`` with dots in names; nothing else is special."""

    delimiter = "@"
    braceidpattern = r"[a-z_]+(?:\.[a-z_]+)*"
    idpattern = r"(?!)"


def settings(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The settings of a configuration by dotted name, as text."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from settings(value, f"{prefix}{name}.")
        else:
            yield prefix + name, str(value)


def render(template: str, config: Mapping[str, Any]) -> str:
    """The template with every ``@{name}`` replaced.

    Raises:
        KeyError: The template names a setting the configuration lacks.
    """
    return _Template(template).substitute(dict(settings(config)))


def main() -> None:
    """Print the rules for the configuration named on the command line."""
    parser = argparse.ArgumentParser(description="Print rules.yml for a configuration.")
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--template", type=Path, default=HERE / "rules.yml.in")
    given = parser.parse_args()
    config = tomllib.loads(given.config.read_text("utf-8"))
    sys.stdout.write(render(given.template.read_text("utf-8"), config))


if __name__ == "__main__":
    main()
