"""What cannot run is skipped by a person and fails on CI, by one rule."""

from pathlib import Path

import pytest

from tests.tiers import skip_or_fail

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("ci", [None, "", "0", "false"])
def test_tier_is_skipped_off_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str | None
) -> None:
    """With the reason, which says what to install."""
    if ci is None:
        monkeypatch.delenv("CI", raising=False)
    else:
        monkeypatch.setenv("CI", ci)
    with pytest.raises(pytest.skip.Exception, match=r"^no java$"):
        skip_or_fail("no java")


@pytest.mark.parametrize("ci", ["true", "1", "yes"])
def test_tier_fails_on_ci(monkeypatch: pytest.MonkeyPatch, ci: str) -> None:
    """A gate that left something out would be green for nothing."""
    monkeypatch.setenv("CI", ci)
    with pytest.raises(pytest.fail.Exception, match=r"^CI runs every check: no java$"):
        skip_or_fail("no java")


def test_rule_has_one_home() -> None:
    """No tier asks for ``CI`` by itself."""
    asking = {
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        if '"CI"' in path.read_text(encoding="utf-8") and path != Path(__file__)
    }
    assert asking == {"tiers.py"}
