"""Every field of a model is in its schema, with the same bounds, and back."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import inspect

from schemas import catalog
from schemas.event_reader import _EndedWire, _ScoredWire
from schemas.events import Envelope, EvalCompleted, EvalStarted, ToolCalled
from schemas.reasons import Reason, RunReason, TaskReason, TrialReason
from schemas.records import (
    AlertRecord,
    DeadLetterHeaders,
    Disagreement,
    DisagreementKind,
    SuiteRecord,
    TaskRecord,
)
from schemas.suite import EXTENSION_PREFIXES, Expected, Suite, Task
from schemas.summary import EvalSummary
from streams.agents.control import Control

Schema = dict[str, Any]

ROOTS: dict[str, tuple[type, str, str]] = {
    "suite": (Suite, "agent-eval-suite", ""),
    "summary": (EvalSummary, "eval-summary", ""),
    "task record": (TaskRecord, "task-summary", ""),
    "suite record": (SuiteRecord, "suite-summary", ""),
    "alert": (AlertRecord, "gate-alert", ""),
    "reason": (Reason, "gate-alert", "/$defs/reason"),
    "dead letter": (DeadLetterHeaders, "dead-letter", ""),
    "control": (Control, "control", ""),
    "envelope": (Envelope, "event", ""),
    "tool called": (ToolCalled, "event", "/$defs/toolCalled"),
    "eval started": (EvalStarted, "event", "/$defs/evalStarted"),
    "eval scored": (_ScoredWire, "event", "/$defs/evalScored"),
    "eval completed": (EvalCompleted, "event", "/$defs/evalCompleted"),
    "run ended": (_EndedWire, "event", "/$defs/runEnded"),
}
OPEN = {"event", "control"}
EXTENSIBLE = (Suite, Task, Expected)
EXTENSION_PATTERN = "^(" + "|".join(EXTENSION_PREFIXES).replace(".", "\\.") + ")"

# Fields whose model is a pattern or undecoded bytes, where the schema says more:
# lists of codes, and bounds that the reader checks on the text of a number.
SAID_BY_SCHEMA = {
    ("Reason", "code"),
    ("Disagreement", "kind"),
    ("_ScoredWire", "score"),
    ("_ScoredWire", "costUsd"),
    ("Envelope", "timestamp"),
}

Fault = str


def resolve(schema: Schema, root: Schema) -> Schema:
    """The schema a reference stands for."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    target = root
    for part in reference.split("/")[1:]:
        target = target[part]
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    return resolve({**target, **rest}, root)


def faults(
    declared: inspect.Type, schema: Schema, root: Schema, path: str
) -> Iterator[Fault]:
    """Where a model and a schema differ."""
    schema = resolve(schema, root)
    match declared:
        case inspect.StructType():
            yield from struct_faults(declared, schema, root, path)
        case inspect.UnionType():
            yield from union_faults(declared, schema, root, path)
        case inspect.VarTupleType():
            yield from same(schema, path, type="array", minItems=declared.min_length)
            yield from faults(declared.item_type, schema["items"], root, f"{path}[]")
        case inspect.DictType():
            yield from same(schema, path, type="object")
            names = schema["propertyNames"]
            yield from faults(declared.key_type, names, root, f"{path}{{key}}")
            values = schema["additionalProperties"]
            yield from faults(declared.value_type, values, root, f"{path}{{}}")
        case inspect.RawType():
            yield from same(schema, path)
        case _:
            yield from same(schema, path, **scalar(declared))


def scalar(declared: inspect.Type) -> Schema:
    """What a schema says of a type without parts."""
    match declared:
        case inspect.StrType():
            pattern = declared.pattern
            return {
                "type": "string",
                "minLength": declared.min_length,
                "maxLength": declared.max_length,
                "pattern": pattern.replace("\\Z", "$") if pattern else None,
            }
        case inspect.IntType():
            return {
                "type": "integer",
                "minimum": declared.ge,
                "maximum": declared.le,
            }
        case inspect.FloatType():
            return {
                "type": "number",
                "minimum": declared.ge,
                "maximum": declared.le,
            }
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.EnumType():
            return {"enum": [each.value for each in declared.cls]}
        case inspect.LiteralType():
            return {"const": declared.values[0]}
    raise AssertionError(declared)


KEYWORDS = {
    "type",
    "enum",
    "const",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "anyOf",
}


def same(schema: Schema, path: str, **expected: object) -> Iterator[Fault]:
    """Each keyword that bounds a value, held against what the model says."""
    for keyword in sorted(KEYWORDS):
        wanted, found = expected.get(keyword), schema.get(keyword)
        if wanted != found:
            yield f"{path}: {keyword}: model {wanted!r}, schema {found!r}"


