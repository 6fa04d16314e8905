"""How the arguments of a call are compared: by digests of their canonical form.

Two arguments are equal exactly when their RFC 8785 (JCS) forms are the same
bytes. Numbers are doubles there, so ``1``, ``1.0`` and ``1e0`` are one value,
and integers beyond 2**53 are compared as the doubles they round to.
"""

import hashlib
import hmac
import json
import math
import re
from collections.abc import Collection
from typing import NoReturn

import msgspec
import orjson
import rfc8785

from schemas.errors import DecodeError

DIGEST_BYTES = 16
MAX_DEPTH = 64

_SAFE = 2**53 - 1
_SAFE_DIGITS = 16
_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
# JCS sorts names by UTF-16 unit, orjson by code point. The two orders differ
# only for characters above U+FFFF, whose UTF-8 starts with these bytes.
_ABOVE_BMP = re.compile(rb"[\xf0-\xf4]")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class ArgumentsError(DecodeError):
    """Arguments that have no canonical form; the call carries no evidence of them.

    Path and text never hold a key or a value of the arguments.

    The path is always ``$``: a deeper one would name keys, which are content.
    """


class _Double(float):
    """A number that only the full JCS rules can write: orjson refuses the type."""


class _NotFastError(Exception):
    """The short way does not decide; the full rules do."""


def _refuse_float(_: str) -> NoReturn:
    raise _NotFastError


def _refuse_constant(_: str) -> NoReturn:
    raise ArgumentsError("$", "expected JSON")


def _double(number: str | float) -> int | _Double:
    try:
        value = float(number)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ArgumentsError("$", "expected numbers in the range of a double")
    if value.is_integer() and abs(value) <= _SAFE:
        return int(value)
    return _Double(value)


def _integer(text: str) -> int | _Double:
    # The length is checked first: int() of a million digits is refused or slow.
    if len(text) <= _SAFE_DIGITS and -_SAFE <= (value := int(text)) <= _SAFE:
        return value
    return _double(text)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ArgumentsError("$", "expected each key once in an object")
    return members


_fast = msgspec.json.Decoder(float_hook=_refuse_float)
_strict = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_float=_double,
    parse_int=_integer,
    parse_constant=_refuse_constant,
)


def _form_fast(value: object) -> bytes:
    try:
        form = orjson.dumps(value, option=_SORTED)
    except TypeError:
        raise _NotFastError from None
    if not form.isascii() and _ABOVE_BMP.search(form):
        raise _NotFastError
    return form


def _form(value: object) -> bytes:
    """The JCS form of a value whose numbers are safe ``int`` or ``_Double``."""
    try:
        return _form_fast(value)
    except _NotFastError:
        pass
    try:
        return rfc8785.dumps(value)  # type: ignore[arg-type]  # JSON by construction
    except ValueError:
        # From None: the cause holds the text. Of a key it is a UnicodeEncodeError,
        # of a value the library's own error.
        raise ArgumentsError("$", "expected text without lone surrogates") from None


def _read_fast(data: bytes) -> tuple[object, bytes]:
    """Reads compact JSON without floats; most arguments on the wire are.

    Nothing here can grow when it is written again (there is no float, and
    escapes only shrink), while a repeated key is dropped. So the same length
    means the same members.
    """
    value = _fast.decode(data)
    form = _form_fast(value)
    if len(form) != len(data):
        raise _NotFastError
    return value, form


def _check_depth(data: bytes) -> None:
    depth = 0
    for bracket in _STRING.sub(b"", data).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise ArgumentsError("$", f"expected at most {MAX_DEPTH} levels")


def _read(data: bytes) -> tuple[object, bytes]:
    """A raw document as a value and as its JCS form."""
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        _check_depth(data)
    try:
        return _read_fast(data)
    except (_NotFastError, msgspec.DecodeError):
        pass
    try:
        value = _strict.decode(data.decode())
    except ArgumentsError:
        raise
    except ValueError:
        # From None: the cause's text and its ``doc`` are the arguments.
        raise ArgumentsError("$", "expected JSON") from None
    return value, _form(value)


