"""``pathgate suites``: checks suites, and publishes them for the workers."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import click
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from streams.cli.exit_codes import ExitCode
from streams.cli.group import Entry, ExampleCommand, LazyGroup
from streams.cli.options import settings_command, text_or_json
from streams.cli.table import columns
from streams.cli.terminal import Terminal
from streams.core.arguments import ArgsDigester
from streams.core.compiled import CompiledSuite
from streams.errors import AccessDeniedError, BrokerUnavailableError, ConfigurationError
from streams.kafka import client_options, connect
from streams.kafka.newest import read_newest
from streams.kafka.security import principal_of
from streams.render.figures import count_of
from streams.settings import Settings
from streams.suites import (
    ALIASES_FILE,
    SuiteSet,
    compile_suites,
    find_doubts,
    find_skipped,
    load_directory,
)
from streams.topics import names_from

suites = click.group(
    name="suites",
    cls=LazyGroup,
    entries={
        "check": Entry(f"{__name__}:check", "Validate a directory of suites."),
        "publish": Entry(f"{__name__}:publish", "Write suites to their topic."),
    },
    help="Check and publish suites.",
)(lambda: None)


@click.command(
    "check",
    cls=ExampleCommand,
    codes=(ExitCode.OK, ExitCode.USAGE, ExitCode.CONFIGURATION),
    examples=(
        "pathgate suites check suites/",
        "pathgate suites check suites/ --format json",
    ),
    help="Validate the suites of a directory: every error at once, with its file"
    " and JSON path. Of a file that is no suite in form (no JSON, a key or value that"
    " the schema does not have), the first error alone. What looks like a suite and is"
    " not loaded is named on stderr.",
)
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@text_or_json
@click.pass_obj
def check(terminal: Terminal, *, directory: Path, style: str) -> ExitCode:
    """Checks suites."""
    # First: with nothing loaded, what was skipped says why.
    for skipped in find_skipped(directory):
        terminal.note(f"pathgate: warning: {skipped}")
    loaded = load_directory(directory)
    for doubt in find_doubts(loaded):
        terminal.note(f"pathgate: warning: {doubt}")
    compiled = compile_suites(loaded, ArgsDigester(None))
    facts = [_facts(key, suite, loaded) for key, suite in compiled.items()]
    if style == "json":
        terminal.write(json.dumps(facts, indent=2) + "\n")
        return ExitCode.OK
    rows = [
        (
            str(fact["suite"]),
            count_of(len(compiled[str(fact["suite"])].tasks), "task"),
            f"{fact['expectations']} with an expectation",
            count_of(compiled[str(fact["suite"])].count, "trial"),
            str(fact["file"]),
        )
        for fact in facts
    ]
    terminal.write(columns(rows))
    return ExitCode.OK


def _facts(key: str, suite: CompiledSuite, loaded: SuiteSet) -> dict[str, object]:
    return {
        "suite": key,
        "file": loaded.files[key],
        "tasks": len(suite.tasks),
        "expectations": len(suite.expectations),
        "trials": suite.count,
        "passRule": suite.pass_rule.value,
        "passScore": suite.thresholds.pass_score,
    }


@settings_command(
    "publish",
    shown=("bootstrap_servers", "topic_prefix", "topic_suite_definition"),
    codes=(ExitCode.OK, ExitCode.USAGE, ExitCode.BROKER, ExitCode.CONFIGURATION),
    examples=(
        "pathgate suites publish suites/ --bootstrap-servers kafka:9092",
        "pathgate suites publish suites/ --dry-run",
    ),
    help="Write the suites of a directory to their topic, after validating them all."
    " What is published already is left alone; another suite under a published"
    " version is refused, since runs were graded by it.",
)
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--dry-run", "-n", is_flag=True, help="Only say what would be written.")
@click.option(
    "--replace", is_flag=True, help="Write over a published version that differs."
)
def publish(
    terminal: Terminal,
    *,
    settings: Settings,
    directory: Path,
    dry_run: bool,
    replace: bool,
) -> ExitCode:
    """Publishes suites."""
    loaded = load_directory(directory)
    compile_suites(loaded, ArgsDigester(None))
    if loaded.aliases:
        # Under a topic without them, a call by another name would not be forbidden.
        raise ConfigurationError(
            f"{directory / ALIASES_FILE}: aliases have no place in the topic, and"
            " without them the suites forbid and expect other calls; give the workers"
            " the directory (suites_dir), or name the tools as they are observed"
        )
    topic = names_from(settings).suite_definition
    states = asyncio.run(
        _publish(settings, topic, loaded.documents, dry_run=dry_run, replace=replace)
    )
    terminal.write(columns(list(states.items())))
    return ExitCode.OK


async def _publish(
    settings: Settings,
    topic: str,
    documents: Mapping[str, bytes],
    *,
    dry_run: bool,
    replace: bool,
) -> dict[str, str]:
    async with connect(settings) as cluster:
        survey = await cluster.survey([topic])
    # Its configuration is of no matter here, and may be hidden from publishers.
    unseen = [right for right in survey.denied if right.operation == "Describe"]
    if unseen:
        raise AccessDeniedError("\n".join(str(right) for right in unseen))
    if topic not in survey.found:
        raise ConfigurationError(
            f"{topic}: does not exist; run `pathgate topics create`"
        )
    published = await read_newest(settings, topic)
    states = {
        key: _state_of(document, published.get(key.encode()))
        for key, document in documents.items()
    }
    differing = [key for key, state in states.items() if state == DIFFERS]
    if differing and not replace:
        raise ConfigurationError(
            "\n".join(
                f"{key}: is published with another content; give the suite a new"
                " version, or --replace"
                for key in differing
            )
        )
    pending = {key: documents[key] for key, state in states.items() if state != SAME}
    if dry_run:
        return states
    await _send(settings, topic, pending)
    return {key: SAME if state == SAME else SENT for key, state in states.items()}


NEW, SAME, DIFFERS, SENT = "new", "published already", "differs", "published"


def _state_of(document: bytes, published: bytes | None) -> str:
    if published is None:
        return NEW
    return SAME if published == document else DIFFERS


async def _send(settings: Settings, topic: str, documents: Mapping[str, bytes]) -> None:
    # Not idempotent: that needs a further right, and a suite that is written
    # twice is the same suite.
    producer = AIOKafkaProducer(**client_options(settings), acks="all")
    headers = [("content-type", b"application/json")]
    try:
        await producer.start()
        for key, document in documents.items():
            await producer.send_and_wait(
                topic, document, key=key.encode(), headers=headers
            )
    except TopicAuthorizationFailedError as error:
        raise AccessDeniedError(
            f"{principal_of(settings)} needs Write on topic {topic}"
        ) from error
    except (KafkaError, OSError) as error:
        raise BrokerUnavailableError(
            f"{settings.bootstrap_servers}: {topic} was not written:"
            f" {type(error).__name__}"
        ) from error
    finally:
        await producer.stop()
