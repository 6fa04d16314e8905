"""Says what is wrong with bytes, in our own words.

A decoder's message may quote the document: an enum value, an unknown key. So
no such message is passed on; what is kept of it are the path, whose names are
those of our models, and phrases that speak of the declared type alone.
"""

import json
import re
from itertools import accumulate
from typing import NoReturn

import msgspec

from schemas.errors import DecodeCode, DecodeError

MAX_DEPTH = 200
"""Nested arrays and objects a document may have, itself included.

The parsers used here recurse, at a depth that shrinks as the caller's own
stack grows (about 1,000 in all). 200 leaves the caller 800 frames.
"""

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_OPENING = ord("[")
_PASSES = 8


def is_too_deep(data: bytes) -> bool:
    """Whether a document nests more than ``MAX_DEPTH`` arrays and objects.

    Exact for JSON; for anything else the brackets before the first fault count.
    """
    if len(data) <= 2 * MAX_DEPTH:
        return False
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    if b"\\" in data:
        # An escaped quote ends no string; an escaped backslash escapes nothing.
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside_strings = b"".join(data.split(b'"')[::2])
    brackets = outside_strings.translate(_ONE_KIND, _NOT_BRACKETS)
    # Most documents are wide rather than deep, and fall in a few fast passes:
    # each takes the innermost level off.
    for _ in range(_PASSES):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    steps = (1 if bracket == _OPENING else -1 for bracket in brackets)
    return _PASSES + max(accumulate(steps), default=0) > MAX_DEPTH


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8 throughout, in fields that are skipped too."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def check_text(data: bytes, max_bytes: int) -> None:
    """Refuses bytes that no JSON parser should be given.

    Raises:
        DecodeError: More than ``max_bytes``, nested too deeply, or not UTF-8.
    """
    if len(data) > max_bytes:
        raise DecodeError(
            "$", f"expected at most {max_bytes} bytes", DecodeCode.TOO_LARGE
        )
    if is_too_deep(data):
        raise DecodeError(
            "$",
            f"expected at most {MAX_DEPTH} nested arrays and objects",
            DecodeCode.TOO_DEEP,
        )
    if not is_utf8(data):
        raise DecodeError("$", "expected UTF-8 throughout", DecodeCode.INVALID_UTF8)


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError


def _is_json_to_the_letter(data: bytes) -> bool:
    try:
        # As text: of bytes it would guess UTF-16 too.
        json.loads(
            data.decode(),
            parse_int=len,
            parse_float=len,
            parse_constant=_refuse_constant,
        )
    except ValueError:
        return False
    return True


def syntax_fault(data: bytes) -> DecodeError:
    """Names the fault of UTF-8 bytes that the JSON parser refused."""
    if not data.strip(b" \t\r\n"):
        return DecodeError("$", "expected a document, not nothing", DecodeCode.EMPTY)
    if data.startswith(b"\xef\xbb\xbf"):
        return DecodeError(
            "$", "expected JSON without a byte order mark", DecodeCode.BYTE_ORDER_MARK
        )
    if data.startswith(b"\x00"):
        return DecodeError(
            "$",
            "expected plain JSON in UTF-8; a first byte 0x00 is the framing of a schema"
            " registry, or text in UTF-16, so the producer has to write JSON without it",
            DecodeCode.SCHEMA_REGISTRY_FRAMING,
        )
    if data[1:2] == b"\x00":
        return DecodeError(
            "$",
            "expected plain JSON in UTF-8; a second byte 0x00 looks like UTF-16",
            DecodeCode.NOT_JSON,
        )
    # What only msgspec refuses are escapes such as \ud800 without their pair.
    if _is_json_to_the_letter(data):
        return DecodeError(
            "$",
            "expected Unicode text without lone surrogates",
            DecodeCode.LONE_SURROGATE,
        )
    return DecodeError(
        "$", "expected one JSON document (RFC 8259)", DecodeCode.NOT_JSON
    )


_WHERE = re.compile(r"^(.*) - at `([^`]*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `([^`]*)`$")
# Its key is the document's, and could be spelled to look like a path.
_UNKNOWN = "Object contains unknown field"
_DECLARED = re.compile(r"^Expected `([^`]*)`(.*?)(?:, got .*)?$", re.DOTALL)
_TYPE_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "object": "an object",
    "array": "an array",
    "datetime": "an RFC 3339 time",
    "null": "null",
}


def place_and_shape(error: msgspec.ValidationError, at: str = "$") -> tuple[str, str]:
    """Where a value has the wrong shape, and the shape declared there.

    Args:
        error: What msgspec raised for one of our models.
        at: JSON path of the document that was decoded.

    Returns:
        A JSON path made of names of our models and indexes (``[...]`` stands
        for a key of a map), and words that hold nothing of the document.
    """
    message = str(error)
    if message.startswith(_UNKNOWN):
        return at, "expected no key but the declared ones"
    path = at
    where = _WHERE.match(message)
    if where is not None:
        message = where.group(1)
        path = at + where.group(2).removeprefix("$")
    missing = _MISSING.match(message)
    if missing is not None:
        return f"{path}.{missing.group(1)}", "expected a value, it is required"
    declared = _DECLARED.match(message)
    if declared is None:
        return path, "expected a value of the declared form"
    types = declared.group(1).split(" | ")
    words = " or ".join(_TYPE_WORDS.get(name, name) for name in types)
    # A pattern is shown as a literal; people know `\Z` as `$`.
    bounds = declared.group(2).replace("\\\\", "\\").replace("\\Z", "$")
    return path, f"expected {words}{bounds}"
