"""``pathgate verify``: published records against the events in the topics."""

import asyncio
import json

import click
import msgspec
from aiokafka.errors import KafkaError

from streams.cli.exit_codes import ExitCode, exit_code_for
from streams.cli.from_topics import counting, read_context, unread
from streams.cli.grading import CODES, GRADING, Rejections
from streams.cli.options import settings_command, text_or_json
from streams.cli.terminal import Terminal
from streams.render.figures import count_of, visible
from streams.settings import Settings
from streams.verify import Verified
from streams.verify import verify as verify_topics


@settings_command(
    "verify",
    shown=("bootstrap_servers", "app_id", "suites_dir", *GRADING),
    codes=(*CODES, ExitCode.BROKER),
    examples=(
        "pathgate verify --bootstrap-servers kafka:9092 --suites suites/",
        "pathgate verify --config /etc/pathgate/pathgate.toml --repair",
        "pathgate verify --format json | jq -r '.findings[].runId'",
    ),
    help="Grade the events in the topics afresh and hold every published record and"
    " the stored state against them. Give it the workers' settings. 0 if they agree,"
    " 1 if some differ, 3 if there was nothing to compare, or if events could not be"
    " read and all others agree.",
)
@click.option("--repair", is_flag=True, help="Have the workers rebuild what differs.")
@text_or_json
def verify(
    terminal: Terminal, *, settings: Settings, repair: bool, style: str
) -> ExitCode:
    """Verifies what was published."""
    rejections = Rejections()
    try:
        found = asyncio.run(_verify(terminal, settings, rejections, repair=repair))
    except KafkaError as error:
        raise unread(settings, error) from error
    if style == "json":
        terminal.write(json.dumps(msgspec.to_builtins(found), indent=2) + "\n")
    else:
        terminal.write(render(found))
    rejections.tell(terminal)
    return code_of(found)


def code_of(found: Verified) -> ExitCode:
    """The exit code of a pass: a difference is told before a doubt."""
    is_answer = found.runs and not found.rejected
    return exit_code_for(
        not_passed=len(found.findings), undecided="" if is_answer else "in doubt"
    )


async def _verify(
    terminal: Terminal, settings: Settings, rejections: Rejections, *, repair: bool
) -> Verified:
    context = await read_context(settings)
    with counting(terminal) as count:
        return await verify_topics(
            settings, context, repair=repair, reject=rejections.add, progress=count
        )


def render(found: Verified) -> str:
    """What was found, a line a finding, then the totals."""
    lines = []
    for one in found.findings:
        task = f" task {visible(one.task_id)}" if one.task_id else ""
        lines.append(f"{visible(one.run_id)}{task}: {one.fault.value}: {one.detail}")
    text = f"{count_of(found.runs, 'run')} compared"
    if not found.runs:
        text = "nothing to compare"
    elif found.findings:
        text += f", {len(found.findings)} differ"
    else:
        text += ", all agree"
    if found.open:
        text += f", {found.open} not ended yet"
    if found.repairs:
        text += f", {count_of(found.repairs, 'rebuild')} asked for"
    return "\n".join([*lines, text]) + "\n"
