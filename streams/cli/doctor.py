"""``pathgate doctor``: what works here and what not, safe to paste."""

import asyncio
import json
import os
import platform
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from streams.cli.exit_codes import ExitCode, exit_code_of
from streams.cli.from_topics import read_suites
from streams.cli.options import (
    LateSettingsCommand,
    settings_command,
    text_or_json,
)
from streams.cli.table import columns
from streams.cli.terminal import Terminal
from streams.cli.topics import SHOWN, find_problems
from streams.cli.version import pathgate_version, version_of
from streams.errors import ConfigurationError, PathgateError
from streams.kafka import Survey, connect
from streams.render.figures import count_of
from streams.settings import Settings, SettingsError
from streams.suites import SuitesError, digester_from, load_directory
from streams.topics import names_from, table_from

DISTRIBUTIONS = (
    "faust-streaming",
    "mode-streaming",
    "aiokafka",
    "rocksdict",
    "msgspec",
    "prometheus-client",
)


class Status(StrEnum):
    """How one thing is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at.

    Args:
        name: What.
        status: How it is.
        detail: Facts, or what to do; no secret and no home directory.
        code: What the command ends with because of it.
    """

    name: str
    status: Status
    detail: str
    code: ExitCode = ExitCode.OK


@settings_command(
    "doctor",
    cls=LateSettingsCommand,
    shown=(*SHOWN, "suites_dir", "data_dir"),
    codes=(ExitCode.OK, ExitCode.USAGE, ExitCode.BROKER, ExitCode.CONFIGURATION),
    examples=(
        "pathgate doctor",
        "pathgate doctor --config pathgate.toml --format json",
        "pathgate doctor --bootstrap-servers kafka:9092 --suites suites/",
    ),
    help="Look at versions, settings, suites, state directory, brokers, topics and"
    " rights. Writes nothing to the brokers; the output holds no secret."
    " Takes every flag that a worker takes.",
)
@text_or_json
def doctor(terminal: Terminal, *, load: Callable[[], Settings], style: str) -> ExitCode:
    """Looks at everything, even where something is wrong."""
    findings = _versions()
    try:
        settings = load()
    except SettingsError as error:
        findings += [_failed("settings", problem, error) for problem in error.problems]
    else:
        findings += _local(settings)
        findings += asyncio.run(_brokers(settings))
    home = terminal.env.get("HOME", "")
    _write(terminal, [_without_home(one, home) for one in findings], style)
    return max((finding.code for finding in findings), default=ExitCode.OK)


def _versions() -> list[Finding]:
    facts = {
        "pathgate": pathgate_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    facts |= {name: version_of(name) for name in DISTRIBUTIONS}
    return [
        Finding(name=name, status=Status.OK, detail=value)
        for name, value in facts.items()
    ]


def _local(settings: Settings) -> list[Finding]:
    given = [name for name, who in settings.origins.items() if who != "default"]
    told = f"{len(given)} given, the others by default"
    found = [Finding(name="settings", status=Status.OK, detail=told)]
    found += [
        Finding(name="settings", status=Status.WARN, detail=warning)
        for warning in settings.find_warnings()
    ]
    return [*found, _suites(settings), _state(Path(settings.data_dir))]


def _suites(settings: Settings) -> Finding:
    if not settings.suites_dir:
        detail = "suites_dir is not set; suites come from their topic alone"
        return Finding(name="suites", status=Status.SKIP, detail=detail)
    try:
        loaded = load_directory(Path(settings.suites_dir))
    except PathgateError as error:
        return _failed("suites", str(error), error)
    detail = f"{count_of(len(loaded.suites), 'suite')} in {settings.suites_dir}"
    return Finding(name="suites", status=Status.OK, detail=detail)


def _state(path: Path) -> Finding:
    place = path
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return _failed(
            "data_dir", f"{path}: {place} cannot be written", ConfigurationError()
        )
    facts = os.statvfs(place)
    free_gib = facts.f_bavail * facts.f_frsize / 2**30
    state = "exists" if path.exists() else "will be made"
    detail = f"{path} {state}, {free_gib:.1f} GiB free"
    return Finding(name="data_dir", status=Status.OK, detail=detail)


async def _brokers(settings: Settings) -> list[Finding]:
    try:
        table = table_from(settings)
        async with connect(settings) as cluster:
            detail = f"{cluster.broker_count}: {', '.join(cluster.addresses)}"
            found = [Finding(name="brokers", status=Status.OK, detail=detail)]
            survey = await cluster.survey([spec.name for spec in table])
            missing = await cluster.probe_rights(table, settings.app_id)
    except PathgateError as error:
        return [_failed("brokers", str(error), error)]
    problems = find_problems(survey, table, settings)
    found += [
        _failed("topics", str(problem), ConfigurationError()) for problem in problems
    ]
    rights = [*survey.denied, *missing]
    found += [_failed("rights", str(right), ConfigurationError()) for right in rights]
    found += _well(survey, len(problems), len(rights))
    if names_from(settings).suite_definition in survey.found and not rights:
        found += await _published(settings)
    return found


async def _published(settings: Settings) -> list[Finding]:
    """Whether there are suites, and each version of them once."""
    try:
        suites = await read_suites(settings, digester_from(settings))
    except SuitesError:
        # Of the directory, which was looked at before.
        return []
    except PathgateError as error:
        return [_failed("suites", str(error), error)]
    if not suites:
        detail = "none in suites_dir or in their topic: no run can be graded"
        return [Finding(name="suites", status=Status.WARN, detail=detail)]
    detail = f"{count_of(len(suites), 'suite')} in the directory and the topic together"
    return [Finding(name="suites", status=Status.OK, detail=detail)]


def _well(survey: Survey, problems: int, rights: int) -> list[Finding]:
    found = []
    if survey.found and not problems:
        detail = f"{count_of(len(survey.found), 'topic')} as they should be"
        found.append(Finding(name="topics", status=Status.OK, detail=detail))
    if not rights:
        detail = "all that a worker needs on the topics that exist"
        found.append(Finding(name="rights", status=Status.OK, detail=detail))
    return found


def _failed(name: str, detail: str, error: BaseException) -> Finding:
    return Finding(
        name=name, status=Status.FAIL, detail=detail, code=exit_code_of(error)
    )


def _without_home(finding: Finding, home: str) -> Finding:
    if len(home) < 2:
        return finding
    detail = finding.detail.replace(home, "~")
    return msgspec.structs.replace(finding, detail=detail)


def _write(terminal: Terminal, findings: list[Finding], style: str) -> None:
    if style == "json":
        facts: list[Mapping[str, str]] = [
            {"name": f.name, "status": f.status.value, "detail": f.detail}
            for f in findings
        ]
        terminal.write(json.dumps({"findings": facts}, indent=2) + "\n")
        return
    rows = [
        (finding.status.value, finding.name, line)
        for finding in findings
        for line in finding.detail.splitlines() or [""]
    ]
    terminal.write(columns(rows))
