"""Arguments compare as JSON values, by digests of their RFC 8785 form."""

import hashlib
import hmac
import json
from typing import Any

import msgspec
import pytest

from streams.core.arguments import (
    DIGEST_BYTES,
    MAX_DEPTH,
    ArgsDigester,
    ArgumentsError,
    canonical,
)

PLAIN = ArgsDigester()
KEYED = ArgsDigester(b"a secret of some length")

NUMBERS = [
    # One value, however it is spelt.
    (b"1", b"1"),
    (b"1.0", b"1"),
    (b"1e0", b"1"),
    (b"10E-1", b"1"),
    (b"0.1e+1", b"1"),
    (b"-1.50", b"-1.5"),
    # ECMAScript writes negative zero as 0.
    (b"-0", b"0"),
    (b"-0.0", b"0"),
    (b"0e7", b"0"),
    # 2**53 - 1, the last integer that no other shares a double with.
    (b"9007199254740991", b"9007199254740991"),
    (b"-9007199254740991", b"-9007199254740991"),
    # 2**53, and 2**53 + 1: half way between 2**53 and 2**53 + 2, to the even one.
    (b"9007199254740992", b"9007199254740992"),
    (b"9007199254740993", b"9007199254740992"),
    (b"9007199254740993.0", b"9007199254740992"),
    (b"-9007199254740993", b"-9007199254740992"),
    # 2**56 < n < 2**57, so doubles are 16 apart: n / 16 = 7716049313271604.875,
    # rounded 7716049313271605 * 16 = 123456789012345680.
    (b"123456789012345678", b"123456789012345680"),
    # Plain digits below 10**21, an exponent from there.
    (b"1e20", b"100000000000000000000"),
    (b"123456789012345678901", b"123456789012345680000"),
    (b"1e21", b"1e+21"),
    (b"1000000000000000000000", b"1e+21"),
    (b"1.5E+30", b"1.5e+30"),
    # Plain digits down to 10**-6, an exponent below.
    (b"0.002", b"0.002"),
    (b"2e-3", b"0.002"),
    (b"0.000001", b"0.000001"),
    (b"0.00001234", b"0.00001234"),
    (b"0.0000001", b"1e-7"),
    (b"12e-8", b"1.2e-7"),
    # Sixteen significant digits identify a double near 3.3 * 10**8 (they are
    # 2**-24 apart), so the seventeenth is not written.
    (b"333333333.33333329", b"333333333.3333333"),
    # The smallest and the largest double.
    (b"5e-324", b"5e-324"),
    (b"1.7976931348623157e308", b"1.7976931348623157e+308"),
]

TEXTS = [
    # Two-character escapes where JSON has them, \u00xx for other controls, all
    # else as it is; DEL is no control of JSON.
    (b'"\\u0008\\u0009\\u000a\\u000c\\u000d"', b'"\\b\\t\\n\\f\\r"'),
    (b'"\\u0000\\u000B\\u001F"', b'"\\u0000\\u000b\\u001f"'),
    (b'"\\u0022\\u005c\\/"', b'"\\"\\\\/"'),
    (b'"\\u007f"', b'"\x7f"'),
    (b'"\\u20ac"', '"\u20ac"'.encode()),
    (b'"\\uD83D\\uDE00"', '"\U0001f600"'.encode()),
    (b'"A"', b'"A"'),
    # No normalisation: composed and decomposed letters are different texts.
    (b'"\\u00e9"', b'"\xc3\xa9"'),
    (b'"e\\u0301"', b'"e\xcc\x81"'),
]

VALUES = [
    (b" [ ] ", b"[]"),
    (b"{ }", b"{}"),
    (b"null", b"null"),
    (b"[true ,false, null]", b"[true,false,null]"),
    (b'{"b":1,"a":[2,1]}', b'{"a":[2,1],"b":1}'),
    (b'{"b": {"d": 1.0, "c": 2}, "a": 3}', b'{"a":3,"b":{"c":2,"d":1}}'),
    # Names are sorted by UTF-16 unit: \r 000d, 1 0031, 0080, f6, 20ac, then the
    # surrogate d83d of the emoji, then fb33. By code point fb33 comes first.
    (
        b'{"\\u20ac":1,"\\r":2,"\\ufb33":3,"1":4,"\\ud83d\\ude00":5,"\\u0080":6,"\\u00f6":7}',
        '{"\\r":2,"1":4,"\x80":6,"\xf6":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}'.encode(),
    ),
]

