"""Published records for people and for CI: text, json, markdown, junit, github."""

from enum import StrEnum
from typing import Protocol

from streams.render.github import GithubRenderer
from streams.render.junit import JunitRenderer
from streams.render.markdown import MarkdownRenderer
from streams.render.ndjson import NdjsonRenderer
from streams.render.text import TextRenderer
from streams.render.view import RunView, Totals, view_of

__all__ = [
    "Format",
    "Renderer",
    "RunView",
    "Totals",
    "make_renderer",
    "view_of",
]


class Format(StrEnum):
    """How graded runs are written."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    GITHUB = "github"


class Renderer(Protocol):
    """Writes graded runs one after the other, holding none of them."""

    def start(self) -> str:
        """What stands before the first run."""

    def run(self, view: RunView) -> str:
        """One run."""

    def end(self, totals: Totals) -> str:
        """What stands after the last run."""


def make_renderer(
    style: Format, *, colour: bool = False, tasks: bool = False
) -> Renderer:
    """The renderer of a format.

    Args:
        style: The format.
        colour: Whether ``text`` may use colours; words say the same without.
        tasks: Whether ``json`` has task records after each suite record.
    """
    match style:
        case Format.TEXT:
            return TextRenderer(colour=colour)
        case Format.JSON:
            return NdjsonRenderer(tasks=tasks)
        case Format.MARKDOWN:
            return MarkdownRenderer()
        case Format.JUNIT:
            return JunitRenderer()
        case Format.GITHUB:
            return GithubRenderer()
