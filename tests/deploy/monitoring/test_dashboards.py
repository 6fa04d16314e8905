"""The Grafana dashboards: conventions, queries that parse, metrics that exist."""

import json
import re
import runpy
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import promql_parser
import pytest
import yaml

from streams.metrics import CATALOGUE
from tests.deploy.monitoring.promql import (
    exported_names,
    filled_in,
    label_names,
    selectors,
    unknown_names,
)
from tests.deploy.monitoring.test_rules import ALERTS, RULES, recorded

ROOT = Path(__file__).parents[3]
GRAFANA = ROOT / "deploy" / "grafana"
FOLDER = GRAFANA / "dashboards"

Json = dict[str, Any]

DASHBOARDS: dict[str, Json] = {
    path.name: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json")
}
RECORDED = {rule["record"] for rule in recorded(RULES)}
UNITS = {"none", "short", "s", "percentunit", "bytes", "cps"}

# Selectors that cannot have job and instance, and why.
EXEMPT = {
    "kafka_consumergroup_lag": "kafka_exporter's own job; it knows no worker",
}


def targets(board: Json) -> Iterator[tuple[Json, str]]:
    """Panel and expression of every query."""
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel, target["expr"]


def variables(board: Json) -> dict[str, Json]:
    """The template variables by name."""
    return {one["name"]: one for one in board["templating"]["list"]}


# ---- lints: each yields what is wrong ----


def lint_board(board: Json) -> Iterator[str]:
    """What is against the conventions for a provisioned dashboard."""
    if not re.fullmatch(r"[a-z-]{1,40}", board["uid"]):
        yield "uid"
    if board["id"] is not None or board["editable"] or "__inputs" in board:
        yield "provisioned"
    if not {"openwop", "grader"} <= set(board["tags"]):
        yield "tags"
    if board["time"] != {"from": "now-6h", "to": "now"} or not board["links"]:
        yield "time and links"
    if not isinstance(board.get("schemaVersion"), int):
        yield "schemaVersion"
    ids = [panel["id"] for panel in board["panels"]]
    if len(ids) != len(set(ids)):
        yield "panel ids"


def lint_variables(board: Json) -> Iterator[str]:
    """One data source variable; job, instance and suite refreshed and multi."""
    found = variables(board)
    sources = [v for v in found.values() if v["type"] == "datasource"]
    if [("datasource", "Data Source", "prometheus")] != [
        (v["name"], v["label"], v["query"]) for v in sources
    ]:
        yield "datasource"
    for name in {"job", "instance", *(set(found) - {"datasource"})}:
        one = found.get(name, {})
        wanted = {"multi": True, "includeAll": True, "allValue": ".+", "refresh": 2}
        if not wanted.items() <= one.items():
            yield f"variable {name}"


def lint_panel(panel: Json) -> Iterator[str]:
    """Title, description, unit, a target, the variable's data source, words."""
    if not panel.get("title") or not re.fullmatch(
        r"[A-Z].*\.", panel.get("description", ""), re.DOTALL
    ):
        yield "title and description"
    if panel["fieldConfig"]["defaults"].get("unit") not in UNITS:
        yield "unit"
    if not panel["targets"]:
        yield "target"
    used = [panel["datasource"], *(t["datasource"] for t in panel["targets"])]
    if any(one != {"type": "prometheus", "uid": "${datasource}"} for one in used):
        yield "datasource"
    if panel["type"] in {"stat", "state-timeline"}:
        mappings = panel["fieldConfig"]["defaults"].get("mappings", [])
        words = {o["text"] for m in mappings for o in m["options"].values()}
        if len(words) != 2:
            yield "words for 0 and 1"


def lint_query(expr: str) -> Iterator[str]:
    """Job and instance selected, counters as rates over ``$__rate_interval``."""
    for selector in selectors(expr):
        if selector.name in EXEMPT:
            continue
        wanted = {"job"} if selector.name in RECORDED else {"job", "instance"}
        if not all(selector.matchers.get(w) == ("MatchOp.Re", "x") for w in wanted):
            yield f"selects {selector.name}"
        own = label_names().get(selector.name)
        if own is not None and set(selector.matchers) - own - {"job", "instance"}:
            yield f"labels of {selector.name}"
    for function, window in re.findall(
        r"(rate|increase|irate)\([^[]*\[([^\]]+)\]", expr
    ):
        if window != "$__rate_interval":
            yield f"{function} over {window}"
    raw = re.sub(r"(rate|increase|irate)\([^)]*\)", "", expr)
    if re.search(r"\w+(_total|_bucket|_count|_sum)\b\{", raw):
        yield "raw counter"


# ---- tests ----


def test_there_are_two_dashboards() -> None:
    """The gate, and the workers."""
    assert {"pathgate-gate.json", "pathgate-operations.json"} == set(DASHBOARDS)
    assert {f"{board['uid']}.json" for board in DASHBOARDS.values()} == set(DASHBOARDS)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboard_is_what_the_builder_writes(name: str) -> None:
    """``build.py`` is the source: no change made by hand is lost later."""
    built = runpy.run_path(str(GRAFANA / "build.py"))
    text = cast("Callable[[Json], str]", built["text"])
    assert (FOLDER / name).read_text("utf-8") == text(built["BUILT"][name])


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboard_keeps_the_conventions(name: str) -> None:
    """Identity, provisioning, variables."""
    board = DASHBOARDS[name]
    assert [] == [*lint_board(board), *lint_variables(board)]


