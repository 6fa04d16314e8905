"""Reads what people write: suites, alias maps, and a host's own scorecard."""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import inspect

from schemas.errors import DecodeError, SuiteError, SummaryError
from schemas.faults import place_and_shape
from schemas.suite import (
    ArgsMatch,
    Expected,
    MatchMode,
    PassRule,
    Suite,
    SuiteMode,
    Task,
)
from schemas.summary import (
    EvalSummary,
    FindingSeverity,
    Regression,
    SafetyFinding,
    TaskEntry,
    TaskTrials,
    TrialStats,
)
from schemas.trees import Members, check_keys, child, is_extension, parse, paths_of

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024

_SUITE = inspect.type_info(Suite)
_SUITE_EXTENSIBLE = (Suite, Task, Expected)
_SUMMARY = inspect.type_info(EvalSummary)
_SUMMARY_EXTENSIBLE = (EvalSummary, TaskEntry, Regression, SafetyFinding)

_read_suite = msgspec.json.Decoder(Suite).decode

_CLOSED_LISTS: dict[str, type[StrEnum]] = {
    "match": MatchMode,
    "argsMatch": ArgsMatch,
    "passRule": PassRule,
    "modes": SuiteMode,
    "severity": FindingSeverity,
}
_LAST_NAME = re.compile(r"\.([A-Za-z0-9]+)(?:\[[0-9]+\])?$")


def _fault(error: msgspec.ValidationError) -> DecodeError:
    path, expected = place_and_shape(error)
    name = _LAST_NAME.search(path)
    values = _CLOSED_LISTS.get(name.group(1)) if name is not None else None
    if values is not None and str(error).startswith("Invalid enum value"):
        expected = "expected one of " + ", ".join(values)
    # The models have None for what is left out; a document leaves it out.
    return DecodeError(path, expected.replace(" or null", ""))


def decode_suite(
    data: bytes, source: str, faults: list[DecodeError] | None = None
) -> Suite:
    """Reads a suite.

    Args:
        data: One JSON document, UTF-8.
        source: File or topic record it came from, for errors.
        faults: Receives every ``taskId`` that another task has, in place of an
            error for the first.

    Returns:
        The suite. What is the host's to use stays undecoded; extension keys of
        the suite, its tasks and their ``expected`` are passed over.

    Raises:
        SuiteError: It is no suite; names the first place that is wrong. A key
            that is not declared is wrong (a misspelt gate would gate nothing),
            and so are a key twice, a null where a key is meant to be left out,
            and one ``taskId`` on two tasks.
    """
    try:
        tree = parse(data, MAX_DOCUMENT_BYTES)
        check_keys(tree, _SUITE, "$", _SUITE_EXTENSIBLE)
        suite = _typed_suite(data)
        _settle(_find_repeated_ids(suite), faults)
    except DecodeError as error:
        fault = SuiteError(source, error.path, error.expected)
    else:
        return suite
    raise fault


def _typed_suite(data: bytes) -> Suite:
    try:
        return _read_suite(data)
    except msgspec.ValidationError as error:
        fault = _fault(error)
    raise fault


def _find_repeated_ids(suite: Suite) -> Iterator[DecodeError]:
    first: dict[str, int] = {}
    for index, task in enumerate(suite.tasks):
        held = first.setdefault(task.task_id, index)
        if held != index:
            yield DecodeError(
                f"$.tasks[{index}].taskId",
                f"expected an id of its own, tasks[{held}] has it too",
            )


def _settle(found: Iterator[DecodeError], faults: list[DecodeError] | None) -> None:
    """Hands over all that was found, or raises the first of it."""
    if faults is not None:
        faults.extend(found)
        return
    for fault in found:
        raise fault


def in_document_order(data: bytes, faults: list[DecodeError]) -> list[DecodeError]:
    """The faults of a document that can be read, by where their paths stand in it."""
    if len(faults) < 2:
        return faults
    tree = parse(data, MAX_DOCUMENT_BYTES)
    places = {path: place for place, path in enumerate(paths_of(tree))}
    return sorted(faults, key=lambda fault: places[fault.path])


