"""What can be wrong with bytes that come in, and where."""


class SchemaError(Exception):
    """Bytes or documents that do not have the declared shape."""


class DecodeError(SchemaError):
    """A document that cannot be read; says where and what was expected.

    Never holds any text of the document itself: a caller may log it.

    Args:
        path: JSON path of the fault, ``$`` for the document as a whole.
        expected: What should have stood there, in words.
        code: Stable kebab-case code of the kind of fault, for counters.
    """

    def __init__(self, path: str, expected: str, code: str = "invalid-event") -> None:
        super().__init__(f"{path}: {expected}")
        self.path = path
        self.expected = expected
        self.code = code


class SuiteError(SchemaError):
    """A suite, alias map or expectation that cannot be used; names the place.

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
