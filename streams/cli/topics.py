"""``pathgate topics``: the topic table, made and held against the brokers."""

import asyncio
import json
import shlex
from collections.abc import Sequence

import click
import msgspec

from streams.cli.exit_codes import ExitCode
from streams.cli.group import Entry, LazyGroup
from streams.cli.options import settings_command, text_or_json
from streams.cli.table import columns
from streams.cli.terminal import Terminal
from streams.kafka import Created, Creation, Survey, connect
from streams.render.figures import count_of
from streams.settings import Settings
from streams.topics import Problem, Role, TopicSpec, check, table_from

SHOWN = (
    "bootstrap_servers",
    "app_id",
    "topic_prefix",
    "partitions",
    "replication_factor",
    "min_insync_replicas",
)
CODES = (ExitCode.OK, ExitCode.USAGE, ExitCode.BROKER, ExitCode.CONFIGURATION)

topics = click.group(
    name="topics",
    cls=LazyGroup,
    entries={
        "plan": Entry(f"{__name__}:plan", "Print every topic as it should be."),
        "create": Entry(f"{__name__}:create", "Create the topics that are missing."),
        "check": Entry(f"{__name__}:check_topics", "Say how the topics differ."),
    },
    help="Plan, create and check topics.",
)(lambda: None)

_roles = click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice([role.value for role in Role]),
    help="Only topics of this role; may be given again. All by default.",
)


@settings_command(
    "plan",
    shown=SHOWN,
    codes=(ExitCode.OK, ExitCode.USAGE, ExitCode.CONFIGURATION),
    examples=(
        "pathgate topics plan",
        "pathgate topics plan --replication-factor 1 --min-insync-replicas 1",
        "pathgate topics plan --format json | jq '.[].name'",
    ),
    help="Print every topic as it should be, and the commands that make it so."
    " Asks no broker.",
)
@text_or_json
@_roles
def plan(
    terminal: Terminal, *, settings: Settings, style: str, roles: tuple[str, ...]
) -> ExitCode:
    """Prints the table."""
    table = _chosen(settings, roles)
    if style == "json":
        terminal.write(_json(table))
        return ExitCode.OK
    head = ("TOPIC", "ROLE", "PARTITIONS", "CLEANUP", "KEPT", "KEY", "HOLDS")
    rows = [
        (
            spec.name,
            spec.role.value,
            str(spec.partitions),
            spec.cleanup.value,
            _days(spec.retention_ms),
            spec.key,
            spec.holds,
        )
        for spec in table
    ]
    terminal.write(columns([head, *rows]) + "\n")
    for spec in table:
        terminal.write(command_for(spec, settings) + "\n")
    return ExitCode.OK


def command_for(spec: TopicSpec, settings: Settings) -> str:
    """The ``kafka-topics.sh`` line that creates a topic."""
    words = [
        "kafka-topics.sh",
        "--bootstrap-server",
        settings.bootstrap_servers,
        "--create",
        "--if-not-exists",
        "--topic",
        spec.name,
        "--partitions",
        str(spec.partitions),
        "--replication-factor",
        str(spec.replication_factor),
    ]
    for name, value in spec.configs.items():
        words += ["--config", f"{name}={value}"]
    return shlex.join(words)


@settings_command(
    "create",
    shown=SHOWN,
    codes=CODES,
    examples=(
        "pathgate topics create --bootstrap-servers kafka:9092",
        "pathgate topics create --role output --role internal --dry-run",
    ),
    help="Create the topics that are missing; those that exist are left as they are"
    " and checked. Needs the right to create topics, which the worker does not.",
)
@text_or_json
@_roles
@click.option("--dry-run", "-n", is_flag=True, help="Only ask whether it would work.")
def create(
    terminal: Terminal,
    *,
    settings: Settings,
    style: str,
    roles: tuple[str, ...],
    dry_run: bool,
) -> ExitCode:
    """Creates topics."""
    table = _chosen(settings, roles)
    created, survey = asyncio.run(_create(settings, table, dry_run=dry_run))
    problems = check(
        survey.found, [s for s in table if s.name in survey.found], settings
    )
    refused = [one for one in created if one.outcome is Creation.REFUSED]
    if style == "json":
        terminal.write(_json({"topics": created, "problems": problems}))
    else:
        note = " (dry run)" if dry_run else ""
        terminal.write(
            columns(
                [(one.topic, one.outcome.value + note, one.detail) for one in created]
            )
        )
        _write_problems(terminal, problems, survey)
    return ExitCode.CONFIGURATION if refused or problems else ExitCode.OK


async def _create(
    settings: Settings, table: Sequence[TopicSpec], *, dry_run: bool
) -> tuple[list[Created], Survey]:
    async with connect(settings) as cluster:
        # Looked at first: what is created now needs no check, and the brokers
        # may not all know of it yet.
        survey = await cluster.survey([spec.name for spec in table])
        created = await cluster.create(table, dry_run=dry_run)
    return created, survey


@settings_command(
    "check",
    shown=SHOWN,
    codes=CODES,
    examples=(
        "pathgate topics check",
        "pathgate topics check --format json | jq -r '.problems[].remedy'",
    ),
    help="Say which topics are missing or differ, and what to do.",
)
@text_or_json
@_roles
def check_topics(
    terminal: Terminal, *, settings: Settings, style: str, roles: tuple[str, ...]
) -> ExitCode:
    """Checks topics."""
    table = _chosen(settings, roles)
    survey = asyncio.run(_survey(settings, table))
    problems = find_problems(survey, table, settings)
    if style == "json":
        terminal.write(_json({"problems": problems, "missingRights": survey.denied}))
    else:
        _write_problems(terminal, problems, survey)
        if not problems and not survey.denied:
            terminal.write(f"{count_of(len(table), 'topic')} as they should be\n")
    return ExitCode.CONFIGURATION if problems or survey.denied else ExitCode.OK


async def _survey(settings: Settings, table: Sequence[TopicSpec]) -> Survey:
    async with connect(settings) as cluster:
        return await cluster.survey([spec.name for spec in table])


def find_problems(
    survey: Survey, table: Sequence[TopicSpec], settings: Settings
) -> list[Problem]:
    """The problems of the topics that could be looked at at all."""
    unseen = {right.name for right in survey.denied if right.operation == "Describe"}
    seen = [spec for spec in table if spec.name not in unseen]
    return check(survey.found, seen, settings)


def _write_problems(
    terminal: Terminal, problems: Sequence[Problem], survey: Survey
) -> None:
    for problem in problems:
        terminal.write(f"{problem}\n")
    for right in survey.denied:
        terminal.write(f"{right}\n")


def _chosen(settings: Settings, roles: Sequence[str]) -> list[TopicSpec]:
    table = table_from(settings)
    return [spec for spec in table if not roles or spec.role.value in roles]


def _days(retention_ms: int) -> str:
    return "newest" if retention_ms < 0 else f"{retention_ms / 86_400_000:g} d"


def _json(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value), indent=2) + "\n"
