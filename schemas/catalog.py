"""Finds the JSON Schemas and their examples by name, wherever it is installed."""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple

from schemas.errors import SchemaNotFoundError

_SUFFIX = ".schema.json"
_PACKAGE = files("schemas")

ASYNCAPI_FILE = "asyncapi.yaml"


class Example(NamedTuple):
    """One example of a document.

    Args:
        name: File name.
        is_valid: Whether the document is one of its schema.
        data: Its bytes.
    """

    name: str
    is_valid: bool
    data: bytes


def schema_names() -> tuple[str, ...]:
    """The names of all schemas, sorted."""
    names = (entry.name for entry in _PACKAGE.iterdir())
    return tuple(
        sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    )


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a name.

    It stands alone: no reference leaves the document.

    Raises:
        SchemaNotFoundError: There is none of that name.
    """
    if name not in schema_names():
        raise SchemaNotFoundError(name, schema_names())
    loaded: dict[str, Any] = json.loads(_PACKAGE.joinpath(name + _SUFFIX).read_bytes())
    return loaded


def examples(name: str) -> Iterator[Example]:
    """The examples of a schema, sorted by file name; at least one of each kind.

    Raises:
        SchemaNotFoundError: There is no schema of that name.
    """
    if name not in schema_names():
        raise SchemaNotFoundError(name, schema_names())
    folder = _PACKAGE.joinpath("examples", name)
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        yield Example(entry.name, entry.name.startswith("valid-"), entry.read_bytes())


def asyncapi() -> str:
    """The AsyncAPI document of all topics, YAML."""
    return _PACKAGE.joinpath(ASYNCAPI_FILE).read_text(encoding="utf-8")
