"""The Prometheus files: promtool's verdict, and the conventions it does not know."""

import re
import runpy
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from tests.deploy.monitoring.promql import (
    exported_names,
    label_names,
    selectors,
    unknown_names,
)

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "prometheus"
RUNBOOK = ROOT / "deploy" / "runbook.md"

Json = dict[str, Any]

RULES: Json = yaml.safe_load((FOLDER / "rules.yml").read_text("utf-8"))
CONFIG = tomllib.loads((FOLDER / "config.toml").read_text("utf-8"))
CASES: Json = yaml.safe_load((FOLDER / "rules_test.yml").read_text("utf-8"))


def recorded(rules: Json) -> list[Json]:
    """The recording rules."""
    return [r for g in rules["groups"] for r in g["rules"] if "record" in r]


def alerts(rules: Json) -> list[Json]:
    """The alerting rules."""
    return [r for g in rules["groups"] for r in g["rules"] if "alert" in r]


ALERTS = {rule["alert"]: rule for rule in alerts(RULES)}


# ---- lints: each returns what is wrong, so that a test can plant a fault ----


def lint_alert(rule: Json) -> Iterator[str]:
    """What is against the conventions for alerts (names, labels, annotations)."""
    name, labels = rule["alert"], rule["labels"]
    notes = rule["annotations"]
    if not re.fullmatch(r"Pathgate([A-Z][a-z]+)+", name):
        yield "name"
    if labels.get("severity") not in {"critical", "warning", "info"}:
        yield "severity"
    if labels.get("area") not in {"gate", "host", "input", "worker"}:
        yield "area"
    if not re.fullmatch(r"[A-Z][^{}]*[^.{}]\.", notes.get("summary", "")):
        yield "summary is one fixed sentence"
    if "{{" not in notes.get("description", "") and "absent(" not in rule["expr"]:
        yield "description is templated"
    if notes.get("runbook_url") != f"{CONFIG['runbook_base']}#{name.lower()}":
        yield "runbook_url"
    yield from lint_duration(rule)


def lint_duration(rule: Json) -> Iterator[str]:
    """Gate results show at once and stay; operations wait 5 to 30 minutes."""
    of_gate = rule["labels"].get("area") == "gate"
    minutes = re.fullmatch(r"([0-9]+)m", rule.get("for", "0m"))
    waits = int(minutes[1]) if minutes else -1
    stays = "keep_firing_for" in rule
    if of_gate and not (waits == 0 and stays):
        yield "a gate result shows at once and is kept"
    if not of_gate and not (5 <= waits <= 30 or (waits == 0 and stays)):
        yield "for"


def lint_record(rule: Json) -> Iterator[str]:
    """What is against ``level:metric:operations``."""
    level, _, rest = rule["record"].partition(":")
    metric, _, operations = rest.partition(":")
    if not (level and metric and operations):
        return (yield "level:metric:operations")
    if level.split("_")[0] != "job":
        yield "level"
    if metric.endswith("_total") or not metric.startswith("pathgate_"):
        yield "metric"
    by_labels = re.search(r"\b(sum|max|min|count|avg)\s+by\b", rule["expr"])
    if by_labels and "without" not in rule["expr"]:
        yield "aggregates without, not by"


def lint_selectors(rule: Json) -> Iterator[str]:
    """Every selector has the one job selector of the configuration."""
    wanted = CONFIG["selector"].split("=")[1].strip('"')
    for selector in selectors(rule["expr"]):
        if selector.matchers.get("job", ("", ""))[1] != wanted:
            yield selector.name


def lint_labels(rule: Json) -> Iterator[str]:
    """A matcher names a label that the metric has."""
    labels = label_names()
    for selector in selectors(rule["expr"]):
        own = labels.get(selector.name)
        if own is not None:
            yield from set(selector.matchers) - own - {"job", "instance"}


def cases_of(alert: str, cases: Json) -> tuple[list[Json], list[Json]]:
    """The firing and the quiet expectations of an alert."""
    found = [
        one
        for case in cases["tests"]
        for one in case.get("alert_rule_test", [])
        if one["alertname"] == alert
    ]
    firing = [one for one in found if one["exp_alerts"]]
    return firing, [one for one in found if not one["exp_alerts"]]


