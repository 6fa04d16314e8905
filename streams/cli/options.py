"""Settings on the command line: ``--config``, and a flag for each setting."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec import Meta

from streams.cli.exit_codes import ExitCode
from streams.cli.group import ExampleCommand
from streams.cli.terminal import Terminal
from streams.settings import FIELDS, Settings, flag_of

CONFIG_VARIABLE = "PATHGATE_CONFIG"
SHORT_FLAGS = {"suites_dir": ("--suites",)}

text_or_json = click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
)


class SettingsCommand(ExampleCommand):
    """A command whose callback is given ``settings``, loaded and checked.

    Args:
        shown: Settings whose flags the help lists.
        accepted: Settings that have a flag; all of them by default.
    """

    def __init__(
        self,
        *args: Any,
        shown: Sequence[str] = (),
        accepted: Sequence[str] = tuple(FIELDS),
        params: list[click.Parameter] | None = None,
        **kwargs: Any,
    ) -> None:
        names = [*shown, *(name for name in accepted if name not in shown)]
        flags: list[click.Parameter] = [
            click.Option(
                [*SHORT_FLAGS.get(name, ()), flag_of(name), f"setting_{name}"],
                metavar="VALUE",
                hidden=name not in shown,
                help=help_of(name),
            )
            for name in names
        ]
        config = click.Option(
            ["--config"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            help=f"TOML file of settings; also {CONFIG_VARIABLE}.",
        )
        super().__init__(*args, params=[*(params or []), config, *flags], **kwargs)
        self._names = names

    def invoke(self, ctx: click.Context) -> Any:
        """Gives the command its settings, then runs it.

        Raises:
            SettingsError: Settings that cannot be used.
        """
        terminal: Terminal = ctx.obj
        path = ctx.params.pop("config")
        if path is None and terminal.env.get(CONFIG_VARIABLE):
            path = Path(terminal.env[CONFIG_VARIABLE])
        flags = {name: ctx.params.pop(f"setting_{name}") for name in self._names}
        self.give(ctx, partial(Settings.load, flags, terminal.env, path))
        return super().invoke(ctx)

    def give(self, ctx: click.Context, load: Callable[[], Settings]) -> None:
        """Sets ``settings``, and tells what is doubtful about them."""
        settings = load()
        terminal: Terminal = ctx.obj
        for warning in settings.find_warnings():
            terminal.note(f"pathgate: warning: {warning}")
        ctx.params["settings"] = settings


class LateSettingsCommand(SettingsCommand):
    """A command whose callback is given ``load``, and tells itself what is wrong."""

    def give(self, ctx: click.Context, load: Callable[[], Settings]) -> None:
        """Sets ``load``, which gives the settings or raises ``SettingsError``."""
        ctx.params["load"] = load


def help_of(name: str) -> str:
    """What a setting does, from its declaration."""
    kind = FIELDS[name].type
    notes = [m.description for m in kind.__metadata__ if isinstance(m, Meta)]
    return next(note for note in notes if note)


def settings_command(
    name: str | None = None,
    cls: type[SettingsCommand] = SettingsCommand,
    **attributes: Any,
) -> Callable[[Callable[..., ExitCode]], click.Command]:
    """Makes a command of a function that takes ``terminal`` and what ``cls`` gives."""

    def decorate(function: Callable[..., ExitCode]) -> click.Command:
        passed = click.pass_obj(function)
        return click.command(name, cls=cls, **attributes)(passed)

    return decorate
