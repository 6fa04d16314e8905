"""Live and ready, decided from observed facts.

Live means "only a restart helps if not": it never depends on the broker, on
recovery or on rebalancing, since restarting during a long recovery only starts
it again. Ready means running, with every table usable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class HealthReason(StrEnum):
    """Why a worker is not live or not ready; the closed list of probe bodies."""

    STARTING = "starting"
    RECOVERING = "recovering"
    REBALANCING = "rebalancing"
    BROKER_UNREACHABLE = "broker-unreachable"
    CRASHED = "crashed"
    LOOP_BLOCKED = "loop-blocked"
    NO_PROGRESS = "no-progress"
    DRAINING = "draining"


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What was observed of a worker at one moment.

    Args:
        started: Whether partitions were assigned and processing has begun.
        recovery_remaining: Table -> changelog records still to read; empty when
            no table recovers.
        rebalancing_for_s: How long the current rebalance has lasted, seconds;
            None when there is none.
        broker_lost_for_s: For how long no broker has answered; None when one
            does.
        crashed: Names of the agents and services that have died.
        loop_age_s: Age of the oldest last tick among the worker's event loops,
            seconds.
        last_progress_age_s: Seconds since a chunk was finished, or since
            processing began or was resumed if that is later.
        lag_records: Records of the assigned partitions not yet processed.
        draining: Whether the worker was told to stop.
    """

    started: bool = False
    recovery_remaining: Mapping[str, int] = field(default_factory=dict)
    rebalancing_for_s: float | None = None
    broker_lost_for_s: float | None = None
    crashed: tuple[str, ...] = ()
    loop_age_s: float = 0.0
    last_progress_age_s: float = 0.0
    lag_records: int = 0
    draining: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How long a state may last before it counts, seconds.

    Args:
        stall_s: No progress while records wait.
        loop_s: No tick of an event loop.
        rebalance_s: A rebalance; shorter ones leave a ready worker ready, so
            that a rolling restart does not make every worker flap.
        broker_s: No broker answers; a leader election is over sooner.
    """

    stall_s: float = 600.0
    loop_s: float = 60.0
    rebalance_s: float = 15.0
    broker_s: float = 15.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """The answer of a probe.

    Args:
        reasons: Reason -> its figures (seconds, records, names); empty if well.
    """

    reasons: Mapping[HealthReason, Mapping[str, object]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing stands against it."""
        return not self.reasons


class HealthSource(Protocol):
    """Whoever observes the worker."""

    def facts(self) -> Facts:
        """What is observed now; cheap, and asks no broker."""


def liveness(facts: Facts, limits: Limits | None = None) -> Health:
    """Whether the worker can go on without a restart.

    Args:
        facts: What was observed.
        limits: How long a state may last; the defaults if None.

    Returns:
        Not live when an agent or service died, a loop is blocked, or records
        wait and none was processed for ``stall_s`` although nothing holds
        processing up. A draining worker is live: it is on its way out.

    Source: this project's choice, after Kubernetes' advice that liveness stands
        for what only a restart mends.
    """
    if facts.draining:
        return Health()
    return Health(reasons=_broken(facts, limits or Limits()))


def readiness(facts: Facts, limits: Limits | None = None) -> Health:
    """Whether the worker runs with every table usable.

    Args:
        facts: What was observed.
        limits: How long a state may last; the defaults if None.

    Returns:
        Not ready while starting, recovering or draining, in a rebalance or a
        broker outage longer than the limits, and whenever not live.
    """
    limits = limits or Limits()
    reasons = _broken(facts, limits)
    if facts.draining:
        reasons[HealthReason.DRAINING] = {}
    if not facts.started:
        reasons[HealthReason.STARTING] = {}
    if facts.recovery_remaining:
        reasons[HealthReason.RECOVERING] = {
            "records": sum(facts.recovery_remaining.values()),
            "tables": dict(facts.recovery_remaining),
        }
    if _exceeds(facts.rebalancing_for_s, limits.rebalance_s):
        reasons[HealthReason.REBALANCING] = {"seconds": facts.rebalancing_for_s}
    if _exceeds(facts.broker_lost_for_s, limits.broker_s):
        reasons[HealthReason.BROKER_UNREACHABLE] = {"seconds": facts.broker_lost_for_s}
    return Health(reasons=reasons)


def _broken(facts: Facts, limits: Limits) -> dict[HealthReason, Mapping[str, object]]:
    reasons: dict[HealthReason, Mapping[str, object]] = {}
    if facts.crashed:
        reasons[HealthReason.CRASHED] = {"names": list(facts.crashed)}
    if facts.loop_age_s > limits.loop_s:
        reasons[HealthReason.LOOP_BLOCKED] = {"seconds": facts.loop_age_s}
    if _stalled(facts, limits):
        reasons[HealthReason.NO_PROGRESS] = {
            "seconds": facts.last_progress_age_s,
            "records": facts.lag_records,
        }
    return reasons


def _stalled(facts: Facts, limits: Limits) -> bool:
    held_up = (
        not facts.started
        or bool(facts.recovery_remaining)
        or facts.rebalancing_for_s is not None
        or facts.broker_lost_for_s is not None
    )
    return (
        not held_up
        and facts.lag_records > 0
        and facts.last_progress_age_s > limits.stall_s
    )


def _exceeds(lasted_s: float | None, limit_s: float) -> bool:
    return lasted_s is not None and lasted_s > limit_s