REFUSED = [
    (b"", "expected JSON"),
    (b"{", "expected JSON"),
    (b"[1,]", "expected JSON"),
    (b"01", "expected JSON"),
    (b"1 2", "expected JSON"),
    (b"{a:1}", "expected JSON"),
    (b"NaN", "expected JSON"),
    (b"[-Infinity]", "expected JSON"),
    (b'"\x01"', "expected JSON"),
    (b'"\xff"', "expected JSON"),
    (b"\xef\xbb\xbf1", "expected JSON"),
    (b'{"k":1,"k":1}', "expected each key once in an object"),
    (b'{"k":1,"\\u006b":2}', "expected each key once in an object"),
    (b'[{"o":{"k":1,"k":2}}]', "expected each key once in an object"),
    # As long as its canonical form would be with both members.
    (b'{"k":1,"k":2}', "expected each key once in an object"),
    (b'"\\ud800"', "expected text without lone surrogates"),
    (b'{"\\udc00":1}', "expected text without lone surrogates"),
    (b"1e400", "expected numbers in the range of a double"),
    (b"[-1e400]", "expected numbers in the range of a double"),
    (b"9" * 400, "expected numbers in the range of a double"),
    (b"-" + b"9" * 5000, "expected numbers in the range of a double"),
    (b"[" * 65 + b"]" * 65, "expected at most 64 levels"),
    (b'{"a":[' * 33 + b"]}" * 33, "expected at most 64 levels"),
    (b"[" * 100_000, "expected at most 64 levels"),
]


@pytest.mark.parametrize(("document", "form"), [*NUMBERS, *TEXTS, *VALUES])
def test_canonical_of_document(document: bytes, form: bytes) -> None:
    """A document has the form that RFC 8785 gives its value."""
    assert form == canonical(document)
    assert form == canonical(msgspec.Raw(document))


@pytest.mark.parametrize(("document", "form"), [*NUMBERS, *TEXTS, *VALUES])
def test_canonical_of_canonical_form(document: bytes, form: bytes) -> None:
    """A canonical form is its own canonical form, nested too."""
    assert form == canonical(form)
    assert b'{"a":[' + form + b"]}" == canonical(b'{"a": [' + document + b"]}")


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ({"b": (1, 2.0), "a": [None, True]}, b'{"a":[null,true],"b":[1,2]}'),
        (2**53 + 1, b"9007199254740992"),
        (-(2**70), b"-1.1805916207174113e+21"),
        (0.1, b"0.1"),
        ("1", b'"1"'),
        (False, b"false"),
    ],
)
def test_canonical_of_value(value: object, form: bytes) -> None:
    """A Python value has the form of the JSON value it stands for."""
    assert form == canonical(value)


@pytest.mark.parametrize(("document", "expected"), REFUSED)
def test_canonical_refuses_document(document: bytes, expected: str) -> None:
    """What has no canonical form is named, and none of its text is repeated."""
    with pytest.raises(ArgumentsError) as caught:
        canonical(document)
    assert f"$: {expected}" == str(caught.value)
    assert "$" == caught.value.path
    assert caught.value.__cause__ is None


def _nest(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = {"k": value} if isinstance(value, list) else [value]
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({1: "a"}, "expected JSON values"),
        ({1, 2}, "expected JSON values"),
        (float("nan"), "expected numbers in the range of a double"),
        (10**400, "expected numbers in the range of a double"),
        ("\ud800", "expected text without lone surrogates"),
        (_nest(MAX_DEPTH + 1), "expected at most 64 levels"),
    ],
)
def test_canonical_refuses_value(value: object, expected: str) -> None:
    """A Python value that stands for no JSON value is refused."""
    with pytest.raises(ArgumentsError, match=expected):
        canonical(value)


def test_canonical_takes_the_deepest_allowed() -> None:
    """64 levels are read, as a value, compact and with spaces."""
    value = _nest(MAX_DEPTH)
    form = json.dumps(value, separators=(",", ":")).encode()
    assert form == canonical(form)
    assert form == canonical(json.dumps(value, indent=1).encode())
    assert form == canonical(value)
    # Beside another list there are 65 brackets, and still 64 levels.
    deep = b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)
    wide = b"[[]," + deep + b"]"
    assert wide == canonical(wide)


