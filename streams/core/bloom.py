"""A set of strings that never forgets, in fixed memory, with rare false hits."""


class BloomFilter:
    """Bloom filter over strings.

    Args:
        bits_log2: Base-2 logarithm of the number of bits; 24 is 2 MiB, and with
            a million members 1 in 500 strangers is taken for one.
    """

    __slots__ = ("_bits", "_mask")

    def __init__(self, bits_log2: int = 24) -> None:
        self._bits = bytearray(1 << (bits_log2 - 3))
        self._mask = (1 << bits_log2) - 1

    def add(self, member: str) -> None:
        """Takes ``member`` in."""
        bits, mask = self._bits, self._mask
        for position in _positions(member):
            place = position & mask
            bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, candidate: str) -> bool:
        """Whether ``candidate`` may be a member; never False for one."""
        bits, mask = self._bits, self._mask
        return all(
            bits[(p & mask) >> 3] & (1 << (p & mask & 7)) for p in _positions(candidate)
        )


def _positions(text: str) -> tuple[int, int, int, int]:
    # Double hashing; str hashes are 64 bits and differ by process, which is
    # fine for a filter that lives in one.
    one = hash(text)
    two = (one >> 32) | 1
    return one, one + two, one + 2 * two, one + 3 * two


class RotatingBloom:
    """Two generations of a filter: what was added is forgotten after one to two."""

    __slots__ = ("_bits_log2", "_new", "_old")

    def __init__(self, bits_log2: int = 24) -> None:
        self._bits_log2 = bits_log2
        self._new = BloomFilter(bits_log2)
        self._old = BloomFilter(bits_log2)

    def add(self, member: str) -> None:
        """Takes ``member`` into the newer generation."""
        self._new.add(member)

    def __contains__(self, candidate: str) -> bool:
        """Whether ``candidate`` may be a member of either generation."""
        return candidate in self._new or candidate in self._old

    def rotate(self) -> None:
        """Forgets the older generation and begins a new one."""
        self._old, self._new = self._new, BloomFilter(self._bits_log2)