def _checked(value: object, depth: int = 0) -> object:
    """The value with its numbers as ``_form`` takes them."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -_SAFE <= value <= _SAFE else _double(value)
    if isinstance(value, float):
        return _double(value)
    if depth == MAX_DEPTH:
        raise ArgumentsError("$", f"expected at most {MAX_DEPTH} levels of JSON values")
    if isinstance(value, (list, tuple)):
        return [_checked(item, depth + 1) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _checked(item, depth + 1) for key, item in value.items()}
    raise ArgumentsError("$", "expected JSON values")


def canonical(value: object) -> bytes:
    """The RFC 8785 form of a JSON value or document.

    Args:
        value: ``bytes`` and ``msgspec.Raw`` are a JSON document, UTF-8;
            anything else is a value of ``None``, ``bool``, ``int``, ``float``,
            ``str``, lists, and dicts with string keys. At most 64 levels.

    Returns:
        UTF-8, the same bytes for equal values.

    Raises:
        ArgumentsError: No JSON, a key twice in an object, a lone surrogate, a
            number beyond the doubles, or more than 64 levels.

    Source: RFC 8785. That integers go through the double is its §3.2.2.3; the
        depth limit is this project's choice.
    """
    if isinstance(value, (bytes, msgspec.Raw)):
        return _read(bytes(value))[1]
    return _form(_checked(value))


class ArgsDigester:
    """Turns arguments into the 16-byte digests that calls and steps are compared by.

    A digest is the start of the SHA-256 of the canonical form, or, with a key,
    the start of the HMAC-SHA-256 of that SHA-256. So a host's ``argsHash`` and
    its ``inputs`` give the same digest.

    Args:
        key: Secret of at least one byte, or None. With it nobody can find a
            short value by trying out digests (DESIGN.md §3).

    Raises:
        ValueError: ``key`` is empty.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes | None = None) -> None:
        if key is not None and not key:
            raise ValueError("the key has 0 bytes, expected at least 1")
        self._key = key

    def _stored(self, sha256: bytes) -> bytes:
        if self._key is not None:
            sha256 = hmac.digest(self._key, sha256, "sha256")
        return sha256[:DIGEST_BYTES]

    def _of_form(self, form: bytes) -> bytes:
        return self._stored(hashlib.sha256(form).digest())

    def _of_members(
        self, value: object, keys: Collection[str] | None
    ) -> dict[str, bytes] | None:
        if not isinstance(value, dict):
            return None
        return {
            key: self._of_form(_form(member))
            for key, member in value.items()
            if keys is None or key in keys
        }

    def whole_from_hash(self, args_hash: str) -> bytes:
        """The digest of whole arguments from the host's hash of them.

        Args:
            args_hash: SHA-256 of the canonical form, 64 hex digits, any case.

        Raises:
            ArgumentsError: It is no such hash.
        """
        try:
            sha256 = bytes.fromhex(args_hash)
        except ValueError:
            sha256 = b""
        if len(sha256) != hashlib.sha256().digest_size or len(args_hash) != 64:
            raise ArgumentsError("$", "expected 64 hex digits")
        return self._stored(sha256)

    def whole(self, inputs: bytes) -> bytes:
        """The digest of whole arguments.

        Args:
            inputs: One JSON document, UTF-8.

        Raises:
            ArgumentsError: As ``canonical``.
        """
        return self._of_form(_read(inputs)[1])

    def parts(
        self, inputs: bytes, keys: Collection[str] | None = None
    ) -> dict[str, bytes] | None:
        """The digest of each top-level member.

        Args:
            inputs: One JSON document, UTF-8.
            keys: The keys to keep, others are dropped unread; None keeps all.
                A row then holds no key that no suite names
                (``Expectation.part_keys``).

        Returns:
            Key -> digest of its value; empty for ``{}``, None where the
            document is no object.

        Raises:
            ArgumentsError: As ``canonical``.
        """
        return self._of_members(_read(inputs)[0], keys)

    def both(
        self, inputs: bytes, keys: Collection[str] | None = None
    ) -> tuple[bytes, dict[str, bytes] | None]:
        """``whole`` and ``parts`` of the same document, read once."""
        value, form = _read(inputs)
        return self._of_form(form), self._of_members(value, keys)
