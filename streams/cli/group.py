"""Commands that are imported when they are used, with examples in their help."""

import difflib
import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from streams.cli.exit_codes import ExitCode, describe

HELP_NAMES = {"help_option_names": ["-h", "--help"]}


class Entry(NamedTuple):
    """One subcommand that is not imported yet.

    Args:
        target: ``module:attribute``.
        summary: What the list of commands says of it.
    """

    target: str
    summary: str


class ExampleCommand(click.Command):
    """A command whose help ends in examples and exit codes.

    Args:
        examples: Command lines as they would be typed.
        codes: The exit codes it can end with, signals left out.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        codes: Sequence[ExitCode] = (ExitCode.OK, ExitCode.USAGE),
        **kwargs: Any,
    ) -> None:
        kwargs["context_settings"] = HELP_NAMES
        super().__init__(*args, **kwargs)
        self._examples = examples
        self._codes = codes

    def format_epilog(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """Writes the examples and exit codes line for line."""
        write_examples(formatter, self._examples, describe(*sorted(self._codes)))


def write_examples(
    formatter: click.HelpFormatter, examples: Sequence[str], codes: str
) -> None:
    """The end of a help page."""
    formatter.write("\nExamples:\n")
    for example in examples:
        formatter.write(f"  {example}\n")
    formatter.write(f"\nExit codes:\n{codes}\n")


class LazyGroup(click.Group):
    """A group that imports a subcommand's module when it is run.

    Args:
        entries: Name -> entry, in the order of the list of commands.
        examples: As of ``ExampleCommand``.
        codes: Lines about exit codes.
    """

    def __init__(
        self,
        *args: Any,
        entries: dict[str, Entry],
        examples: Sequence[str] = (),
        codes: str = "",
        **kwargs: Any,
    ) -> None:
        kwargs["context_settings"] = HELP_NAMES
        super().__init__(*args, **kwargs)
        self._entries = entries
        self._examples = examples
        self._codes = codes

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in their order."""
        return list(self._entries)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        cmd_name: str,
    ) -> click.Command | None:
        """The command, imported."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module, attribute = entry.target.split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest name for one that is unknown."""
        name = args[0]
        if name not in self._entries and not name.startswith("-"):
            near = difflib.get_close_matches(name, self._entries, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """The list of commands, with nothing imported."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, entry.summary) for name, entry in self._entries.items()]
            )

    def format_epilog(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """Writes the examples and exit codes line for line."""
        if self._examples:
            write_examples(formatter, self._examples, self._codes)