def slug(heading: str) -> str:
    """The anchor a Markdown viewer gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(markdown: str) -> set[str]:
    """Every anchor of a Markdown page."""
    return {slug(text) for text in re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)}


# ---- promtool ----


def promtool(tools: Path, *args: str, text: str = "") -> tuple[int, str]:
    """Exit code and output of promtool, run in the folder of the rules."""
    done = subprocess.run(
        [str(tools / "promtool"), *args],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        cwd=FOLDER,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("check", "rules", "rules.yml"),
        ("test", "rules", "rules_test.yml"),
        ("check", "config", "prometheus.yml"),
    ],
    ids=" ".join,
)
def test_promtool_is_content(monitoring_tools: Path, args: tuple[str, ...]) -> None:
    """The rules, their tests and the sample configuration pass promtool."""
    code, said = promtool(monitoring_tools, *args)
    assert (0, True) == (code, "SUCCESS" in said)


def test_promtool_refuses_a_broken_rule(monitoring_tools: Path, tmp_path: Path) -> None:
    """A rule with a syntax error is found."""
    text = (
        (FOLDER / "rules.yml").read_text("utf-8").replace("max without", "max with", 1)
    )
    (tmp_path / "rules.yml").write_text(text, "utf-8")
    code, said = promtool(
        monitoring_tools, "check", "rules", str(tmp_path / "rules.yml")
    )
    assert (1, True) == (code, "parse error" in said)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        # A threshold moved by one makes a quiet case loud.
        ('increase6h{job="pathgate"}) >= 5', 'increase6h{job="pathgate"}) >= 4'),
        # Without the first scrape's count, one of two suites is missed.
        (
            ' unless pathgate_gate_changed_verdicts_total{job="pathgate"} offset 15m',
            " > 1e9",
        ),
        ("area: gate", "area: other"),
        ("The grader falls behind.", "The grader lags behind."),
    ],
    ids=["threshold", "first scrape", "label", "annotation"],
)
def test_rule_tests_notice_a_changed_rule(
    monitoring_tools: Path, tmp_path: Path, right: str, wrong: str
) -> None:
    """Each of these changes to the rules turns their tests red."""
    text = (FOLDER / "rules.yml").read_text("utf-8")
    assert right in text
    (tmp_path / "rules.yml").write_text(text.replace(right, wrong), "utf-8")
    cases = (FOLDER / "rules_test.yml").read_text("utf-8")
    (tmp_path / "rules_test.yml").write_text(cases, "utf-8")
    code, said = promtool(
        monitoring_tools, "test", "rules", str(tmp_path / "rules_test.yml")
    )
    assert (1, True) == (code, "FAILED" in said)


# ---- conventions ----


def test_rules_are_rendered_from_the_configuration() -> None:
    """``rules.yml`` is what ``render.py`` prints: one place holds the settings."""
    render = cast(
        "Callable[[str, Json], str]",
        runpy.run_path(str(FOLDER / "render.py"))["render"],
    )
    template = (FOLDER / "rules.yml.in").read_text("utf-8")
    assert (FOLDER / "rules.yml").read_text("utf-8") == render(template, CONFIG)


def test_rendering_follows_another_configuration() -> None:
    """Another job and another runbook leave no trace of the first."""
    render = cast(
        "Callable[[str, Json], str]",
        runpy.run_path(str(FOLDER / "render.py"))["render"],
    )
    template = (FOLDER / "rules.yml.in").read_text("utf-8")
    other = {**CONFIG, "selector": 'job="graders"', "runbook_base": "https://a.example"}
    rendered = render(template, other)
    assert 'job="pathgate"' not in rendered
    assert CONFIG["runbook_base"] not in rendered
    with pytest.raises(KeyError, match="selector"):
        render(template, {k: v for k, v in CONFIG.items() if k != "selector"})


def test_the_two_groups_have_their_names() -> None:
    """Recording rules first, alerts over them second."""
    assert ["pathgate.rules", "pathgate.alerts"] == [g["name"] for g in RULES["groups"]]
    assert {"record"} == {k for r in RULES["groups"][0]["rules"] for k in r} & {
        "record",
        "alert",
    }
    assert {"alert"} == {k for r in RULES["groups"][1]["rules"] for k in r} & {
        "record",
        "alert",
    }


@pytest.mark.parametrize("name", ALERTS)
def test_alert_keeps_the_conventions(name: str) -> None:
    """Name, severity, area, a fixed summary, a templated description, a wait."""
    assert [] == list(lint_alert(ALERTS[name]))


@pytest.mark.parametrize(
    ("path", "value", "wrong"),
    [
        (("alert",), "pathgate_down", "name"),
        (("labels", "severity"), "page", "severity"),
        (("labels", "area"), "misc", "area"),
        (
            ("annotations", "summary"),
            "Down: {{ $labels.x }}.",
            "summary is one fixed sentence",
        ),
        (("annotations", "summary"), "It is down", "summary is one fixed sentence"),
        (("annotations", "description"), "It is down.", "description is templated"),
        (("annotations", "runbook_url"), "https://a.example", "runbook_url"),
        (("for",), "10s", "for"),
    ],
)
def test_alert_lint_finds_a_planted_fault(
    path: tuple[str, ...], value: str, wrong: str
) -> None:
    """Each convention is one the lint can see broken."""
    rule = deepcopy(ALERTS["PathgateDown"])
    place = rule
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert wrong in list(lint_alert(rule))


def test_gate_alert_without_keep_firing_for_is_found() -> None:
    """A gate result that vanishes after its window is no good."""
    rule = deepcopy(ALERTS["PathgateGateChangedVerdict"])
    del rule["keep_firing_for"]
    assert ["a gate result shows at once and is kept"] == list(lint_alert(rule))


@pytest.mark.parametrize("rule", recorded(RULES), ids=lambda rule: rule["record"])
def test_recording_rule_keeps_the_conventions(rule: Json) -> None:
    """``level:metric:operations``, ``_total`` stripped, aggregated ``without``."""
    assert [] == list(lint_record(rule))


@pytest.mark.parametrize(
    "rule",
    [
        {"record": "pathgate_events", "expr": "x"},
        {"record": "job:pathgate_events_total:rate5m", "expr": "x"},
        {"record": "instance:pathgate_events:rate5m", "expr": "x"},
        {"record": "job:pathgate_events:rate5m", "expr": "sum by (job) (x)"},
    ],
    ids=lambda rule: rule["record"] + " " + rule["expr"],
)
def test_recording_lint_finds_a_planted_fault(rule: Json) -> None:
    """Each convention is one the lint can see broken."""
    assert 1 == len(list(lint_record(rule)))


@pytest.mark.parametrize(
    "rule", [*recorded(RULES), *alerts(RULES)], ids=lambda r: next(iter(r.values()))
)
def test_rule_selects_our_job_by_labels_that_exist(rule: Json) -> None:
    """No selector reaches other jobs, and none matches on a label nobody sets."""
    assert ([], []) == (list(lint_selectors(rule)), list(lint_labels(rule)))


def test_selector_lints_find_planted_faults() -> None:
    """A bare selector, and a matcher on a label the metric lacks."""
    assert ["pathgate_ready"] == list(lint_selectors({"expr": "pathgate_ready == 0"}))
    typo = 'pathgate_events_received_total{job="pathgate", tpoic="a"}'
    assert ["tpoic"] == list(lint_labels({"expr": f"rate({typo}[5m])"}))


def test_rules_name_only_metrics_that_exist() -> None:
    """Every name is exported, recorded here, or Prometheus' own."""
    known = exported_names() | {rule["record"] for rule in recorded(RULES)}
    exprs = [rule["expr"] for rule in (*recorded(RULES), *alerts(RULES))]
    assert set() == unknown_names(iter(exprs), known)
    assert {"pathgate_raedy"} == unknown_names(iter(["pathgate_raedy == 0"]), known)


