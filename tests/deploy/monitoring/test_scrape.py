"""promtool's verdict on a scrape of the worker's own metrics."""

import subprocess
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge

from schemas.records import Outcome
from streams.metrics import (
    Build,
    KnownLabels,
    Metrics,
    RunFigures,
    expose,
    new_registry,
)


def check_metrics(tools: Path, registry: CollectorRegistry) -> tuple[int, str]:
    """Exit code and complaints of ``promtool check metrics``."""
    done = subprocess.run(
        [str(tools / "promtool"), "check", "metrics"],
        input=expose(registry)[0],
        capture_output=True,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).decode()


def test_scrape_is_clean(monitoring_tools: Path) -> None:
    """Names, units and HELP of every metric pass, score gauges included."""
    registry = new_registry()
    suite = "acme.evals.refunds"
    known = KnownLabels(topics=("t",), tables=("runs",), suites={suite: 0.7})
    metrics = Metrics(registry, known, Build(version="1"))
    metrics.run_finished(
        RunFigures(
            suite=suite,
            outcome=Outcome.COMPLETE,
            passed=False,
            legacy_passed=True,
            score=0.9,
            gated_score=0.45,
        )
    )
    assert (0, "") == check_metrics(monitoring_tools, registry)


def test_scrape_check_finds_a_bad_name(monitoring_tools: Path) -> None:
    """Milliseconds in a gauge called total are refused."""
    registry = CollectorRegistry()
    Gauge("pathgate_wait_ms_total", "Waits.", registry=registry).set(1)
    code, said = check_metrics(monitoring_tools, registry)
    assert (3, True) == (code, "pathgate_wait_ms_total" in said)
