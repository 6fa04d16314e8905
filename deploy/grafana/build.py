#!/usr/bin/env python3
"""Writes the dashboards: ``python deploy/grafana/build.py``.

The JSON in ``dashboards/`` is what Grafana reads and what the chart ships; it is
written from the panels below, so that every panel keeps the same conventions.
Needs nothing but Python 3.11.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DASHBOARDS = Path(__file__).parent / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WORKER = 'job=~"$job", instance=~"$instance"'
SUITE = f'{WORKER}, suite=~"$suite"'
TOTAL = 'job=~"$job"'  # recorded over all workers: there is no instance left
TOTAL_SUITE = f'{TOTAL}, suite=~"$suite"'
RATE = "$__rate_interval"

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """One panel.

    Args:
        title: What it shows.
        description: How to read it, and what to do about it.
        unit: Grafana unit id.
        targets: Legend -> PromQL.
        kind: Grafana panel type.
        width: Of 24.
        stacked: Whether series are bars on top of each other.
        words: Value -> word and colour, for states.
    """

    title: str
    description: str
    unit: str
    targets: dict[str, str]
    kind: str = "timeseries"
    width: int = 12
    stacked: bool = False
    words: tuple[tuple[str, str, str], ...] = ()


PASSED = (("0", "closed", "red"), ("1", "passed", "green"))
READY = (("0", "not ready", "red"), ("1", "ready", "green"))

GATE = (
    Panel(
        title="Latest verdict by suite",
        description="Whether the latest graded run of each suite passed the gate.",
        unit="none",
        targets={
            "{{suite}}": f"job_suite:pathgate_last_verdict_passed:latest{{{TOTAL_SUITE}}}"
        },
        kind="state-timeline",
        width=24,
        words=PASSED,
    ),
    Panel(
        title="Gated score against the bar",
        description="The gate compares the gated score with the bar. A measured score"
        " well above the gated one: good answers on wrong paths.",
        unit="percentunit",
        targets={
            "{{suite}} gated": f"job_suite:pathgate_last_gated_score_ratio:latest{{{TOTAL_SUITE}}}",
            "{{suite}} measured": f"job_suite:pathgate_last_score_ratio:latest{{{TOTAL_SUITE}}}",
            "{{suite}} bar": f"max by (suite) (pathgate_bar_ratio{{{SUITE}}})",
        },
    ),
    Panel(
        title="Verdicts the gate changed",
        description="Runs and tasks that RFC 0244 passes and RFC 0246 does not: a wrong"
        " or forbidden path with a good score. Counted in 15-minute windows.",
        unit="short",
        targets={
            "{{suite}} {{level}}": "job_level_suite:pathgate_gate_changed_verdicts:increase15m"
            f"{{{TOTAL_SUITE}}}",
        },
    ),
    Panel(
        title="Runs graded",
        description="By verdict of the gate.",
        unit="short",
        targets={
            "{{verdict}}": f"sum by (verdict) (increase(pathgate_gate_decisions_total{{{SUITE}}}[{RATE}]))",
        },
        stacked=True,
    ),
    Panel(
        title="Share of runs closed, 6 hours",
        description="By suite. A rise is a regression of the agent, or a host that"
        " leaves runs incomplete.",
        unit="percentunit",
        targets={
            "{{suite}}": f"job_suite:pathgate_gate_closed:ratio_increase6h{{{TOTAL_SUITE}}}"
        },
    ),
    Panel(
        title="Why trials are gated",
        description="A trial counts once for each of its reasons.",
        unit="short",
        targets={
            "{{reason}}": f"sum by (reason) (increase(pathgate_trials_gated_total{{{WORKER}}}[{RATE}]))",
        },
        stacked=True,
    ),
    Panel(
        title="How runs ended",
        description="Anything but complete is closed: the host failed, was cancelled or"
        " went silent.",
        unit="short",
        targets={
            "{{outcome}}": f"sum by (outcome) (increase(pathgate_runs_finished_total{{{WORKER}}}[{RATE}]))",
        },
        stacked=True,
    ),
    Panel(
        title="Where hosts disagree",
        description="The gate never follows the host. suite-passed-ungated: it has not"
        " migrated to RFC 0246.",
        unit="short",
        targets={
            "{{kind}}": f"job_kind:pathgate_host_disagreements:increase15m{{{TOTAL}}}"
        },
    ),
    Panel(
        title="Alerts published",
        description="Records on the alert topic, by kind and severity.",
        unit="short",
        targets={
            "{{kind}} ({{severity}})": "job_kind_severity:pathgate_alerts_published:increase15m"
            f"{{{TOTAL}}} > 0",
        },
    ),
    Panel(
        title="Records published again",
        description="Revisions: an event that came later changed a verdict or a figure.",
        unit="short",
        targets={
            "{{level}}": f"sum by (level) (increase(pathgate_revisions_total{{{WORKER}}}[{RATE}]))",
        },
        stacked=True,
    ),
    Panel(
        title="Decision latency",
        description="From the publication of a run's last score to its suite summary."
        " Objective: 5 s.",
        unit="s",
        targets={
            f"p{percent}": f"histogram_quantile(0.{percent}, sum by (le) "
            f"(rate(pathgate_decision_latency_seconds_bucket{{{WORKER}}}[{RATE}])))"
            for percent in (50, 95, 99)
        },
    ),
)

OPERATIONS = (
    Panel(
        title="Ready",
        description="Running, recovered, not rebalancing. /readyz of the worker gives"
        " its reasons.",
        unit="none",
        targets={"{{instance}}": f"pathgate_ready{{{WORKER}}}"},
        kind="state-timeline",
        width=24,
        words=READY,
    ),
    Panel(
        title="Age of the oldest record waiting",
        description="By topic. Decisions come that much later; none is wrong.",
        unit="s",
        targets={
            "{{topic}}": f"job_topic:pathgate_consumer_lag_seconds:max{{{TOTAL}}}"
        },
    ),
    Panel(
        title="Records waiting",
        description="By topic, over all workers. Judge by the age beside it.",
        unit="short",
        targets={
            "{{topic}}": f"sum by (topic) (pathgate_consumer_lag_records{{{WORKER}}})",
        },
    ),
    Panel(
        title="Records waiting, as the brokers see it",
        description="From kafka_exporter, where it is installed; also shown while no"
        " worker runs. Empty without it.",
        unit="short",
        targets={
            "{{topic}}": 'sum by (topic) (kafka_consumergroup_lag{consumergroup=~"pathgate.*"})',
        },
    ),
    Panel(
        title="Time since the last chunk",
        description="A worker that stands still while records wait is restarted by its"
        " liveness probe after 10 minutes.",
        unit="s",
        targets={
            "{{instance}}": f"time() - pathgate_last_progress_timestamp_seconds{{{WORKER}}}",
        },
    ),
    Panel(
        title="Events read",
        description="By topic, a second.",
        unit="cps",
        targets={
            "{{topic}}": f"sum by (topic) (rate(pathgate_events_received_total{{{WORKER}}}[{RATE}]))",
        },
    ),
    Panel(
        title="Events rejected",
        description="By kind of fault, a second. Each is a dead letter; the run that it"
        " names is closed.",
        unit="cps",
        targets={
            "{{code}}": f"sum by (code) (rate(pathgate_events_rejected_total{{{WORKER}}}[{RATE}])) > 0",
        },
    ),
    Panel(
        title="Dead letters",
        description="Records written to the dead-letter topic, by reason, in 15-minute"
        " windows.",
        unit="short",
        targets={
            "{{reason}}": f"job_reason:pathgate_dead_letters:increase15m{{{TOTAL}}} > 0"
        },
    ),
    Panel(
        title="Events that change nothing, or came late",
        description="Duplicates and redeliveries are normal. Late: graded again. Too"
        " late: not graded any more.",
        unit="cps",
        targets={
            "duplicate": f"sum(rate(pathgate_events_duplicate_total{{{WORKER}}}[{RATE}]))",
            "redelivered": f"sum(rate(pathgate_events_redelivered_total{{{WORKER}}}[{RATE}]))",
            "late": f"sum(rate(pathgate_events_late_total{{{WORKER}}}[{RATE}]))",
            "too late: {{kind}}": f"sum by (kind) (rate(pathgate_events_too_late_total{{{WORKER}}}[{RATE}]))",
            "ids outside the grammar": f"sum(rate(pathgate_ids_outside_grammar_total{{{WORKER}}}[{RATE}]))",
        },
    ),
    Panel(
        title="Calls of ordinary runs dropped",
        description="Runs that are no evals cost decoding and nothing else.",
        unit="cps",
        targets={
            "dropped": f"sum(rate(pathgate_ordinary_calls_dropped_total{{{WORKER}}}[{RATE}]))",
        },
    ),
    Panel(
        title="Runs on the wrong partition or started late",
        description="Both are closed. Misrouted: producers with different partitioners."
        " Late start: eval.started came after its calls.",
        unit="short",
        targets={
            "misrouted": f"job:pathgate_misrouted_runs:increase15m{{{TOTAL}}}",
            "late start": f"job:pathgate_late_starts:increase15m{{{TOTAL}}}",
        },
    ),
    Panel(
        title="Runs and trials open",
        description="Growing without end: hosts do not finish, or sealing is stuck.",
        unit="short",
        targets={
            "runs": f"sum(pathgate_runs_open{{{WORKER}}})",
            "trials": f"sum(pathgate_trials_open{{{WORKER}}})",
        },
    ),
    Panel(
        title="Trials sealed",
        description="Trials whose calls are known to be complete, a second.",
        unit="cps",
        targets={
            "sealed": f"sum(rate(pathgate_trials_sealed_total{{{WORKER}}}[{RATE}]))"
        },
    ),
    Panel(
        title="Sealing wait",
        description="From reading a score to its trial being sealed, and the score that"
        " waits longest. High: a call topic lags behind the scores.",
        unit="s",
        targets={
            "p95": "histogram_quantile(0.95, sum by (le) "
            f"(rate(pathgate_sealing_wait_seconds_bucket{{{WORKER}}}[{RATE}])))",
            "{{instance}} oldest": "time() - "
            f"(pathgate_oldest_unsealed_score_timestamp_seconds{{{WORKER}}} > 0)",
        },
    ),
    Panel(
        title="Recovery",
        description="Changelog records still to read before the tables are usable.",
        unit="short",
        targets={
            "{{instance}} {{table}}": f"pathgate_recovery_remaining_records{{{WORKER}}}",
        },
    ),
    Panel(
        title="Rebalances",
        description="Assignments of partitions. Steady: workers restart or miss their"
        " heartbeats.",
        unit="short",
        targets={
            "{{instance}}": f"increase(pathgate_rebalances_total{{{WORKER}}}[{RATE}])",
        },
        stacked=True,
    ),
    Panel(
        title="Rows of state",
        description="By table. Growing without end: runs are not removed.",
        unit="short",
        targets={"{{table}}": f"sum by (table) (pathgate_state_rows{{{WORKER}}})"},
    ),
    Panel(
        title="Records the broker did not take",
        description="By target, in 15-minute windows. Their offsets stay uncommitted.",
        unit="short",
        targets={
            "{{target}}": f"job_target:pathgate_produce_failures:increase15m{{{TOTAL}}}"
        },
    ),
    Panel(
        title="Changelogs written by two workers",
        description="Writes in 15-minute windows, by what became of their runs.",
        unit="short",
        targets={
            "{{repair}}": f"job_repair:pathgate_changelog_conflicts:increase15m{{{TOTAL}}}"
        },
    ),
    Panel(
        title="Memory",
        description="Resident; the state store's caches are part of it.",
        unit="bytes",
        targets={"{{instance}}": f"process_resident_memory_bytes{{{WORKER}}}"},
    ),
    Panel(
        title="CPU",
        description="Cores in use. One worker uses little more than one.",
        unit="short",
        targets={
            "{{instance}}": f"rate(process_cpu_seconds_total{{{WORKER}}}[{RATE}])",
        },
    ),
    Panel(
        title="Builds",
        description="Which version each worker runs.",
        unit="none",
        targets={
            "{{version}} ({{revision}}), Python {{python_version}}": "count by "
            f"(version, revision, python_version) (pathgate_build_info{{{WORKER}}})",
        },
    ),
)


def _target(legend: str, expr: str, number: int) -> Json:
    return {
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": expr,
        "legendFormat": legend,
        "range": True,
        "refId": chr(ord("A") + number),
    }


def _field_config(panel: Panel) -> Json:
    defaults: Json = {"unit": panel.unit, "min": 0}
    if panel.unit == "percentunit":
        defaults["max"] = 1
    if panel.words:
        defaults["mappings"] = [
            {
                "type": "value",
                "options": {
                    value: {"text": word, "color": colour, "index": index}
                    for index, (value, word, colour) in enumerate(panel.words)
                },
            }
        ]
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "bars" if panel.stacked else "line",
            "fillOpacity": 60 if panel.stacked else 10,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
            "showPoints": "never",
        }
    return {"defaults": defaults, "overrides": []}


def _options(panel: Panel) -> Json:
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
    if panel.kind == "timeseries":
        return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    return {"legend": legend, "mergeValues": True, "showValue": "auto"}


def _panels(panels: tuple[Panel, ...]) -> list[Json]:
    placed: list[Json] = []
    x = y = 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > 24:
            x, y = 0, y + 8
        placed.append(
            {
                "id": number,
                "type": panel.kind,
                "title": panel.title,
                "description": panel.description,
                "datasource": SOURCE,
                "gridPos": {"h": 8, "w": panel.width, "x": x, "y": y},
                "fieldConfig": _field_config(panel),
                "options": _options(panel),
                "targets": [
                    _target(legend, expr, at)
                    for at, (legend, expr) in enumerate(panel.targets.items())
                ],
            }
        )
        x += panel.width
    return placed


def _variable(name: str, label: str, metric: str) -> Json:
    query = f"label_values({metric}, {name})"
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{name}"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def dashboard(uid: str, title: str, panels: tuple[Panel, ...]) -> Json:
    """One dashboard, as Grafana reads it."""
    job = _variable("job", "Job", "pathgate_build_info")
    instance = _variable("instance", "Worker", 'pathgate_build_info{job=~"$job"}')
    suite = _variable("suite", "Suite", 'pathgate_gate_decisions_total{job=~"$job"}')
    source = {
        "type": "datasource",
        "name": "datasource",
        "label": "Data Source",
        "query": "prometheus",
        "refresh": 1,
        "current": {},
    }
    by_suite = any("$suite" in expr for p in panels for expr in p.targets.values())
    return {
        "id": None,
        "uid": uid,
        "title": title,
        "tags": ["openwop", "grader", "pathgate"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "type": "dashboards",
                "title": "pathgate",
                "tags": ["pathgate"],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
                "targetBlank": False,
            }
        ],
        "templating": {
            "list": [source, job, instance, *([suite] if by_suite else [])],
        },
        "annotations": {"list": []},
        "panels": _panels(panels),
    }


BUILT = {
    "pathgate-gate.json": dashboard("pathgate-gate", "pathgate gate", GATE),
    "pathgate-operations.json": dashboard(
        "pathgate-operations", "pathgate operations", OPERATIONS
    ),
}


def text(built: Json) -> str:
    """A dashboard as it is written to its file."""
    return json.dumps(built, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every dashboard."""
    for name, built in BUILT.items():
        (DASHBOARDS / name).write_text(text(built), "utf-8")
        sys.stdout.write(f"{DASHBOARDS / name}\n")


if __name__ == "__main__":
    main()
