"""The AsyncAPI document says what the models, the topics and the headers are."""

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import jsonschema_rs
import msgspec
import pytest
import yaml

from schemas import catalog, codec
from schemas.errors import DecodeError
from schemas.events import EventType
from schemas.records import DeadLetterHeaders
from streams.deadletter import dead_letter
from streams.publish import event_headers
from streams.settings import DeadLetterBody, Settings
from streams.topics import Role, TopicSpec, table_from

Node = dict[str, Any]

READERS: dict[str, Callable[[bytes], object]] = {
    **dict.fromkeys(
        (
            "toolCalled",
            "evalStarted",
            "evalScored",
            "evalCompleted",
            "runCompleted",
            "runFailed",
            "runCancelled",
        ),
        codec.decode_event,
    ),
    "suite": lambda data: codec.decode_suite(data, "example"),
    "taskSummary": codec.decode_task_record,
    "suiteSummary": codec.decode_suite_record,
    "gateAlert": codec.decode_alert,
}
WITHOUT_VALUE = ("suiteRemoved", "taskSummaryRemoved", "suiteSummaryRemoved")
RECORDS = ("taskSummary", "suiteSummary", "gateAlert")


@cache
def document() -> Node:
    loaded: Node = yaml.safe_load(catalog.asyncapi())
    return loaded


def messages() -> Node:
    found: Node = document()["components"]["messages"]
    return found


def at(reference: str) -> Any:
    """What a reference of the document stands for."""
    file, _, pointer = reference.partition("#")
    target: Any = document()
    if file:
        name = file.removeprefix("./").removesuffix(".schema.json")
        target = catalog.schema(name)
    for part in pointer.split("/")[1:]:
        target = target[part]
    return target


