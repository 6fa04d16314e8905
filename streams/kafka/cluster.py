"""The brokers as an operator sees them: topics, configurations, rights."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any

import msgspec
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.admin import CreateTopicsRequest, DescribeConfigsRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import HeartbeatRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.produce import ProduceRequest

from streams.errors import BrokerUnavailableError
from streams.kafka.diagnosis import REQUEST_TIMEOUT_S, diagnose
from streams.kafka.security import client_options, principal_of
from streams.settings import Settings
from streams.topics import Described, Role, TopicSpec

# What the client logs while it fails, the error says too. Where logging is set up
# its lines still go there; without, they would be thrown at stderr.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())
_LOOK_AGAIN_S = 0.05
_TOPIC_RESOURCE = 2
_OK = 0
_UNKNOWN_TOPIC = 3
_TOPIC_DENIED = 29
_GROUP_DENIED = 30
_CLUSTER_DENIED = 31
_ALREADY_EXISTS = 36


class MissingRight(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One right that the brokers did not grant.

    Args:
        operation: Kafka's name: ``Read``, ``Write``, ``Describe``, ...
        resource: ``topic``, ``group`` or ``cluster``.
        name: Of the topic or group.
        principal: Who lacks it, ``User:name``; ``this client`` if unknown.
    """

    operation: str
    resource: str
    name: str
    principal: str

    def __str__(self) -> str:
        """One line for a person."""
        return f"{self.principal} needs {self.operation} on {self.resource} {self.name}"


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that were asked for, as the brokers have them.

    Args:
        found: Topic -> description; those that do not exist are left out.
        denied: What could not be looked at.
    """

    found: dict[str, Described]
    denied: tuple[MissingRight, ...]


class Creation(StrEnum):
    """What became of one topic."""

    CREATED = "created"
    EXISTS = "exists"
    REFUSED = "refused"


class Created(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of one topic that was to be created.

    Args:
        topic: Its name.
        outcome: What became of it.
        detail: Why it was refused; empty otherwise.
    """

    topic: str
    outcome: Creation
    detail: str = ""


