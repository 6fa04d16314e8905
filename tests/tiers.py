"""Whether a tier that cannot run is skipped or fails."""

import os
from typing import NoReturn

import pytest


def skip_or_fail(reason: str) -> NoReturn:
    """Skips the test; on CI, where nothing may be left out, fails it.

    Args:
        reason: What is missing, and how to have it.
    """
    if os.environ.get("CI", "") not in {"", "0", "false"}:
        pytest.fail(f"CI runs every check: {reason}", pytrace=False)
    pytest.skip(reason)
