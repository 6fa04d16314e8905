"""Live and ready as functions of observed facts, state by state."""

from dataclasses import replace

import pytest

from streams.web.health import (
    Facts,
    Health,
    HealthReason,
    Limits,
    liveness,
    readiness,
)

RUNNING = Facts(started=True)
R = HealthReason

# One row a state an operator knows: facts, then what stands against live and
# against ready. The limits are the defaults: stall 600 s, loop 60 s, rebalance
# 15 s, broker 15 s.
MATRIX = {
    "connecting": (Facts(), set(), {R.STARTING}),
    "running": (RUNNING, set(), set()),
    "recovering tables at boot": (
        Facts(recovery_remaining={"runs": 7}),
        set(),
        {R.STARTING, R.RECOVERING},
    ),
    "recovering tables for hours": (
        replace(
            RUNNING,
            recovery_remaining={"runs": 7},
            lag_records=9,
            last_progress_age_s=9_999,
        ),
        set(),
        {R.RECOVERING},
    ),
    "short rebalance": (replace(RUNNING, rebalancing_for_s=15.0), set(), set()),
    "long rebalance": (
        replace(
            RUNNING, rebalancing_for_s=700.0, lag_records=9, last_progress_age_s=700
        ),
        set(),
        {R.REBALANCING},
    ),
    "leader election": (replace(RUNNING, broker_lost_for_s=15.0), set(), set()),
    "broker unreachable": (
        replace(
            RUNNING, broker_lost_for_s=700.0, lag_records=9, last_progress_age_s=700
        ),
        set(),
        {R.BROKER_UNREACHABLE},
    ),
    "crashed agent": (replace(RUNNING, crashed=("grade",)), {R.CRASHED}, {R.CRASHED}),
    "crashed while recovering": (
        Facts(crashed=("tables",), recovery_remaining={"runs": 1}),
        {R.CRASHED},
        {R.CRASHED, R.STARTING, R.RECOVERING},
    ),
    "loop just busy": (replace(RUNNING, loop_age_s=60.0), set(), set()),
    "blocked loop": (
        replace(RUNNING, loop_age_s=61.0),
        {R.LOOP_BLOCKED},
        {R.LOOP_BLOCKED},
    ),
    "idle for hours": (replace(RUNNING, last_progress_age_s=9_999), set(), set()),
    "slow but within the limit": (
        replace(RUNNING, lag_records=1, last_progress_age_s=600),
        set(),
        set(),
    ),
    "no progress while records wait": (
        replace(RUNNING, lag_records=1, last_progress_age_s=601),
        {R.NO_PROGRESS},
        {R.NO_PROGRESS},
    ),
    "lag before the start": (
        Facts(lag_records=1, last_progress_age_s=601),
        set(),
        {R.STARTING},
    ),
    "told to stop": (replace(RUNNING, draining=True), set(), {R.DRAINING}),
    "told to stop, crashed": (
        replace(RUNNING, draining=True, crashed=("grade",)),
        set(),
        {R.DRAINING, R.CRASHED},
    ),
}


@pytest.mark.parametrize("state", MATRIX)
def test_liveness_holds_only_against_what_a_restart_mends(state: str) -> None:
    """Each state is live unless a restart is the only help."""
    facts, against_live, _ = MATRIX[state]
    health = liveness(facts)
    assert (not against_live, against_live) == (health.ok, set(health.reasons))


@pytest.mark.parametrize("state", MATRIX)
def test_readiness_names_every_reason(state: str) -> None:
    """Each state that may not be used says why, with every reason."""
    facts, _, against_ready = MATRIX[state]
    health = readiness(facts)
    assert (not against_ready, against_ready) == (health.ok, set(health.reasons))


def test_every_reason_occurs_in_the_matrix() -> None:
    """The matrix leaves no reason of the closed list untested."""
    assert set(HealthReason) == set().union(*(row[2] for row in MATRIX.values()))


def test_recovery_says_what_is_left_by_table() -> None:
    """The body tells an operator how far recovery is: 7 + 5 records."""
    facts = replace(RUNNING, recovery_remaining={"runs": 7, "trials": 5})
    expected = Health(
        reasons={
            R.RECOVERING: {"records": 12, "tables": {"runs": 7, "trials": 5}},
        }
    )
    assert expected == readiness(facts)


def test_limits_are_settable() -> None:
    """A stall limit of 5 s counts 6 s without progress."""
    facts = replace(RUNNING, lag_records=1, last_progress_age_s=6)
    assert not liveness(facts, Limits(stall_s=5)).ok
