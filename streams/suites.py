"""Loads the suites of a directory, with every error at once."""

from pathlib import Path

import msgspec

from schemas.codec import decode_aliases, decode_suite
from schemas.errors import SuiteError
from schemas.suite import Suite
from streams.core.arguments import ArgsDigester
from streams.core.compiled import CompiledSuite
from streams.errors import ConfigurationError
from streams.settings import Settings

ALIASES_FILE = "aliases.json"


class SuitesError(ConfigurationError):
    """Suites that cannot be used; correct each place that is named.

    Args:
        problems: One line a problem: file, JSON path, what was expected.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SuiteConflictError(ConfigurationError):
    """One suite and version has two contents; give one of them a new version."""


class SuiteSet(msgspec.Struct, frozen=True, kw_only=True):
    """The suites of one directory.

    Args:
        suites: ``suiteId@version`` -> suite, in the order of the files' names.
        aliases: Observed tool name -> the name the suites use.
        files: ``suiteId@version`` -> the file it came from.
        documents: ``suiteId@version`` -> that file's bytes.
    """

    suites: dict[str, Suite]
    aliases: dict[str, str]
    files: dict[str, str]
    documents: dict[str, bytes]


def load_directory(path: Path) -> SuiteSet:
    """The suites of a directory: its ``*.json``, one suite a file.

    Args:
        path: The directory. ``aliases.json`` holds the alias map; files whose
            names start with a dot, and directories below, are left alone.

    Returns:
        The suites, at least one, sorted by file name.

    Raises:
        SuitesError: No such directory, no suite in it, a file that cannot be
            read or is no suite, or one ``suiteId@version`` in two files. All
            that is wrong is named.
    """
    problems: list[str] = []
    suites: dict[str, Suite] = {}
    files: dict[str, str] = {}
    documents: dict[str, bytes] = {}
    aliases: dict[str, str] = {}
    for file in _find_files(path):
        data = _read(file, problems)
        if data is None:
            continue
        try:
            if file.name == ALIASES_FILE:
                aliases = decode_aliases(data, str(file))
                continue
            suite = decode_suite(data, str(file))
        except SuiteError as error:
            problems.append(str(error))
            continue
        key = key_of(suite)
        if key in suites:
            problems.append(
                f"{file}: $.version: expected a suiteId and version of its own,"
                f" {files[key]} has {key} too"
            )
            continue
        suites[key] = suite
        files[key] = str(file)
        documents[key] = data
    if not suites and not problems:
        problems.append(f"{path}: expected at least one suite, a file named *.json")
    if problems:
        raise SuitesError(tuple(problems))
    return SuiteSet(suites=suites, aliases=aliases, files=files, documents=documents)


def key_of(suite: Suite) -> str:
    """``suiteId@version``, as suites are keyed."""
    return f"{suite.suite_id}@{suite.version}"


def digester_from(settings: Settings) -> ArgsDigester:
    """What digests arguments, with the settings' key if they have one."""
    key = settings.args_digest_key
    return ArgsDigester(None if key is None else key.reveal())


def compile_suites(
    loaded: SuiteSet, digester: ArgsDigester
) -> dict[str, CompiledSuite]:
    """Every suite made ready for grading.

    Args:
        loaded: The suites.
        digester: Makes the digests that expected arguments are compared by.

    Returns:
        ``suiteId@version`` -> compiled suite, in the order of ``loaded``.

    Raises:
        SuitesError: Expectations that have no meaning, all of them.
    """
    problems: list[str] = []
    compiled: dict[str, CompiledSuite] = {}
    for key, suite in loaded.suites.items():
        try:
            compiled[key] = CompiledSuite(
                suite, digester, loaded.aliases, loaded.files[key]
            )
        except SuiteError as error:
            problems.append(str(error))
    if problems:
        raise SuitesError(tuple(problems))
    return compiled


def add_suite(known: dict[str, CompiledSuite], suite: CompiledSuite) -> bool:
    """Takes a suite in, from wherever it comes.

    Args:
        known: ``suiteId@version`` -> suite.
        suite: One more.

    Returns:
        Whether it was not known.

    Raises:
        SuiteConflictError: It is known with another content: by which of the two
            a run is graded must not depend on which was read first.
    """
    held = known.setdefault(suite.key, suite)
    if held.document != suite.document:
        raise SuiteConflictError(
            f"{suite.key}: {suite.source} and {held.source} have it with different"
            " contents; give one of them a new version"
        )
    return held is suite


def _find_files(path: Path) -> list[Path]:
    try:
        return sorted(
            file
            for file in path.iterdir()
            if file.suffix == ".json" and not file.name.startswith(".")
        )
    except OSError as error:
        raise SuitesError((f"{path}: cannot be read: {error.strerror}",)) from error


def _read(file: Path, problems: list[str]) -> bytes | None:
    if file.is_dir():
        return None
    try:
        return file.read_bytes()
    except OSError as error:
        problems.append(f"{file}: cannot be read: {error.strerror}")
        return None
