"""Schemas, models and examples say the same."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from schemas import catalog, codec
from schemas.catalog import Example
from schemas.errors import DecodeCode, SchemaError, SchemaNotFoundError
from schemas.reasons import RunReason, TaskReason, TrialReason
from schemas.records import DeadLetterHeaders
from streams.agents.control import decode_control

ID_PREFIX = "urn:pathgate:schema:v1:"
NAMES = (
    "agent-eval-suite",
    "aliases",
    "control",
    "dead-letter",
    "eval-summary",
    "event",
    "gate-alert",
    "suite-summary",
    "task-summary",
)

READERS: dict[str, Callable[[bytes], object]] = {
    "agent-eval-suite": lambda data: codec.decode_suite(data, "example"),
    "aliases": lambda data: codec.decode_aliases(data, "example"),
    "control": decode_control,
    "dead-letter": lambda data: msgspec.json.decode(data, type=DeadLetterHeaders),
    "eval-summary": lambda data: codec.decode_summary(data, "example"),
    "event": codec.decode_event,
    "gate-alert": codec.decode_alert,
    "suite-summary": codec.decode_suite_record,
    "task-summary": codec.decode_task_record,
}


@cache
def validator(name: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(catalog.schema(name), validate_formats=True)


def accepts(reader: Callable[[bytes], object], data: bytes) -> bool:
    try:
        reader(data)
    except (SchemaError, msgspec.ValidationError):
        return False
    return True


def all_examples() -> list[Any]:
    return [
        pytest.param(name, example, id=f"{name}/{example.name}")
        for name in NAMES
        for example in catalog.examples(name)
    ]


@pytest.mark.parametrize(("name", "example"), all_examples())
def test_schema_and_model_agree_with_the_example(name: str, example: Example) -> None:
    """Both accept what an example calls valid, and refuse the rest."""
    by_schema = validator(name).is_valid(json.loads(example.data))
    by_model = accepts(READERS[name], example.data)
    assert (by_schema, by_model) == (example.is_valid, example.is_valid)


def test_names_are_those_of_the_catalog() -> None:
    """No schema is left out here."""
    assert catalog.schema_names() == NAMES
    assert set(READERS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_schema_has_examples_of_both_kinds(name: str) -> None:
    """A schema without a refused example could accept everything."""
    kinds = {example.is_valid for example in catalog.examples(name)}
    assert kinds == {True, False}


@pytest.mark.parametrize("name", NAMES)
def test_schema_is_one_of_2020_12(name: str) -> None:
    """Each schema passes the metaschema and has the id of its name."""
    schema = catalog.schema(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == ID_PREFIX + name
    jsonschema_rs.meta.validate(schema)


def test_metaschema_refuses_a_broken_schema() -> None:
    """The check above can fail."""
    assert not jsonschema_rs.meta.is_valid(catalog.schema("event") | {"type": "objekt"})


def test_each_schema_stands_alone() -> None:
    """Every reference stays in its file, so that one file is enough to validate."""
    for name in NAMES:
        references = set(find_references(catalog.schema(name)))
        assert {each.partition("/")[0] for each in references} <= {"#"}


def find_references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from find_references(value)
    elif isinstance(node, list):
        for item in node:
            yield from find_references(item)


def test_what_several_schemas_define_is_the_same() -> None:
    """A definition repeated in another file is repeated word for word."""
    first: dict[str, tuple[str, object]] = {}
    repeated = set()
    for name in ("eval-summary", "task-summary", "suite-summary", "gate-alert"):
        for key, definition in catalog.schema(name)["$defs"].items():
            if key in first:
                repeated.add(key)
            assert first.setdefault(key, (name, definition))[1] == definition, key
    assert {"task", "reason", "runReason", "evidence", "ratio"} <= repeated


def test_scorecard_of_a_suite_summary_is_an_eval_summary() -> None:
    """``summary`` has the form of the scorecard on its own."""
    own = catalog.schema("eval-summary")
    embedded = catalog.schema("suite-summary")["$defs"]["evalSummary"]
    outer = {"$schema", "$id", "$defs", "title"}
    assert embedded == {key: own[key] for key in own if key not in outer}


def test_catalog_does_not_depend_on_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Schemas are data of the package."""
    monkeypatch.chdir(tmp_path)
    assert catalog.schema("event")["title"] == "Run event"
    assert any(catalog.examples("event"))


def test_unknown_name_is_told_with_those_there_are() -> None:
    """A misspelt name gets the list."""
    with pytest.raises(SchemaNotFoundError, match="'events': expected one of agent-"):
        catalog.schema("events")
    with pytest.raises(SchemaNotFoundError, match=r"'\.\./suite'"):
        list(catalog.examples("../suite"))


# openwop.requirement.0246.gated-fields-shape (RFC 0246, Conformance): both
# fields validate, and a value outside 0 to 1 fails.
@pytest.mark.parametrize(
    ("value", "conforms"),
    [
        ("0", True),
        ("0.45", True),
        ("1", True),
        ("1.0", True),
        ("-0.0001", False),
        ("1.0001", False),
        ("-1", False),
        ("2", False),
        ('"0.5"', False),
        ("null", False),
        ("true", False),
        ("[0.5]", False),
    ],
)
@pytest.mark.parametrize("field", ["gatedScore", "gatedAggregateScore"])
def test_openwop_requirement_0246_gated_fields_shape(
    field: str,
    value: str,
    conforms: bool,  # noqa: FBT001  # the expected value
) -> None:
    """openwop.requirement.0246.gated-fields-shape, in schema and model."""
    example = next(
        each
        for each in catalog.examples("eval-summary")
        if each.name == "valid-gated.json"
    )
    document = json.loads(example.data)
    place = document if field == "gatedAggregateScore" else document["tasks"][0]
    assert field in place
    place[field] = json.loads(value)
    data = json.dumps(document).encode()
    assert validator("eval-summary").is_valid(document) is conforms
    assert accepts(READERS["eval-summary"], data) is conforms
    assert (
        accepts(lambda each: codec.decode_suite_record(_as_record(each)), data)
        is conforms
    )


def _as_record(summary: bytes) -> bytes:
    return (
        b'{"recordVersion":1,"runId":"acme/run","outcome":"complete",'
        b'"evidence":{"calls":0,"scores":0},"summary":%b,"reasons":[],'
        b'"legacyPassed":true}' % summary
    )


@pytest.mark.parametrize(
    ("reasons", "name"),
    [
        (TrialReason, "trialReason"),
        (TaskReason, "taskReason"),
        (RunReason, "runReason"),
    ],
)
def test_reasons_are_those_of_the_schema(
    reasons: type[TrialReason] | type[TaskReason] | type[RunReason], name: str
) -> None:
    """The closed lists of reasons are the same, in the same order."""
    listed = catalog.schema("gate-alert")["$defs"][name]["enum"]
    assert listed == [reason.value for reason in reasons]


def test_decode_codes_are_those_of_the_schema() -> None:
    """Every kind of fault can stand on a dead letter."""
    properties = catalog.schema("dead-letter")["properties"]
    assert properties["pathgate.reason"]["enum"] == [code.value for code in DecodeCode]
