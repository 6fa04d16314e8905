"""The figures of one run of the benchmark, as Markdown and as JSON."""

import operator
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

Cell = str | int | float | None

_PACKAGES = (
    "pathgate",
    "faust-streaming",
    "aiokafka",
    "msgspec",
    "rocksdict",
    "bytewax",
    "quixstreams",
    "confluent-kafka",
)


class Goal(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One figure that is held against a goal; nothing fails by it.

    Args:
        name: What it is.
        value: What was reached; None where it could not be measured.
        bound: ``>=`` or ``<=``.
        goal: What is aimed at.
        unit: Of both.
    """

    name: str
    value: float | None
    bound: str
    goal: float
    unit: str = "x"

    @property
    def met(self) -> bool | None:
        """Whether the goal is met."""
        if self.value is None:
            return None
        holds: Callable[[float, float], bool] = (
            operator.ge if self.bound == ">=" else operator.le
        )
        return holds(self.value, self.goal)


class Table(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one measure gave.

    Args:
        name: The measure, as ``--only`` names it.
        title: For people.
        how: Where clocks start and stop, and what else must be known.
        columns: Headings; units in brackets.
        rows: As many cells each.
        goals: What is held against goals.
        load: Load average of the last minute before and after.
    """

    name: str
    title: str
    how: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    goals: tuple[Goal, ...] = ()
    load: tuple[float, float] = (0.0, 0.0)


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One run of the benchmark.

    Args:
        machine: What it ran on.
        versions: Of what was measured.
        options: What it was asked to do.
        tables: In the order they were made.
    """

    machine: Mapping[str, Cell]
    versions: Mapping[str, str]
    options: Mapping[str, Cell]
    tables: Sequence[Table]


def machine() -> dict[str, Cell]:
    """The machine, as far as figures depend on it."""
    return {
        "processor": _from_proc("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memoryGib": round(_memory_kib() / 1024**2, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _memory_kib() -> int:
    return int((_from_proc("/proc/meminfo", "MemTotal") or "0").split()[0])


def _from_proc(path: str, key: str) -> str:
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def own_versions() -> dict[str, str]:
    """Versions of the packages that this interpreter has."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def load_average() -> float:
    """Runnable processes, mean of the last minute."""
    return round(os.getloadavg()[0], 2)


def write(report: Report, directory: Path) -> None:
    """Writes ``benchmark.json`` and ``benchmark.md``."""
    directory.mkdir(parents=True, exist_ok=True)
    data = msgspec.to_builtins(report)
    for table, built in zip(report.tables, data["tables"], strict=True):
        for goal, entry in zip(table.goals, built["goals"], strict=True):
            entry["met"] = goal.met
    text = msgspec.json.format(msgspec.json.encode(data), indent=2)
    (directory / "benchmark.json").write_bytes(text + b"\n")
    (directory / "benchmark.md").write_text(markdown(report), encoding="utf-8")


def markdown(report: Report) -> str:
    """The report for people."""
    parts = ["# Benchmark", ""]
    parts.append(_facts(report.machine))
    parts.append(_facts(report.versions))
    parts.append(_facts(report.options))
    parts.append("")
    goals = [goal for table in report.tables for goal in table.goals]
    if goals:
        parts += ["## Goals", "", _goals(goals), ""]
    for table in report.tables:
        parts += [f"## {table.title}", "", table.how, ""]
        parts.append(_table(table.columns, table.rows))
        parts.append("")
        parts.append(f"Load average {table.load[0]} before, {table.load[1]} after.")
        parts.append("")
    return "\n".join(parts)


def _facts(facts: Mapping[str, Cell] | Mapping[str, str]) -> str:
    return "- " + ", ".join(f"{name} {value}" for name, value in facts.items())


def _goals(goals: Sequence[Goal]) -> str:
    words = {True: "met", False: "not met", None: "not measured"}
    rows = [
        (
            goal.name,
            "" if goal.value is None else f"{_cell(goal.value)} {goal.unit}",
            f"{goal.bound} {_cell(goal.goal)} {goal.unit}",
            words[goal.met],
        )
        for goal in goals
    ]
    return _table(("figure", "reached", "goal", ""), rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    lines = [
        "| " + " | ".join(columns) + " |",
        "| --- " + "| ---: " * (len(columns) - 1) + "|",
    ]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return value