@pytest.mark.parametrize(
    ("name", "title"),
    [(name, p["title"]) for name, b in DASHBOARDS.items() for p in b["panels"]],
)
def test_panel_keeps_the_conventions(name: str, title: str) -> None:
    """Each panel explains itself, and each of its queries selects our workers."""
    [panel] = [p for p in DASHBOARDS[name]["panels"] if p["title"] == title]
    queries = [found for t in panel["targets"] for found in lint_query(t["expr"])]
    assert [] == [*lint_panel(panel), *queries]


def test_every_query_parses_and_names_metrics_that_exist() -> None:
    """Every name is exported by the worker, recorded by our rules, or excepted."""
    exprs = [expr for board in DASHBOARDS.values() for _, expr in targets(board)]
    assert set() == unknown_names(iter(exprs), exported_names() | RECORDED)


def test_query_checks_find_planted_faults() -> None:
    """Broken PromQL, an unknown name, a bare selector, a fixed window, a raw counter."""
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        promql_parser.parse(filled_in("sum by (topic (x)"))
    worker = '{job=~"$job", instance=~"$instance"}'
    assert {"pathgate_raedy"} == unknown_names(
        iter([f"pathgate_raedy{worker}"]), exported_names()
    )
    assert ["selects pathgate_ready"] == list(lint_query('pathgate_ready{job=~"$job"}'))
    assert ["increase over 5m"] == list(
        lint_query(f"increase(pathgate_rebalances_total{worker}[5m])")
    )
    assert ["raw counter"] == list(
        lint_query(f"sum(pathgate_rebalances_total{worker})")
    )
    assert ["labels of pathgate_ready"] == list(
        lint_query('pathgate_ready{job=~"$job", instance=~"$instance", topic="x"}')
    )


def test_board_and_panel_lints_find_planted_faults() -> None:
    """Each convention is one the lints can see broken."""
    board = deepcopy(DASHBOARDS["pathgate-operations.json"])
    board.update(id=7, uid="Not A Uid", tags=[], time={}, schemaVersion=None)
    board["panels"][1]["id"] = board["panels"][0]["id"]
    board["templating"]["list"][0]["label"] = "Source"
    board["templating"]["list"][1]["refresh"] = 1
    assert {
        "uid",
        "provisioned",
        "tags",
        "time and links",
        "schemaVersion",
        "panel ids",
        "datasource",
        "variable job",
    } == {*lint_board(board), *lint_variables(board)}
    panel = board["panels"][0]
    panel.update(description="", targets=[])
    panel["fieldConfig"]["defaults"] = {"unit": "furlongs"}
    panel["datasource"] = {"type": "prometheus", "uid": "abc"}
    assert {
        "title and description",
        "unit",
        "target",
        "datasource",
        "words for 0 and 1",
    } == set(lint_panel(panel))


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_do_not_overlap(name: str) -> None:
    """No cell of the 24-wide grid is used twice."""
    cells = [
        (x, y)
        for panel in DASHBOARDS[name]["panels"]
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {*range(24)} >= {x for x, _ in cells}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_variable_queries_use_series_that_exist(name: str) -> None:
    """A variable of a metric nobody exports would be empty, and every panel with it."""
    for one in variables(DASHBOARDS[name]).values():
        if one["type"] != "query":
            continue
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", one["query"]["query"])
        assert found
        [selector] = selectors(found[1])
        assert selector.name in exported_names()
        assert found[2] in label_names()[selector.name] | {"job", "instance"}


def test_every_metric_is_drawn_or_alerted_on() -> None:
    """A metric nobody sees is not worth its series."""
    exprs = [
        *(expr for board in DASHBOARDS.values() for _, expr in targets(board)),
        *(rule["expr"] for rule in (*recorded(RULES), *ALERTS.values())),
    ]
    used = {selector.name for expr in exprs for selector in selectors(expr)}
    bases = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used} | used
    assert [] == [metric.name for metric in CATALOGUE if metric.name not in bases]


def test_provisioning_files_are_of_the_version_grafana_reads() -> None:
    """Fixed uid of the data source, no edits in the page, folders that exist."""
    folder = GRAFANA / "provisioning"
    sources = yaml.safe_load((folder / "datasources/pathgate.yml").read_text("utf-8"))
    boards = yaml.safe_load((folder / "dashboards/pathgate.yml").read_text("utf-8"))
    assert (1, 1) == (sources["apiVersion"], boards["apiVersion"])
    [source] = sources["datasources"]
    assert ("prometheus", "pathgate-prometheus") == (source["type"], source["uid"])
    [provider] = boards["providers"]
    assert not provider["allowUiUpdates"]


def test_data_source_scrapes_as_often_as_prometheus_does() -> None:
    """``$__rate_interval`` is derived from it; too small gives empty panels."""
    folder = GRAFANA / "provisioning"
    sources = yaml.safe_load((folder / "datasources/pathgate.yml").read_text("utf-8"))
    sample = yaml.safe_load(
        (ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8")
    )
    [source] = sources["datasources"]
    assert sample["global"]["scrape_interval"] == source["jsonData"]["timeInterval"]
