"""A value that must not be seen in a repr, a log or an error."""

from typing import final


@final
class Secret:
    """Bytes that show as ``***`` wherever they are printed.

    Args:
        value: The secret itself.
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """The secret; pass it on at once and keep it nowhere."""
        return self._value

    def reveal_text(self) -> str:
        """The secret as UTF-8 text.

        Raises:
            ValueError: It is no UTF-8; its bytes are not in the error.
        """
        try:
            return self._value.decode()
        except UnicodeDecodeError:
            raise ValueError("a secret is not UTF-8") from None

    def __repr__(self) -> str:
        """Hides the value."""
        return "Secret(***)"

    def __str__(self) -> str:
        """Hides the value."""
        return "***"

    def __eq__(self, other: object) -> bool:
        """Compares the values."""
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        """Hashes the value."""
        return hash(self._value)

    def __reduce__(self) -> str | tuple[object, ...]:
        """Refuses: a pickle would hold the value."""
        raise TypeError("a secret cannot be pickled")