def inlined(schema: Any) -> Any:
    """A schema of the document with the schema files put in place."""
    if isinstance(schema, dict):
        reference = schema.get("$ref", "")
        if reference.startswith("./"):
            return at(reference)
        return {key: inlined(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [inlined(item) for item in schema]
    return schema


def validator(part: Node) -> jsonschema_rs.Validator:
    """Validates against a payload or headers, multi-format or plain."""
    return jsonschema_rs.Draft202012Validator(
        inlined(part.get("schema", part)), validate_formats=True
    )


class Sample(NamedTuple):
    message: str
    name: str
    payload: Any
    headers: Node | None


def samples() -> Iterator[Sample]:
    for name, message in messages().items():
        for example in message.get("examples", ()):
            yield Sample(
                name, example["name"], example["payload"], example.get("headers")
            )


def of_messages(*names: str) -> list[Any]:
    return [
        pytest.param(sample, id=f"{sample.message}/{sample.name}")
        for sample in samples()
        if sample.message in names
    ]


def test_every_message_has_an_example() -> None:
    """No message is left to be guessed, and none is unknown here."""
    assert {sample.message for sample in samples()} == set(messages())
    known = {*READERS, *WITHOUT_VALUE, "deadLetter"}
    assert set(messages()) == known


@pytest.mark.parametrize("sample", of_messages(*READERS))
def test_example_is_one_of_its_schema_and_model(sample: Sample) -> None:
    """Each example passes the schema it stands under, and our reader."""
    schema = messages()[sample.message]["payload"]
    assert schema["schemaFormat"] == "application/schema+json;version=draft-2020-12"
    validator(schema).validate(sample.payload)
    READERS[sample.message](json.dumps(sample.payload).encode())


@pytest.mark.parametrize("sample", of_messages(*READERS))
def test_example_is_not_one_of_another_message(sample: Sample) -> None:
    """No message passes for another."""
    for name in READERS:
        if name != sample.message:
            schema = messages()[name]["payload"]
            assert not validator(schema).is_valid(sample.payload), name


@pytest.mark.parametrize("name", WITHOUT_VALUE)
def test_removal_has_no_value(name: str) -> None:
    """A tombstone is null and nothing else."""
    assert messages()[name]["payload"]["type"] == "null"
    assert [sample.payload for sample in samples() if sample.message == name] == [None]


@pytest.mark.parametrize("sample", of_messages(*RECORDS))
def test_example_headers_are_those_of_its_record(sample: Sample) -> None:
    """CloudEvents headers are as documented, the id made of key and value."""
    headers = sample.headers
    assert headers is not None
    validator(cloud_event()).validate(headers)
    record = READERS[sample.message](json.dumps(sample.payload).encode())
    assert isinstance(record, msgspec.Struct)
    key, _, digest = headers["ce_id"].rpartition(":")
    assert digest == hashlib.sha256(codec.encode(record)).hexdigest()[:16]
    kafka_key = messages()[sample.message]["bindings"]["kafka"]["key"]
    assert key in kafka_key["examples"] or "#" in key
    assert headers["ce_subject"] == sample.payload["runId"]
    assert headers["ce_type"] == "dev.pathgate." + messages()[sample.message]["name"]


def cloud_event() -> Node:
    found: Node = at("#/components/messageTraits/cloudEvent")["headers"]
    return found


@pytest.mark.parametrize("time", [None, datetime(2026, 10, 16, 15, 29, tzinfo=UTC)])
@pytest.mark.parametrize("name", RECORDS)
def test_written_headers_are_as_documented(name: str, time: datetime | None) -> None:
    """What the publisher writes passes the schema of the headers."""
    written = event_headers(
        source="/pathgate",
        kind=messages()[name]["name"],
        run_id="acme/run",
        key="acme/run",
        value=b"{}",
        time=time,
        revision=12,
    )
    headers = {key: value.decode() for key, value in written}
    validator(cloud_event()).validate(headers)
    assert set(headers) <= set(cloud_event()["properties"])
    traits = messages()[name]["traits"]
    assert traits == [{"$ref": "#/components/messageTraits/cloudEvent"}]


@pytest.mark.parametrize(
    ("header", "value"),
    [("ce_id", "acme/run"), ("ce_revision", "0"), ("ce_specversion", "0.3")],
)
def test_other_headers_are_refused(header: str, value: str) -> None:
    """The schema of the headers can fail."""
    headers = next(each.headers for each in samples() if each.message == "gateAlert")
    assert headers is not None
    assert not validator(cloud_event()).is_valid(headers | {header: value})


class Parked(NamedTuple):
    """A record as the consumer gives it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    timestamp_type: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


@pytest.mark.parametrize("value", [b'{"a":1}', b"", None])
def test_written_dead_letter_is_as_documented(value: bytes | None) -> None:
    """What is written for a record that cannot be read passes schema and model."""
    with pytest.raises(DecodeError) as caught:
        codec.decode_event(value or b"")
    letter = dead_letter(
        Parked(12, 0, b"acme/run", value),
        caught.value,
        source=("agent.tool-called", 3),
        topic="eval.dead-letter",
        app_id="pathgate",
        body=DeadLetterBody.NONE,
    )
    headers = {key: text.decode() for key, text in letter.headers or ()}
    validator(messages()["deadLetter"]["headers"]).validate(headers)
    read = msgspec.convert(headers, DeadLetterHeaders)
    assert (read.topic, read.partition, read.offset) == ("agent.tool-called", "3", "12")


def test_dead_letter_example_is_as_documented() -> None:
    """The example's headers pass schema and model."""
    (sample,) = (each for each in samples() if each.message == "deadLetter")
    validator(messages()["deadLetter"]["headers"]).validate(sample.headers)
    assert msgspec.convert(sample.headers, DeadLetterHeaders).reason == "duplicate-key"
    assert sample.payload is None


def topic_table() -> dict[str, TopicSpec]:
    table = table_from(Settings.load({}, {}))
    return {spec.name: spec for spec in table if spec.role is not Role.INTERNAL}


def channels() -> dict[str, Node]:
    return {channel["address"]: channel for channel in document()["channels"].values()}


def test_channels_are_the_topics() -> None:
    """Every topic that others write or read is a channel, and no other."""
    assert list(channels()) == list(topic_table())


# The binding knows no other settings than these.
DOCUMENTED = ("cleanup.policy", "retention.ms", "delete.retention.ms")


@pytest.mark.parametrize("topic", channels())
def test_channel_is_as_its_topic(topic: str) -> None:
    """Partitions, replicas and configuration are the table's."""
    spec = topic_table()[topic]
    kafka = channels()[topic]["bindings"]["kafka"]
    configured = kafka["topicConfiguration"]
    (policy,) = configured["cleanup.policy"]
    found = configured | {"cleanup.policy": policy}
    expected = {
        key: value
        for key, value in spec.configs.items()
        if key in (*DOCUMENTED, "max.message.bytes")
    }
    assert {key: str(value) for key, value in found.items()} == expected
    assert (kafka["topic"], kafka["partitions"], kafka["replicas"]) == (
        topic,
        spec.partitions,
        spec.replication_factor,
    )
    assert kafka["bindingVersion"] == "0.5.0"


KEY_EXAMPLES = {
    "runId": "acme/run-4f1c09ab77d2e350",
    "suiteId@version": "acme.evals.refunds@1.2.0",
    "runId#taskId": "acme/run-4f1c09ab77d2e350#refund-large",
    "key of the event": "acme/run-4f1c09ab77d2e350",
}


@pytest.mark.parametrize("topic", channels())
def test_messages_of_a_channel_have_its_key(topic: str) -> None:
    """The key of a message is the key of its topic."""
    key = topic_table()[topic].key
    for name in channels()[topic]["messages"]:
        binding = messages()[name]["bindings"]["kafka"]
        assert binding["key"]["examples"] == [KEY_EXAMPLES[key]]
        assert binding["bindingVersion"] == "0.5.0"


def test_event_channels_hold_the_types_of_the_table() -> None:
    """Each event type that is read is a message, on the topic that holds it."""
    found: dict[str, str] = {}
    for topic, spec in topic_table().items():
        if spec.model == "schemas.events.Envelope":
            names = [messages()[name]["name"] for name in channels()[topic]["messages"]]
            assert ", ".join(names) == spec.holds
            found |= dict.fromkeys(names, topic)
    assert set(found) == {event_type.value for event_type in EventType}


def test_operations_are_the_roles_of_the_topics() -> None:
    """Sources are received, outputs are sent, each once."""
    actions = {}
    for operation in document()["operations"].values():
        channel = at(operation["channel"]["$ref"])
        assert channel["address"] not in actions
        actions[channel["address"]] = operation["action"]
    wanted = {Role.SOURCE: "receive", Role.OUTPUT: "send"}
    assert actions == {name: wanted[spec.role] for name, spec in topic_table().items()}


def test_references_lead_somewhere() -> None:
    """Every reference is resolved, and every schema that is for others is used."""
    used = set()
    for reference in find_references(document()):
        assert at(reference)
        if reference.startswith("./"):
            used.add(reference.removeprefix("./").removesuffix(".schema.json"))
    # The scorecard stands inside the suite summary; the alias map is a file,
    # and control notes are internal.
    inner = {"eval-summary", "aliases", "control"}
    assert used == set(catalog.schema_names()) - inner


def find_references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from find_references(value)
    elif isinstance(node, list):
        for item in node:
            yield from find_references(item)