@pytest.mark.parametrize("name", ALERTS)
def test_alert_has_a_case_that_fires_and_one_that_does_not(name: str) -> None:
    """The firing case spells out every label and annotation of the rule."""
    firing, quiet = cases_of(name, CASES)
    assert firing
    assert quiet
    rule = ALERTS[name]
    for one in firing:
        for expected in one["exp_alerts"]:
            assert set(rule["annotations"]) == set(expected["exp_annotations"])
            assert set(rule["labels"]) <= set(expected["exp_labels"])


def test_cases_name_only_alerts_that_exist() -> None:
    """A quiet case of a renamed alert would be green for ever."""
    named = {
        one["alertname"]
        for case in CASES["tests"]
        for one in case.get("alert_rule_test", [])
    }
    assert set(ALERTS) == named


@pytest.mark.parametrize("name", ALERTS)
def test_alert_has_a_section_in_the_runbook(name: str) -> None:
    """The anchor that the notification links to exists."""
    assert name.lower() in anchors(RUNBOOK.read_text("utf-8"))


def test_runbook_has_no_section_of_an_alert_that_is_gone() -> None:
    """Runbook and rules name the same alerts, and its own links lead somewhere."""
    text = RUNBOOK.read_text("utf-8")
    sections = set(re.findall(r"^### (\w+)$", text, re.MULTILINE))
    assert set(ALERTS) == sections
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= anchors(text)


def test_sample_scrapes_the_job_that_the_rules_select() -> None:
    """The sample's job, port and files fit the rest."""
    sample = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
    [scraped] = sample["scrape_configs"]
    assert CONFIG["selector"] == f'job="{scraped["job_name"]}"'
    assert ["rules.yml"] == sample["rule_files"]
