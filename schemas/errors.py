"""What can be wrong with bytes that come in, and where."""

from enum import StrEnum


class SchemaError(Exception):
    """Bytes or documents that do not have the declared shape."""


class DecodeCode(StrEnum):
    """Kinds of fault in bytes, a closed list: labels of counters and metrics."""

    EMPTY = "empty"
    TOO_LARGE = "too-large"
    TOO_DEEP = "too-deep"
    INVALID_UTF8 = "invalid-utf8"
    LONE_SURROGATE = "lone-surrogate"
    BYTE_ORDER_MARK = "byte-order-mark"
    SCHEMA_REGISTRY_FRAMING = "schema-registry-framing"
    NOT_JSON = "not-json"
    NOT_AN_EVENT = "not-an-event"
    DUPLICATE_KEY = "duplicate-key"
    INVALID_PAYLOAD = "invalid-payload"
    INVALID_DOCUMENT = "invalid-document"


class DecodeError(SchemaError):
    """A document that cannot be read; says where and what was expected.

    Never holds any text of the document itself: a caller may log it.

    Args:
        path: JSON path of the fault, ``$`` for the document as a whole.
        expected: What should have stood there, in words.
        code: The kind of fault.
    """

    def __init__(
        self,
        path: str,
        expected: str,
        code: DecodeCode = DecodeCode.INVALID_DOCUMENT,
    ) -> None:
        super().__init__(f"{path}: {expected}")
        self.path = path
        self.expected = expected
        self.code = code


class SourceError(SchemaError):
    """A named document that cannot be used; correct it and load it again.

    Args:
        source: File or topic record it came from.
        path: JSON path of the fault.
        expected: What should have stood there, in words.
    """

    def __init__(self, source: str, path: str, expected: str) -> None:
        super().__init__(f"{source}: {path}: {expected}")
        self.source = source
        self.path = path
        self.expected = expected


class SuiteError(SourceError):
    """A suite, alias map or expectation that cannot be used; names the place."""


class SummaryError(SourceError):
    """A host's own scorecard that cannot be used; names the place."""


class SchemaNotFoundError(SchemaError):
    """No schema has that name; pick one of those listed.

    Args:
        name: The name.
        names: Those there are.
    """

    def __init__(self, name: str, names: tuple[str, ...]) -> None:
        super().__init__(f"{name!r}: expected one of {', '.join(names)}")
        self.name = name
        self.names = names