def struct_faults(
    declared: inspect.StructType, schema: Schema, root: Schema, path: str
) -> Iterator[Fault]:
    """Keys, required keys and openness, then each field."""
    yield from same(schema, path, type="object")
    fields = {field.encode_name: field for field in declared.fields}
    properties = schema.get("properties", {})
    yield from equal(set(fields), set(properties), f"{path}: keys")
    required = {name for name, field in fields.items() if field.required}
    yield from equal(required, set(schema.get("required", [])), f"{path}: required")
    is_open = root["$id"].rpartition(":")[2] in OPEN
    patterns = {EXTENSION_PATTERN: True} if declared.cls in EXTENSIBLE else None
    yield from equal(patterns, schema.get("patternProperties"), f"{path}: patterns")
    closed = None if is_open else False
    yield from equal(closed, schema.get("additionalProperties"), f"{path}: closed")
    if not is_open and patterns is None:
        yield from equal({declared.forbid_unknown_fields}, {True}, f"{path}: closed")
    for name in fields.keys() & properties.keys():
        if (declared.cls.__name__, name) not in SAID_BY_SCHEMA:
            yield from faults(
                fields[name].type, properties[name], root, f"{path}.{name}"
            )


def equal(model: object, schema: object, what: str) -> Iterator[Fault]:
    if model != schema:
        yield f"{what}: model {model!r}, schema {schema!r}"


def union_faults(
    declared: inspect.UnionType, schema: Schema, root: Schema, path: str
) -> Iterator[Fault]:
    """Optional fields; null only where the schema of events allows it."""
    types = [
        each
        for each in declared.types
        if not isinstance(each, inspect.NoneType | inspect.CustomType)
        and "Unset" not in type(each).__name__
    ]
    is_nullable = isinstance(schema.get("type"), list) and "null" in schema["type"]
    if root["$id"].endswith(":event"):
        may_be_none = any(isinstance(each, inspect.NoneType) for each in declared.types)
        yield from equal(may_be_none, is_nullable, f"{path}: null")
    if is_nullable:
        schema = {**schema, "type": schema["type"][0]}
    if len(types) == 1:
        yield from faults(types[0], schema, root, path)
    elif "anyOf" in schema:
        for option, inner in zip(types, schema["anyOf"], strict=True):
            yield from faults(option, inner, root, f"{path}|")
    else:
        names = {scalar(each)["type"] for each in types} - {"integer"}
        listed = (
            schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        )
        yield from equal(names, set(listed), f"{path}: type")


@pytest.mark.parametrize("root", ROOTS)
def test_model_and_schema_have_the_same_fields(root: str) -> None:
    """Keys, what is required, types and bounds are the same all the way down."""
    model, name, pointer = ROOTS[root]
    document = catalog.schema(name)
    schema = resolve({"$ref": f"#{pointer}"}, document)
    assert list(faults(inspect.type_info(model), schema, document, root)) == []


@pytest.mark.parametrize(
    ("keyword", "value"),
    [("required", []), ("additionalProperties", True), ("properties", {})],
)
def test_comparison_sees_a_difference(keyword: str, value: object) -> None:
    """The comparison above can fail."""
    document = catalog.schema("gate-alert") | {keyword: value}
    assert list(faults(inspect.type_info(AlertRecord), document, document, "alert"))


def test_comparison_sees_a_bound() -> None:
    """It sees a bound that differs, far down."""
    document = catalog.schema("agent-eval-suite")
    document["$defs"]["limit"]["minimum"] = 1
    found = list(faults(inspect.type_info(Suite), document, document, "suite"))
    assert len(found) == 4
    assert found[0].endswith("minimum: model 0, schema 1")


def test_codes_are_those_of_the_schema() -> None:
    """The patterns of the models let exactly the listed codes pass."""
    reasons = {*TrialReason, *TaskReason, *RunReason}
    for model, name, codes in (
        (Reason, "code", reasons),
        (Disagreement, "kind", set(DisagreementKind)),
    ):
        info = inspect.type_info(model)
        assert isinstance(info, inspect.StructType)
        field = next(each for each in info.fields if each.encode_name == name)
        assert isinstance(field.type, inspect.StrType)
        pattern = (field.type.pattern or "").replace("\\-", "-")
        assert pattern == "^(?:" + "|".join(sorted(codes)) + ")\\Z"


def test_disagreements_are_those_of_the_schema() -> None:
    """In one order."""
    schema = catalog.schema("suite-summary")["$defs"]["disagreement"]
    kinds = [kind.value for kind in DisagreementKind]
    assert schema["properties"]["kind"]["enum"] == kinds
