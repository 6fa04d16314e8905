"""The catalogue's naming rules, and what the recorder exports."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from schemas.errors import DecodeCode
from schemas.reasons import TrialReason
from schemas.records import (
    AlertKind,
    DisagreementKind,
    Evidence,
    Outcome,
    Severity,
    SuiteRecord,
)
from schemas.summary import EvalSummary
from streams.metrics import (
    CATALOGUE,
    Build,
    Kind,
    KnownLabels,
    Metric,
    Metrics,
    Repair,
    RunFigures,
    Target,
    TooLate,
    expose,
    markdown_table,
    new_registry,
    sample_names,
)

SUITES = {"acme.evals.refunds": 0.7, "acme.evals.search": None}
KNOWN = KnownLabels(
    topics=("agent.tool-called", "eval.scored"),
    tables=("runs", "trials"),
    suites=SUITES,
)
BUILD = Build(version="1.2.3", revision="abc")
BASE_UNITS = ("seconds", "ratio", "bytes", "records")


def samples(registry: CollectorRegistry) -> Iterator[Sample]:
    """Every sample of a scrape."""
    body, _ = expose(registry)
    for family in text_string_to_metric_families(body.decode()):
        yield from family.samples


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    """One sample's value; None if the series is not there."""
    for sample in samples(registry):
        if (sample.name, sample.labels) == (name, labels):
            return sample.value
    return None


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry, KNOWN, BUILD, clock=lambda: 1_790_000_000.0)


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_catalogue_entry_keeps_the_naming_rules(metric: Metric) -> None:
    """Prefix, base unit, ``_total`` on counters alone, no label in the name."""
    assert re.fullmatch(r"pathgate_[a-z]+(_[a-z]+)*", metric.name)
    assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
    if metric.unit in BASE_UNITS and metric.kind is not Kind.COUNTER:
        assert metric.name.endswith(f"_{metric.unit}")
    words = metric.name.split("_")
    assert not [label.name for label in metric.labels if label.name in words]


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_catalogue_entry_says_what_it_means_and_what_to_do(metric: Metric) -> None:
    """HELP is two sentences, on one line, and names no id."""
    assert metric.meaning.endswith(".")
    assert metric.action.endswith(".")
    assert "\n" not in metric.help
    assert not {"run", "run_id", "task", "trial", "event", "tool"} & {
        label.name for label in metric.labels
    }


def test_names_are_unique() -> None:
    """No two entries share a name."""
    assert len(CATALOGUE) == len({metric.name for metric in CATALOGUE})


