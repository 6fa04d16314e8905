"""A suite made ready for grading: its tasks, bars and compiled expectations."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from schemas.errors import DecodeError, SuiteError
from schemas.suite import PassRule, Suite, Task, Thresholds
from streams.core.arguments import ArgsDigester
from streams.core.declaration import find_faults as find_faults_of
from streams.core.declaration import tool_names as tool_names_of
from streams.core.evidence import hidden_key
from streams.core.pairing import bits
from streams.core.trajectory import ArgsNeed, Expectation, compile_expectation


class CompiledTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task: its id, its place in the suite, and its expectation if any."""

    task_id: str
    index: int
    expectation: Expectation | None


class ArgsKept(NamedTuple):
    """What calls of one tool keep of their arguments.

    Args:
        need: What any step may compare.
        named: Hidden key -> key, of the top-level keys that steps name.
        keys: Those keys.
    """

    need: ArgsNeed
    named: dict[str, str]
    keys: frozenset[str]


class CompiledSuite:
    """A suite with every expectation compiled; immutable by convention.

    Args:
        suite: The decoded suite.
        digester: Makes the digests that expected arguments are compared by.
        aliases: Observed tool name -> the name suites use.
        source: File or record the suite came from, for errors.

    Attributes:
        document: The decoded suite.

    Raises:
        SuiteError: An expectation that the schema cannot rule out but that has
            no meaning; names the JSON path.
    """

    def __init__(
        self,
        suite: Suite,
        digester: ArgsDigester,
        aliases: Mapping[str, str] | None = None,
        source: str = "suite",
    ) -> None:
        self.document = suite
        self.source = source
        self.suite_id = suite.suite_id
        self.version = suite.version
        self.thresholds: Thresholds = suite.thresholds
        self.has_trials = suite.trials is not None
        self.count = suite.trials.count if suite.trials else 1
        self.pass_rule = suite.trials.pass_rule if suite.trials else PassRule.ALL
        self.tasks = tuple(
            CompiledTask(
                task_id=task.task_id,
                index=index,
                expectation=_expectation(task, index, digester, aliases or {}, source),
            )
            for index, task in enumerate(suite.tasks)
        )
        self.by_id = {task.task_id: task for task in self.tasks}
        self.expectations = tuple(
            task.expectation for task in self.tasks if task.expectation is not None
        )
        # Of the suite, not of the wire: observed names that steps compare.
        self.tools_with_args = frozenset(
            tool for expectation in self.expectations for tool in expectation.rules
        )
        self._digester = digester
        self._kept: dict[str, ArgsKept] = {}

    @property
    def key(self) -> str:
        """``suiteId@version``, as suites are keyed."""
        return f"{self.suite_id}@{self.version}"

    @property
    def declared_trials(self) -> int:
        """Trials the suite declares: tasks times ``trials.count``."""
        return len(self.tasks) * self.count

    def args_need(self, tool: str) -> ArgsNeed:
        """What a call of ``tool`` must keep of its arguments for any task."""
        return self.args_kept(tool).need

    def args_kept(self, tool: str) -> ArgsKept:
        """What a call of ``tool`` keeps of its arguments for all tasks."""
        kept = self._kept.get(tool)
        if kept is None:
            need = max(
                (e.args_need(tool) for e in self.expectations), default=ArgsNeed.NONE
            )
            keys = self._part_keys(tool) if need is ArgsNeed.PARTS else frozenset()
            named = {hidden_key(key, self._digester): key for key in sorted(keys)}
            kept = ArgsKept(need, named, keys)
            if len(self._kept) < _MAX_REMEMBERED_TOOLS:
                self._kept[tool] = kept
        return kept

    def _part_keys(self, tool: str) -> frozenset[str]:
        # Of all steps of the tool, so that a reason can name the key in which a
        # call differs from a step that compares the whole.
        return frozenset(
            key
            for expectation in self.expectations
            for step in bits(expectation.steps_of.get(tool, 0))
            for key, _ in expectation.steps[step].members
        )

    def is_forbidden(self, tool: str) -> str | None:
        """The ``forbidden`` entry of any task that ``tool`` hits, or None."""
        for expectation in self.expectations:
            entry = expectation.is_forbidden(tool)
            if entry is not None:
                return entry
        return None


def find_faults(
    suite: Suite, digester: ArgsDigester, aliases: Mapping[str, str]
) -> list[DecodeError]:
    """What has no meaning in the expectations of a suite: all of it.

    Args:
        suite: The decoded suite.
        digester: As of ``CompiledSuite``, with any key.
        aliases: As of ``CompiledSuite``.

    Returns:
        The faults with their JSON paths, by task; none where it compiles.
    """
    return [
        fault
        for index, task in enumerate(suite.tasks)
        if task.expected is not None and task.expected.trajectory is not None
        for fault in find_faults_of(
            task.expected.trajectory, digester, aliases, _place_of(index)
        )
    ]


def tool_names(suite: Suite) -> Iterator[tuple[str, str]]:
    """Every tool that the expectations of a suite name, with its JSON path."""
    for index, task in enumerate(suite.tasks):
        if task.expected is not None and task.expected.trajectory is not None:
            yield from tool_names_of(task.expected.trajectory, _place_of(index))


# Tool names come from the wire: what is remembered of them is bounded.
_MAX_REMEMBERED_TOOLS = 4096


def _expectation(
    task: Task,
    index: int,
    digester: ArgsDigester,
    aliases: Mapping[str, str],
    source: str,
) -> Expectation | None:
    trajectory = task.expected.trajectory if task.expected is not None else None
    if trajectory is None:
        return None
    try:
        return compile_expectation(trajectory, digester, aliases, _place_of(index))
    except DecodeError as error:
        raise SuiteError(source, error.path, error.expected) from error


def _place_of(index: int) -> str:
    return f"$.tasks[{index}].expected.trajectory"
