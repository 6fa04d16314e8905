"""A set that never forgets a member, and rarely takes a stranger for one."""

from streams.core.bloom import BloomFilter, RotatingBloom


def test_members_are_never_missed() -> None:
    """Every one of thousands, in a filter that is much too small as well."""
    for bits_log2 in (3, 16):
        known = BloomFilter(bits_log2)
        for number in range(3000):
            known.add(f"run-{number}")
        assert all(f"run-{number}" in known for number in range(3000))


def test_strangers_are_rarely_taken_for_members() -> None:
    """1,000 members in 2**16 bits: expected (1 - e^(-4/65.5))^4, 1 in 80,000."""
    known = BloomFilter(16)
    for number in range(1000):
        known.add(f"run-{number}")
    hits = sum(f"other-{number}" in known for number in range(10_000))
    assert hits < 20


def test_an_empty_filter_has_no_member() -> None:
    """Not even the empty string."""
    assert "" not in BloomFilter()
    assert "run" not in BloomFilter(3)


def test_two_generations_are_remembered() -> None:
    """A member survives one rotation and not two."""
    known = RotatingBloom(16)
    assert "run-1" not in known
    known.add("run-1")
    assert "run-1" in known
    known.rotate()
    known.add("run-2")
    assert {"run-1", "run-2"} == {run for run in ("run-1", "run-2") if run in known}
    known.rotate()
    assert "run-1" not in known
    assert "run-2" in known
    known.rotate()
    assert "run-2" not in known


def test_a_new_generation_is_as_large_as_the_old() -> None:
    """The size is kept."""
    known = RotatingBloom(5)
    known.rotate()
    assert [4, 4] == [len(known._old._bits), len(known._new._bits)]
    assert 1 << 21 == len(RotatingBloom()._new._bits) == len(BloomFilter()._bits)