def test_scrape_before_the_first_event_has_every_closed_series_at_zero(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """A rate is right from the first event, since the series started at 0."""
    del metrics
    # A scrape gives the labels in alphabetical order.
    found = {(s.name, *s.labels.values()): s.value for s in samples(registry)}
    closed = [
        ("pathgate_events_received_total", "eval.scored"),
        ("pathgate_events_received_total", "other"),
        *(("pathgate_events_rejected_total", code) for code in DecodeCode),
        *(("pathgate_dead_letters_total", code) for code in DecodeCode),
        *(("pathgate_trials_gated_total", reason) for reason in TrialReason),
        *(
            ("pathgate_runs_finished_total", outcome, verdict)
            for outcome in Outcome
            for verdict in ("passed", "closed")
        ),
        *(
            ("pathgate_alerts_published_total", kind, severity)
            for kind in AlertKind
            for severity in Severity
        ),
        *(("pathgate_host_disagreements_total", kind) for kind in DisagreementKind),
        *(("pathgate_events_too_late_total", kind) for kind in TooLate),
        *(("pathgate_produce_failures_total", target) for target in Target),
        *(("pathgate_changelog_conflicts_total", repair) for repair in Repair),
        ("pathgate_gate_changed_verdicts_total", "suite", "acme.evals.refunds"),
        ("pathgate_gate_changed_verdicts_total", "task", "other"),
        ("pathgate_gate_decisions_total", "acme.evals.search", "closed"),
        ("pathgate_misrouted_runs_total",),
        ("pathgate_decision_latency_seconds_count",),
        ("pathgate_ready",),
    ]
    assert dict.fromkeys(closed, 0.0) == {key: found.get(key) for key in closed}


def test_every_entry_of_the_catalogue_is_registered(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """Every entry has its HELP and TYPE in a scrape; score gauges gain series."""
    metrics.run_finished(_figures())
    body = expose(registry)[0].decode()
    for metric in CATALOGUE:
        assert f"# TYPE {metric.name} {metric.kind}\n" in body
        assert all(
            re.search(f"^{name}[ {{]", body, re.MULTILINE)
            for name in sample_names(metric)
        )


def test_scrape_has_no_created_series(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """The client's ``_created`` series would double the scrape."""
    del metrics
    assert not [s.name for s in samples(registry) if s.name.endswith("_created")]


def test_bar_is_shown_only_for_suites_that_have_one(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """A dashboard draws the bar before the first run; no bar, no line."""
    del metrics
    shown = {
        s.labels["suite"]: s.value
        for s in samples(registry)
        if s.name == "pathgate_bar_ratio"
    }
    assert {"acme.evals.refunds": 0.7} == shown


def test_build_info_names_the_build(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """Version, revision and interpreter."""
    del metrics
    python = ".".join(map(str, sys.version_info[:3]))
    assert 1.0 == value(
        registry,
        "pathgate_build_info",
        version="1.2.3",
        revision="abc",
        python_version=python,
    )


def _figures(**over: object) -> RunFigures:
    base: dict[str, object] = {
        "suite": "acme.evals.refunds",
        "outcome": Outcome.COMPLETE,
        "passed": False,
        "legacy_passed": True,
        "score": 0.9,
        "gated_score": 0.45,
    }
    return RunFigures(**{**base, **over})  # type: ignore[arg-type]  # literal defaults


def test_changed_verdict_is_counted_with_its_run(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """RFC 0246's second example: 0.9 measured, 0.45 gated, bar 0.7, closed."""
    metrics.run_finished(_figures())
    suite = "acme.evals.refunds"
    assert (1.0, 1.0, 1.0, 0.9, 0.45, 0.0, 1_790_000_000.0) == (
        value(
            registry, "pathgate_gate_changed_verdicts_total", suite=suite, level="suite"
        ),
        value(registry, "pathgate_gate_decisions_total", suite=suite, verdict="closed"),
        value(
            registry,
            "pathgate_runs_finished_total",
            outcome="complete",
            verdict="closed",
        ),
        value(registry, "pathgate_last_score_ratio", suite=suite),
        value(registry, "pathgate_last_gated_score_ratio", suite=suite),
        value(registry, "pathgate_last_verdict_passed", suite=suite),
        value(registry, "pathgate_last_decision_timestamp_seconds", suite=suite),
    )


@pytest.mark.parametrize(
    ("passed", "legacy_passed"), [(True, True), (False, False), (True, False)]
)
def test_unchanged_verdict_is_not_counted_as_changed(
    registry: CollectorRegistry, metrics: Metrics, *, passed: bool, legacy_passed: bool
) -> None:
    """Only "RFC 0244 passes, RFC 0246 does not" is a change."""
    metrics.run_finished(_figures(passed=passed, legacy_passed=legacy_passed))
    metrics.task_finished(
        "acme.evals.refunds", passed=passed, legacy_passed=legacy_passed
    )
    changed = [
        s.value
        for s in samples(registry)
        if s.name == "pathgate_gate_changed_verdicts_total"
    ]
    assert 0.0 == sum(changed)


def test_revision_counts_a_changed_verdict_once(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """A pass that a late forbidden call closes is one change, two revisions."""
    metrics.run_finished(_figures(passed=True, gated_score=0.9))
    metrics.run_revised(_figures(), changed_before=False)
    metrics.run_revised(_figures(gated_score=0.4), changed_before=True)
    suite = "acme.evals.refunds"
    assert (1.0, 2.0, 1.0, 0.4) == (
        value(
            registry, "pathgate_gate_changed_verdicts_total", suite=suite, level="suite"
        ),
        value(registry, "pathgate_revisions_total", level="suite"),
        value(
            registry,
            "pathgate_runs_finished_total",
            outcome="complete",
            verdict="passed",
        ),
        value(registry, "pathgate_last_gated_score_ratio", suite=suite),
    )


def test_figures_are_those_of_the_record() -> None:
    """Without a gated aggregate, the measured one is what was held to the bar."""
    record = SuiteRecord(
        record_version=1,
        run_id="acme/0123456789abcdef",
        outcome=Outcome.ABANDONED,
        evidence=Evidence(calls=0, scores=1),
        summary=EvalSummary(
            suite_id="acme.evals.search",
            suite_version="1.0.0",
            aggregate_score=0.5,
            passed=False,
            task_count=1,
            passed_count=0,
            tasks=(),
        ),
        reasons=(),
        legacy_passed=False,
    )
    assert RunFigures(
        suite="acme.evals.search",
        outcome=Outcome.ABANDONED,
        passed=False,
        legacy_passed=False,
        score=0.5,
        gated_score=0.5,
    ) == RunFigures.from_record(record)


def test_ten_thousand_ids_add_no_series(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """Whatever is passed by mistake is counted as ``other``."""
    before = len(list(samples(registry)))
    for number in range(10_000):
        made_up = f"acme/{number:016x}"
        metrics.events_in(made_up)
        # Typed as an enum; a decoder that grows a code must not grow the scrape.
        metrics.rejected(made_up)  # type: ignore[arg-type]  # the mistake tested
        metrics.dead_lettered(made_up)  # type: ignore[arg-type]  # the mistake tested
        metrics.set_lag(made_up, 1, 1.0)
        metrics.set_table_rows(made_up, 1)
        metrics.set_recovery_remaining(made_up, 1)
        metrics.run_finished(_figures(suite=made_up))
        metrics.task_finished(made_up, passed=False, legacy_passed=True)
        metrics.host_disagreements(made_up)
    # Three: these closed sets have no ``other`` until something falls into it.
    assert before + 3 == len(list(samples(registry)))
    assert 10_000.0 == value(registry, "pathgate_events_received_total", topic="other")
    assert 10_000.0 == value(
        registry, "pathgate_gate_changed_verdicts_total", suite="other", level="task"
    )


def test_suites_beyond_the_cap_share_other(registry: CollectorRegistry) -> None:
    """With room for 2, the third suite is ``other`` and has no score gauge."""
    metrics = Metrics(registry, KnownLabels(max_suites=2), BUILD)
    for number in range(1_000):
        metrics.declare_suite(f"acme.evals.s{number}", 0.5)
        metrics.run_finished(_figures(suite=f"acme.evals.s{number}"))
    by_suite = {
        s.labels["suite"]: s.value
        for s in samples(registry)
        if s.name == "pathgate_gate_changed_verdicts_total"
        and s.labels["level"] == "suite"
    }
    assert {"acme.evals.s0": 1.0, "acme.evals.s1": 1.0, "other": 998.0} == by_suite
    assert {"acme.evals.s0", "acme.evals.s1"} == {
        s.labels["suite"]
        for s in samples(registry)
        if s.name == "pathgate_last_score_ratio"
    }


def test_each_method_moves_its_own_metric(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """Counts add up per chunk; gauges hold what was last stated."""
    metrics.events_in("eval.scored", 500)
    metrics.events_in("eval.scored", 2)
    metrics.duplicates(3)
    metrics.redelivered(4)
    metrics.late(5)
    metrics.too_late(TooLate.FORBIDDEN_CALL)
    metrics.ids_outside_grammar(6)
    metrics.ordinary_calls_dropped(7)
    metrics.misrouted_runs()
    metrics.late_starts()
    metrics.trials_sealed(8)
    metrics.trials_gated(TrialReason.FORBIDDEN_TOOL, 2)
    metrics.set_open(runs=9, trials=10, oldest_unsealed_at_s=11.5)
    metrics.observe_sealing_wait(0.2)
    metrics.observe_decision_latency(-1.0)
    metrics.task_revised()
    metrics.alerts_published(AlertKind.GATE_CLOSED, Severity.WARNING)
    metrics.set_ready(ready=True)
    metrics.set_lag("eval.scored", 12, 13.5)
    metrics.progressed(14.5)
    metrics.set_recovery_remaining("runs", 15)
    metrics.set_table_rows("runs", 16)
    metrics.rebalanced()
    metrics.produce_failed(Target.CHANGELOG)
    metrics.changelog_conflict(Repair.FAILED)
    expected = {
        ("pathgate_events_received_total", "eval.scored"): 502,
        ("pathgate_events_duplicate_total",): 3,
        ("pathgate_events_redelivered_total",): 4,
        ("pathgate_events_late_total",): 5,
        ("pathgate_events_too_late_total", "forbidden-call"): 1,
        ("pathgate_ids_outside_grammar_total",): 6,
        ("pathgate_ordinary_calls_dropped_total",): 7,
        ("pathgate_misrouted_runs_total",): 1,
        ("pathgate_late_starts_total",): 1,
        ("pathgate_trials_sealed_total",): 8,
        ("pathgate_trials_gated_total", "forbidden-tool"): 2,
        ("pathgate_runs_open",): 9,
        ("pathgate_trials_open",): 10,
        ("pathgate_oldest_unsealed_score_timestamp_seconds",): 11.5,
        ("pathgate_sealing_wait_seconds_sum",): 0.2,
        ("pathgate_decision_latency_seconds_count",): 1,
        ("pathgate_decision_latency_seconds_sum",): 0,
        ("pathgate_revisions_total", "task"): 1,
        ("pathgate_alerts_published_total", "gate-closed", "warning"): 1,
        ("pathgate_ready",): 1,
        ("pathgate_consumer_lag_records", "eval.scored"): 12,
        ("pathgate_consumer_lag_seconds", "eval.scored"): 13.5,
        ("pathgate_last_progress_timestamp_seconds",): 14.5,
        ("pathgate_recovery_remaining_records", "runs"): 15,
        ("pathgate_state_rows", "runs"): 16,
        ("pathgate_rebalances_total",): 1,
        ("pathgate_produce_failures_total", "changelog"): 1,
        ("pathgate_changelog_conflicts_total", "failed"): 1,
    }
    found = {(s.name, *s.labels.values()): s.value for s in samples(registry)}
    assert expected == {key: found.get(key) for key in expected}


def test_a_registry_takes_one_recorder(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """Two recorders on one registry would count into each other."""
    del metrics
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        Metrics(registry, KNOWN, BUILD)


def test_new_registry_says_how_the_process_does() -> None:
    """CPU, memory and garbage collection come with the client library."""
    names = {sample.name for sample in samples(new_registry())}
    assert {"process_start_time_seconds", "python_info"} <= names


def test_module_prints_the_table_of_the_readme() -> None:
    """``python -m streams.metrics`` prints one row a metric, six cells wide."""
    printed = subprocess.run(
        [sys.executable, "-m", "streams.metrics"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert markdown_table() == printed
    rows = printed.splitlines()[2:]
    assert len(CATALOGUE) == len(rows)
    assert {6} == {row.count("|") for row in rows}
