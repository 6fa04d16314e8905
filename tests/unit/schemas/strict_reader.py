"""A slow, plain reader of events, to hold the fast one against.

Written from the rules alone, on the standard library: nothing here is shared
with ``schemas.codec``.
"""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NoReturn

MIB = 1024 * 1024
INT64_MAX = 2**63 - 1
DEPTH = 200


class Refused(Exception):  # noqa: N818  # a verdict, not a failure
    """The bytes are no event."""


class Members(list[tuple[str, object]]):
    """An object: its members in order, duplicates included."""

    def get(self, key: str) -> object:
        """The value of a key, the last if there are several; None if absent."""
        return dict(self).get(key)


class Integer(str):
    """The text of a number without point or exponent."""

    __slots__ = ()


class Real(str):
    """The text of any other number."""

    __slots__ = ()


def refuse(*_: object) -> NoReturn:
    raise Refused


def require(condition: object) -> None:
    if not condition:
        refuse()


def parse(data: bytes) -> object:
    """The document as a tree; refuses what is not strict JSON in UTF-8."""
    require(len(data) <= MIB)
    try:
        tree: object = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=Members,
            parse_int=Integer,
            parse_float=Real,
            parse_constant=refuse,
        )
    except (ValueError, RecursionError):
        refuse()
    check_tree(tree)
    return tree


def check_tree(tree: object) -> None:
    """Depth and Unicode of every value and key."""
    level = [tree]
    depth = 0
    while level:
        inner: list[object] = []
        nested = False
        for value in level:
            if isinstance(value, Members):
                nested = True
                inner += [part for member in value for part in member]
            elif isinstance(value, list):
                nested = True
                inner += value
            elif isinstance(value, str):
                require(not any("\ud800" <= char <= "\udfff" for char in value))
        depth += nested
        require(depth <= DEPTH)
        level = inner


def once(members: Members, *keys: str) -> None:
    names = [key for key, _ in members]
    for key in keys:
        require(names.count(key) <= 1)


def text(value: object, longest: int | None = 512) -> str:
    require(type(value) is str)
    assert isinstance(value, str)
    require(value and (longest is None or len(value) <= longest))
    return value


def integer(value: object) -> int:
    require(isinstance(value, Integer) and len(value) < 100)
    number = int(str(value))
    require(0 <= number <= INT64_MAX)
    return number


def boolean(value: object) -> bool:
    require(isinstance(value, bool))
    return value is True


def decimal(value: object, most: int) -> Decimal:
    require(isinstance(value, Integer | Real))
    mantissa, _, exponent = str(value).lower().partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    require(len(whole) <= 32 and len(fraction) <= 64)
    require(len(exponent.lstrip("+-")) <= 3)
    number = Decimal(str(value))
    require(0 <= number <= most)
    return number


def ratio(value: object) -> float:
    require(isinstance(value, Integer | Real))
    number = float(str(value))
    require(0 <= number <= 1)
    return number


TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.\d+)?"
    r"(?:[Zz]|[+-](\d\d):?(\d\d))",
    re.ASCII,
)


def time(value: object) -> None:
    found = TIME.fullmatch(text(value, None))
    require(found)
    assert found is not None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    require(2 <= year <= 9998)
    try:
        datetime(year, month, day, hour, minute, second)  # noqa: DTZ001  # the offset is checked next
        timedelta(hours=int(found[7] or 0))
    except ValueError:
        refuse()
    require(int(found[7] or 0) <= 23 and int(found[8] or 0) <= 59)


def read_called(payload: Members) -> object:
    once(
        payload,
        "toolName",
        "argsHash",
        "inputs",
        "agentId",
        "callId",
        "principal",
        "transport",
        "causationHostId",
    )
    args_hash = payload.get("argsHash")
    if args_hash is not None:
        require(re.fullmatch("[0-9a-fA-F]{64}", text(args_hash)))
    return text(payload.get("toolName")), args_hash


def read_started(payload: Members) -> object:
    once(payload, "suiteId", "suiteVersion", "taskCount", "baselineRunId")
    base = payload.get("baselineRunId")
    if base is not None:
        text(base)
    return (
        text(payload.get("suiteId")),
        text(payload.get("suiteVersion"), 128),
        integer(payload.get("taskCount")),
        base,
    )


def read_scored(payload: Members) -> object:
    misses = ("fixtureMiss", "openwop-fixture-miss", "x-fixture-miss")
    once(
        payload,
        "taskId",
        "score",
        "passed",
        "costUsd",
        "latencyMs",
        "schemaValid",
        *misses,
    )
    cost = payload.get("costUsd")
    latency = payload.get("latencyMs")
    valid = payload.get("schemaValid")
    # A list, so that each of them is checked.
    flags = [boolean(flag) for key in misses if (flag := payload.get(key)) is not None]
    return (
        text(payload.get("taskId")),
        decimal(payload.get("score"), 1),
        boolean(payload.get("passed")),
        None if cost is None else decimal(cost, 10**12),
        None if latency is None else integer(latency),
        None if valid is None else boolean(valid),
        any(flags),
    )


def read_completed(payload: Members) -> object:
    once(payload, "aggregateScore", "passed", "taskCount", "passedCount")
    return (
        ratio(payload.get("aggregateScore")),
        boolean(payload.get("passed")),
        integer(payload.get("taskCount")),
        integer(payload.get("passedCount")),
    )


READERS: dict[str, Callable[[Members], object]] = {
    "agent.tool-called": read_called,
    "agent.toolCalled": read_called,
    "eval.started": read_started,
    "eval.scored": read_scored,
    "eval.completed": read_completed,
    "run.completed": lambda _: None,
    "run.failed": lambda _: None,
    "run.cancelled": lambda _: None,
}


def read(data: bytes) -> tuple[object, ...]:
    """What the event says, as plain values.

    Raises:
        Refused: The bytes are no event.
    """
    event = parse(data)
    require(isinstance(event, Members))
    assert isinstance(event, Members)
    once(
        event,
        "eventId",
        "runId",
        "type",
        "timestamp",
        "sequence",
        "payload",
        "nodeId",
        "schemaVersion",
        "causationId",
        "engineVersion",
    )
    require("payload" in dict(event))
    node = event.get("nodeId")
    time(event.get("timestamp"))
    envelope = (
        text(event.get("eventId")),
        text(event.get("runId")),
        text(event.get("type"), None),
        integer(event.get("sequence")),
        None if node is None else text(node),
    )
    reader = READERS.get(envelope[2])
    if reader is None:
        return (*envelope, None)
    payload = event.get("payload")
    require(isinstance(payload, Members))
    assert isinstance(payload, Members)
    return (*envelope, reader(payload))
