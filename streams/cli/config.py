"""``pathgate config``: every setting, its value and its origin."""

import json
from typing import Any

import click
import msgspec

from streams.cli.exit_codes import ExitCode
from streams.cli.group import Entry, ExampleCommand, LazyGroup
from streams.cli.options import help_of, settings_command
from streams.cli.table import columns
from streams.cli.terminal import Terminal
from streams.settings import FIELDS, SECRET_FILES, Settings, Values, variable_of

HIDDEN = "***"
UNSET = "(not set)"

config = click.group(
    name="config",
    cls=LazyGroup,
    entries={
        "show": Entry(f"{__name__}:show", "Print each setting and its origin."),
        "schema": Entry(f"{__name__}:schema", "Print the JSON Schema of the file."),
    },
    help="Show settings and their origin.",
)(lambda: None)


@settings_command(
    "show",
    codes=(ExitCode.OK, ExitCode.USAGE, ExitCode.CONFIGURATION),
    examples=(
        "pathgate config show",
        "pathgate config show --config pathgate.toml --format json",
        "PATHGATE_LOG_LEVEL=DEBUG pathgate config show --format toml > pathgate.toml",
    ),
    help="Print each setting, its value and where it came from; secrets are hidden."
    " Every setting is a flag too, such as --late-window-s 3600.",
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json", "toml"]),
    default="text",
    show_default=True,
)
def show(terminal: Terminal, *, settings: Settings, style: str) -> ExitCode:
    """Prints the settings."""
    rows = [
        *((name, getattr(settings, name), settings.origins[name]) for name in FIELDS),
        *(_secret(name, settings) for name in SECRET_FILES),
    ]
    if style == "json":
        facts = {
            name: {"value": value, "origin": origin, "about": _about(name)}
            for name, value, origin in rows
        }
        terminal.write(json.dumps(facts, indent=2) + "\n")
    elif style == "toml":
        terminal.write("".join(_toml(*row) for row in rows if row[0] in FIELDS))
    else:
        terminal.write(
            columns([(n, _text(value), who, _about(n)) for n, value, who in rows])
        )
    return ExitCode.OK


def _secret(name: str, settings: Settings) -> tuple[str, str | None, str]:
    value = getattr(settings, name)
    origin = settings.origins.get(name, settings.origins[SECRET_FILES[name]])
    return name, None if value is None else HIDDEN, origin


def _about(name: str) -> str:
    if name in FIELDS:
        return help_of(name)
    return f"The secret itself; of {SECRET_FILES[name]}, or {variable_of(name)}."


def _text(value: Any) -> str:
    if value is None or value == "":
        return UNSET
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _toml(name: str, value: Any, origin: str) -> str:
    about = f"# {_about(name)} ({origin})\n"
    # TOML has no null, and an empty value is the same as none.
    if value is None:
        return f"{about}# {name} =\n\n"
    # A JSON string, number or boolean is a TOML one.
    return f"{about}{name} = {json.dumps(value)}\n\n"


@click.command(
    "schema",
    cls=ExampleCommand,
    examples=("pathgate config schema > pathgate.schema.json",),
    help="Print the JSON Schema of the settings file, for editors.",
)
@click.pass_obj
def schema(terminal: Terminal) -> ExitCode:
    """Prints the schema."""
    document = msgspec.json.schema(Values)
    body = document["$defs"].pop("Values")
    body["additionalProperties"] = False
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **body,
        "$defs": document["$defs"],
    }
    terminal.write(json.dumps(whole, indent=2) + "\n")
    return ExitCode.OK
