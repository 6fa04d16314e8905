"""What ``verify`` says of a pass and ends with; reading topics needs a broker."""

from typing import Any

import pytest

from streams.cli.verify import code_of, render
from streams.verify import Fault, Finding, Verified

FINDING = Finding(run_id="acme/r", fault=Fault.SUITE_RECORD, detail="not published")


def verified(**over: Any) -> Verified:
    agreed: dict[str, Any] = {"runs": 2, "open": 0, "rejected": 0, "findings": ()}
    return Verified(**(agreed | over))


@pytest.mark.parametrize(
    ("found", "code", "last"),
    [
        (verified(), 0, "2 runs compared, all agree"),
        (verified(open=1), 0, "2 runs compared, all agree, 1 not ended yet"),
        # Whether they belonged to a run that agrees, nobody can say.
        (verified(rejected=7), 3, "2 runs compared, all agree"),
        (verified(runs=0), 3, "nothing to compare"),
        (verified(runs=0, open=3), 3, "nothing to compare, 3 not ended yet"),
        (verified(findings=(FINDING,)), 1, "2 runs compared, 1 differ"),
        (verified(findings=(FINDING,), rejected=7), 1, "2 runs compared, 1 differ"),
    ],
)
def test_a_pass_has_its_code_and_its_totals(
    found: Verified, code: int, last: str
) -> None:
    """A difference goes before a doubt, and no comparison is no agreement."""
    lines = render(found).splitlines()
    assert (code_of(found), lines[-1], len(lines) - 1) == (
        code,
        last,
        len(found.findings),
    )
