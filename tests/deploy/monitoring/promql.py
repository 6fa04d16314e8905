"""What a PromQL expression selects, and which names exist to be selected."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import promql_parser

from streams.metrics import CATALOGUE, new_registry, sample_names

# What other programs export: Prometheus itself, and kafka_exporter.
FOREIGN = frozenset({"up", "kafka_consumergroup_lag"})

_GRAFANA = ((re.compile(r"\$__rate_interval\b"), "5m"), (re.compile(r"\$\w+"), "x"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Selector:
    """One vector selector: metric name, and label -> (operator, value)."""

    name: str
    matchers: Mapping[str, tuple[str, str]]


def selectors(expr: str) -> list[Selector]:
    """Every selector of an expression, Grafana's variables filled in.

    Raises:
        ValueError: The expression is no PromQL.
    """
    found: list[Selector] = []

    def take(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(_selector(node))

    promql_parser.walk(promql_parser.parse(filled_in(expr)), take)
    return found


def filled_in(expr: str) -> str:
    """The expression with Grafana's variables replaced by values."""
    for pattern, by in _GRAFANA:
        expr = pattern.sub(by, expr)
    return expr


def _selector(node: promql_parser.VectorSelector) -> Selector:
    return Selector(
        name=node.name or "",
        matchers={one.name: (str(one.op), one.value) for one in node.matchers.matchers},
    )


def exported_names() -> set[str]:
    """Names under which the worker's own and its client library's series appear."""
    names = {name for metric in CATALOGUE for name in sample_names(metric)}
    for family in new_registry().collect():
        names |= {sample.name for sample in family.samples}
    return names


def label_names() -> dict[str, set[str]]:
    """Series name -> its labels, of the worker's own metrics."""
    return {
        name: {label.name for label in metric.labels}
        for metric in CATALOGUE
        for name in sample_names(metric)
    }


def unknown_names(exprs: Iterator[str], known: set[str]) -> set[str]:
    """Metric names of the expressions that nothing exports or records."""
    return (
        {selector.name for expr in exprs for selector in selectors(expr)}
        - known
        - FOREIGN
    )