class Cluster:
    """An open connection to the brokers; see ``connect``."""

    def __init__(self, client: AIOKafkaClient, principal: str) -> None:
        self._client = client
        self._principal = principal
        self._leaders: dict[str, int] = {}

    @property
    def broker_count(self) -> int:
        """Brokers that the cluster names."""
        return len(self._client.cluster.brokers())

    @property
    def addresses(self) -> list[str]:
        """``host:port`` of each broker, sorted."""
        return sorted(f"{b.host}:{b.port}" for b in self._client.cluster.brokers())

    async def identify(self) -> str:
        """The cluster's own id; empty where the brokers do not say.

        Raises:
            BrokerUnavailableError: No answer.
        """
        request = MetadataRequest([], allow_auto_topic_creation=False)
        answer = (await self._send(request)).to_object()
        return str(answer.get("cluster_id") or "")

    async def survey(self, names: Iterable[str]) -> Survey:
        """Looks at topics; never makes the broker create one.

        Args:
            names: Topics, any order.

        Raises:
            BrokerUnavailableError: No answer.
        """
        # Left out, the flag would have a broker with auto.create.topics.enable
        # create what is only asked about.
        asked = list(names)
        request = MetadataRequest(asked, allow_auto_topic_creation=False)
        answer = (await self._send(request)).to_object()
        denied = []
        shapes: dict[str, tuple[int, int]] = {}
        # The brokers answer in an order of their own.
        for topic in sorted(answer["topics"], key=lambda t: asked.index(t["topic"])):
            name, code = topic["topic"], topic["error_code"]
            if code == _TOPIC_DENIED:
                denied.append(self._lacks("Describe", "topic", name))
            elif code != _UNKNOWN_TOPIC and topic["partitions"]:
                parts = topic["partitions"]
                shapes[name] = (len(parts), min(len(p["replicas"]) for p in parts))
                self._leaders[name] = parts[0]["leader"]
        configs = await self._configs(list(shapes), denied)
        found = {
            name: Described(
                partitions=partitions, replication_factor=rf, configs=configs.get(name)
            )
            for name, (partitions, rf) in shapes.items()
        }
        return Survey(found=found, denied=tuple(denied))

    async def _configs(
        self, names: list[str], denied: list[MissingRight]
    ) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        request = DescribeConfigsRequest(
            [(_TOPIC_RESOURCE, name, None) for name in names]
        )
        answer = await self._send(request)
        configs: dict[str, dict[str, str]] = {}
        for code, _message, _kind, name, entries in answer.resources:
            if code == _OK:
                configs[name] = {entry[0]: entry[1] for entry in entries}
            else:
                denied.append(self._lacks("DescribeConfigs", "topic", name))
        return configs

    async def create(
        self, specs: Sequence[TopicSpec], *, dry_run: bool = False
    ) -> list[Created]:
        """Creates topics; one that exists is left as it is.

        Args:
            specs: The topics.
            dry_run: Only ask the brokers whether they would.

        Returns:
            One entry a topic, in the order of ``specs``. Every broker knows of
            what was created.

        Raises:
            BrokerUnavailableError: No answer, or the brokers did not hear of a
                new topic in time.
        """
        if not specs:
            return []
        request = CreateTopicsRequest(
            [
                (
                    s.name,
                    s.partitions,
                    s.replication_factor,
                    [],
                    list(s.configs.items()),
                )
                for s in specs
            ],
            int(REQUEST_TIMEOUT_S * 1000),
            validate_only=dry_run,
        )
        controller = self._client.cluster.controller
        node = None if controller is None else controller.nodeId
        answer = await self._send(request, node)
        outcomes = {name: (code, text) for name, code, text in answer.topic_errors}
        created = [self._created(spec, *outcomes[spec.name]) for spec in specs]
        fresh = [one.topic for one in created if one.outcome is Creation.CREATED]
        if fresh and not dry_run:
            await self._wait_for_leaders(fresh)
        return created

    async def _wait_for_leaders(self, names: list[str]) -> None:
        """Waits until every broker names a leader for each partition."""
        request = MetadataRequest(names, allow_auto_topic_creation=False)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + REQUEST_TIMEOUT_S
        for broker in self._client.cluster.brokers():
            while True:
                answer = (await self._send(request, broker.nodeId)).to_object()
                if all(_is_led(topic) for topic in answer["topics"]):
                    break
                if loop.time() > deadline_s:
                    raise BrokerUnavailableError(
                        f"{broker.host}:{broker.port}: does not know of new topics"
                        f" after {REQUEST_TIMEOUT_S:g} s; look again later"
                    )
                await asyncio.sleep(_LOOK_AGAIN_S)

    def _created(self, spec: TopicSpec, code: int, text: str | None) -> Created:
        if code == _OK:
            return Created(topic=spec.name, outcome=Creation.CREATED)
        if code == _ALREADY_EXISTS:
            return Created(topic=spec.name, outcome=Creation.EXISTS)
        if code in {_TOPIC_DENIED, _CLUSTER_DENIED}:
            detail = str(self._lacks("Create", "topic", spec.name))
        else:
            detail = text or for_code(code).__name__
        return Created(topic=spec.name, outcome=Creation.REFUSED, detail=detail)

    async def probe_rights(
        self, specs: Sequence[TopicSpec], group: str
    ) -> list[MissingRight]:
        """The rights a worker needs and does not have on topics that exist.

        Nothing is written: an empty batch is refused by a broker once it has
        looked at the right to write, and a heartbeat of no member likewise.

        Args:
            specs: Topics that ``survey`` found.
            group: The consumer group.

        Returns:
            The missing rights: topics in their order, then the group.
        """
        missing = []
        for spec in specs:
            if spec.name not in self._leaders:
                continue
            if spec.role is not Role.OUTPUT and await self._is_unreadable(spec.name):
                missing.append(self._lacks("Read", "topic", spec.name))
            if spec.role is not Role.SOURCE and await self._is_unwritable(spec.name):
                missing.append(self._lacks("Write", "topic", spec.name))
        return [*missing, *await self._probe_group(group)]

    async def _is_unreadable(self, topic: str) -> bool:
        request = FetchRequest(0, 0, 1, 0, [(topic, [(0, 0, 1)])])
        answer = await self._send(request, self._leaders[topic])
        code: int = answer.topics[0][1][0][1]
        return code == _TOPIC_DENIED

    async def _is_unwritable(self, topic: str) -> bool:
        timeout_ms = int(REQUEST_TIMEOUT_S * 1000)
        request = ProduceRequest(None, -1, timeout_ms, [(topic, [(0, b"")])])
        answer = await self._send(request, self._leaders[topic])
        code: int = answer.topics[0][1][0][1]
        return code == _TOPIC_DENIED

    async def _probe_group(self, group: str) -> list[MissingRight]:
        answer = await self._send(FindCoordinatorRequest(group, 0))
        if answer.error_code == _GROUP_DENIED:
            return [self._lacks("Describe", "group", group)]
        if answer.error_code != _OK:
            # A new cluster has no coordinator until the first group is formed.
            return []
        beat = HeartbeatRequest(group, -1, "none")
        reply = await self._send(beat, answer.coordinator_id)
        if reply.error_code == _GROUP_DENIED:
            return [self._lacks("Read", "group", group)]
        return []

    def _lacks(self, operation: str, resource: str, name: str) -> MissingRight:
        return MissingRight(
            operation=operation,
            resource=resource,
            name=name,
            principal=self._principal,
        )

    async def _send(self, request: Any, node: int | None = None) -> Any:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                target = self._client.get_random_node() if node is None else node
                return await self._client.send(target, request)
        except (KafkaError, OSError, TimeoutError) as error:
            raise BrokerUnavailableError(
                f"{', '.join(self.addresses)}: {type(request).__name__} was not"
                f" answered: {type(error).__name__}"
            ) from error


def _is_led(topic: dict[str, Any]) -> bool:
    parts = topic["partitions"]
    return bool(parts) and all(part["leader"] >= 0 for part in parts)


@asynccontextmanager
async def connect(settings: Settings) -> AsyncIterator[Cluster]:
    """Connects to the brokers.

    Args:
        settings: Servers and security.

    Yields:
        The open connection.

    Raises:
        BrokerUnavailableError: No server answered; names each address and why.
        AccessDeniedError: A server refused the user.
        SettingsError: Certificates that cannot be used.
    """
    options = client_options(settings)
    client = AIOKafkaClient(**options, request_timeout_ms=int(REQUEST_TIMEOUT_S * 1000))
    try:
        await client.bootstrap()
    except (KafkaError, OSError) as error:
        await client.close()
        raise await diagnose(options) from error
    try:
        yield Cluster(client, principal_of(settings))
    finally:
        await client.close()
