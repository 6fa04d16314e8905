"""JSON documents as trees that show what a typed decoder hides: keys twice.

Documents here are written by people and read once, so precise places matter
more than speed. Their keys are named in errors; their values never are.
"""

import json
import math
import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, inspect

from schemas.errors import DecodeError
from schemas.faults import check_text, syntax_fault
from schemas.suite import EXTENSION_PREFIXES

_SHOWN_KEY_LENGTH = 64
_MAX_DIGITS = 1_000
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Members(list[tuple[str, object]]):
    """An object: its members in order, duplicates included."""

    def once(self, path: str) -> dict[str, object]:
        """The members as a mapping.

        Raises:
            DecodeError: A key stands twice.
        """
        mapping: dict[str, object] = {}
        for key, value in self:
            if key in mapping:
                raise DecodeError(child(path, key), "expected this key only once")
            mapping[key] = value
        return mapping


def child(path: str, key: str) -> str:
    """JSON path of a member."""
    if _PLAIN_KEY.fullmatch(key) and len(key) <= _SHOWN_KEY_LENGTH:
        return f"{path}.{key}"
    if len(key) > _SHOWN_KEY_LENGTH:
        key = key[:_SHOWN_KEY_LENGTH] + "..."
    return f"{path}[{json.dumps(key)}]"


def paths_of(value: object, path: str = "$") -> Iterator[str]:
    """The JSON path of a tree and of all that is in it, in the document's order."""
    yield path
    if isinstance(value, Members):
        for key, inner in value:
            yield from paths_of(inner, child(path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths_of(inner, f"{path}[{index}]")


def is_extension(key: str) -> bool:
    """Whether a key is a host's or a vendor's own."""
    return key.startswith(EXTENSION_PREFIXES)


def parse(data: bytes, max_bytes: int) -> object:
    """A document as a tree; objects are ``Members``.

    Raises:
        DecodeError: It is no strict JSON in UTF-8, too large or too deep.
    """
    check_text(data, max_bytes)
    if not _is_strict(data):
        raise syntax_fault(data)
    tree: object = json.loads(
        data, object_pairs_hook=Members, parse_float=_float, parse_int=_int
    )
    return tree


_skim = msgspec.json.Decoder(Raw).decode


def _is_strict(data: bytes) -> bool:
    try:
        _skim(data)
    except msgspec.DecodeError:
        return False
    return True


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise DecodeError("$", "expected numbers within the range of doubles")
    return number


def _int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise DecodeError("$", f"expected numbers of at most {_MAX_DIGITS} digits")
    return int(text)


def check_keys(
    value: object,
    declared: inspect.Type,
    path: str,
    extensible: tuple[type, ...],
) -> None:
    """Holds the keys of a tree against those a model declares.

    Args:
        value: The tree.
        declared: The model, as msgspec describes it.
        path: JSON path of ``value``.
        extensible: Models that may carry extension keys.

    Raises:
        DecodeError: A key that is not declared, stands twice, or is null where
            leaving it out is meant. Values that a model keeps undecoded are
            not looked into, and wrong types are left to the typed decoder.
    """
    for inner, inner_type, inner_path in _parts(value, declared, path, extensible):
        check_keys(inner, inner_type, inner_path, extensible)


def _parts(
    value: object,
    declared: inspect.Type,
    path: str,
    extensible: tuple[type, ...],
) -> Iterator[tuple[object, inspect.Type, str]]:
    match declared:
        case inspect.UnionType():
            for option in declared.types:
                yield from _parts(value, option, path, extensible)
        case inspect.StructType() if isinstance(value, Members):
            yield from _members(value, declared, path, extensible)
        case inspect.VarTupleType() if isinstance(value, list):
            if not isinstance(value, Members):
                for index, item in enumerate(value):
                    yield item, declared.item_type, f"{path}[{index}]"
        case inspect.DictType() if isinstance(value, Members):
            value.once(path)


def _members(
    value: Members,
    declared: inspect.StructType,
    path: str,
    extensible: tuple[type, ...],
) -> Iterator[tuple[object, inspect.Type, str]]:
    types = {field.encode_name: field.type for field in declared.fields}
    for key, inner in value.once(path).items():
        inner_type = types.get(key)
        if inner_type is None:
            if declared.cls in extensible and is_extension(key):
                continue
            raise DecodeError(
                child(path, key), "expected one of the keys " + ", ".join(types)
            )
        if _is_raw(inner_type):
            continue
        if inner is None:
            raise DecodeError(child(path, key), "expected a value, or the key left out")
        yield inner, inner_type, child(path, key)


def _is_raw(declared: inspect.Type) -> bool:
    if isinstance(declared, inspect.UnionType):
        return any(isinstance(each, inspect.RawType) for each in declared.types)
    return isinstance(declared, inspect.RawType)