def test_canonical_counts_levels_not_brackets() -> None:
    """Brackets side by side, and brackets in text, are no levels."""
    wide = b"[" + b",".join([b"[]"] * 100) + b"]"
    assert wide == canonical(wide)
    text = b'["' + b"[{" * 100 + b'\\"[[[\\\\"]'
    assert text == canonical(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"1", b'"1"'),
        (b"1", b"true"),
        (b"0", b"false"),
        (b"0", b"null"),
        (b"{}", b"null"),
        (b"{}", b'{"a":null}'),
        (b"[1,2]", b"[2,1]"),
        (b"[]", b"{}"),
        (b'"a"', b'"a "'),
        (b'"A"', b'"a"'),
        (b'{"a":{"b":1}}', b'{"a":"{\\"b\\":1}"}'),
    ],
)
def test_whole_tells_values_apart(one: bytes, other: bytes) -> None:
    """Different JSON values have different digests."""
    assert PLAIN.whole(one) != PLAIN.whole(other)


def test_whole_is_the_start_of_the_hash() -> None:
    """Without a key the digest is 16 bytes of the SHA-256 of the canonical form."""
    sha256 = hashlib.sha256(b'{"a":1,"b":2}').digest()
    assert sha256[:DIGEST_BYTES] == PLAIN.whole(b'{"b": 2, "a": 1.0}')


def test_whole_with_key_is_the_start_of_an_hmac() -> None:
    """With a key the digest is 16 bytes of the HMAC of that SHA-256."""
    sha256 = hashlib.sha256(b'{"a":1}').digest()
    expected = hmac.new(b"a secret of some length", sha256, "sha256").digest()
    assert expected[:DIGEST_BYTES] == KEYED.whole(b'{"a":1}')
    assert PLAIN.whole(b'{"a":1}') != KEYED.whole(b'{"a":1}')


@pytest.mark.parametrize("digester", [PLAIN, KEYED])
def test_whole_from_hash_equals_whole(digester: ArgsDigester) -> None:
    """A host's argsHash, in any case, and its inputs give one digest."""
    sha256 = hashlib.sha256(b'{"a":1}').hexdigest()
    assert digester.whole(b'{"a":1}') == digester.whole_from_hash(sha256)
    assert digester.whole(b'{"a":1}') == digester.whole_from_hash(sha256.upper())


@pytest.mark.parametrize(
    "text",
    ["", "ab" * 31, "ab" * 33, "zz" * 32, "ab " * 21 + "a", " ".join(["ab"] * 32)],
)
def test_whole_from_hash_refuses(text: str) -> None:
    """Anything but 64 hex digits is refused."""
    with pytest.raises(ArgumentsError, match="expected 64 hex digits"):
        PLAIN.whole_from_hash(text)


@pytest.mark.parametrize("digester", [PLAIN, KEYED])
def test_parts_digest_each_member(digester: ArgsDigester) -> None:
    """A member's digest is the digest its value has as a document."""
    inputs = b'{"b": {"y": 1, "x": [1.50]}, "a": "t", "e": "\\ud83d\\ude00"}'
    expected = {
        "a": digester.whole(b'"t"'),
        "b": digester.whole(b'{"x":[1.5],"y":1}'),
        "e": digester.whole('"\U0001f600"'.encode()),
    }
    assert expected == digester.parts(inputs)
    assert (digester.whole(inputs), expected) == digester.both(inputs)


def test_parts_keep_the_named_keys() -> None:
    """Only keys that are asked for are kept; the whole is digested all the same."""
    inputs = b'{"a":1,"secret@example.org":2}'
    assert {"a": PLAIN.whole(b"1")} == PLAIN.parts(inputs, {"a", "b"})
    assert (PLAIN.whole(inputs), {}) == PLAIN.both(inputs, frozenset())


@pytest.mark.parametrize("inputs", [b"null", b"[1]", b'"a"', b"1"])
def test_parts_of_no_object(inputs: bytes) -> None:
    """Only objects have members; an empty one has none of them."""
    assert PLAIN.parts(inputs) is None
    assert (PLAIN.whole(inputs), None) == PLAIN.both(inputs)
    assert {} == PLAIN.parts(b"{}")


@pytest.mark.parametrize("digest", [PLAIN.whole, PLAIN.parts, PLAIN.both])
def test_digests_refuse_what_has_no_form(digest: Any) -> None:
    """Every digest of a document refuses a key that stands twice."""
    with pytest.raises(ArgumentsError, match="expected each key once"):
        digest(b'{"a":1,"a":1}')


def test_digester_refuses_empty_key() -> None:
    """An empty key would look like protection and be none."""
    with pytest.raises(ValueError, match="0 bytes"):
        ArgsDigester(b"")