def decode_aliases(
    data: bytes, source: str, faults: list[DecodeError] | None = None
) -> dict[str, str]:
    """Reads an alias map, ``{"aliases": {observed: canonical}}``.

    Args:
        data: One JSON document, UTF-8.
        source: File it came from, for errors.
        faults: Receives every name that cannot stand, in place of an error for
            the first.

    Returns:
        Observed tool name -> the name that suites use; several observed names
        may have one canonical name.

    Raises:
        SuiteError: It is no such map, or its names collide: one observed name
            twice, a name that stands for itself, or a name that is observed
            for one entry and canonical for another.
    """
    try:
        tree = parse(data, MAX_DOCUMENT_BYTES)
        aliases = _read_aliases(tree)
        _settle(_find_unusable_names(aliases), faults)
    except DecodeError as error:
        fault = SuiteError(source, error.path, error.expected)
    else:
        return aliases
    raise fault


def _read_aliases(tree: object) -> dict[str, str]:
    if not isinstance(tree, Members):
        raise DecodeError("$", "expected an object with the key aliases")
    members = tree.once("$")
    for key in members:
        if key != "aliases" and not is_extension(key):
            raise DecodeError(child("$", key), "expected the key aliases alone")
    declared = members.get("aliases")
    if not isinstance(declared, Members):
        raise DecodeError(
            "$.aliases", "expected an object, observed name: canonical name"
        )
    aliases: dict[str, str] = {}
    for observed, canonical in declared.once("$.aliases").items():
        if not isinstance(canonical, str):
            path = child("$.aliases", observed)
            raise DecodeError(path, "expected a tool name, a string")
        aliases[observed] = canonical
    return aliases


def _find_unusable_names(aliases: dict[str, str]) -> Iterator[DecodeError]:
    for observed, canonical in aliases.items():
        path = child("$.aliases", observed)
        if not (_is_literal(observed) and _is_literal(canonical)):
            yield DecodeError(
                path, "expected literal tool names of 1 to 512 characters, without *"
            )
        elif canonical == observed:
            yield DecodeError(path, "expected another name than the observed one")
        elif canonical in aliases:
            yield DecodeError(
                path, "expected a canonical name that is no observed name itself"
            )


def _is_literal(name: str) -> bool:
    return 1 <= len(name) <= 512 and "*" not in name


def decode_summary(data: bytes, source: str) -> EvalSummary:
    """Reads a host's own scorecard.

    Args:
        data: One JSON document, UTF-8.
        source: File it came from, for errors.

    Returns:
        The scorecard. Extension keys are passed over. Trial figures
        (``tasks[].trials``, ``trialStats``) are RFC 0244's, whose text fixes
        no names that are known here: they are unset where they have others
        than ours.

    Raises:
        SummaryError: It is no ``EvalSummary``; names the first place that is
            wrong.
    """
    try:
        tree = parse(data, MAX_DOCUMENT_BYTES)
        _keep_known_trials(tree)
        check_keys(tree, _SUMMARY, "$", _SUMMARY_EXTENSIBLE)
        summary = _typed_summary(tree)
    except DecodeError as error:
        fault = SummaryError(source, error.path, error.expected)
    else:
        return summary
    raise fault


def _typed_summary(tree: object) -> EvalSummary:
    try:
        return msgspec.convert(_plain(tree), EvalSummary)
    except msgspec.ValidationError as error:
        fault = _fault(error)
    raise fault


def _plain(tree: object) -> object:
    """The tree with objects as mappings and without extension keys."""
    if isinstance(tree, Members):
        return {key: _plain(value) for key, value in tree if not is_extension(key)}
    if isinstance(tree, list):
        return [_plain(item) for item in tree]
    return tree


def _keep_known_trials(tree: object) -> None:
    if not isinstance(tree, Members):
        return
    _keep_if(tree, "trialStats", lambda value: _fits(value, TrialStats))
    for key, tasks in tree:
        if key == "tasks" and isinstance(tasks, list):
            for task in tasks:
                if isinstance(task, Members):
                    _keep_if(task, "trials", lambda value: _fits(value, TaskTrials))


def _keep_if(members: Members, key: str, fits: Callable[[object], bool]) -> None:
    members[:] = [
        (name, value) for name, value in members if name != key or fits(value)
    ]


def _fits(value: object, model: type[Any]) -> bool:
    try:
        msgspec.convert(_plain(value), model)
    except msgspec.ValidationError:
        return False
    return True
