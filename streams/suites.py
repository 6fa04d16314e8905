"""Loads the suites of a directory, with every error at once."""

from pathlib import Path

import msgspec

from schemas.codec import decode_aliases, decode_suite, in_document_order
from schemas.errors import DecodeError, SuiteError
from schemas.suite import Suite
from streams.core.arguments import ArgsDigester
from streams.core.compiled import CompiledSuite, find_faults, tool_names
from streams.errors import ConfigurationError
from streams.settings import Settings

ALIASES_FILE = "aliases.json"
_SUFFIX = ".json"
# Which arguments have a canonical form is no matter of the key.
_CHECKER = ArgsDigester(None)


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
            read or is no suite, one ``suiteId@version`` in two files, or an
            expectation that has no meaning. All that is wrong is named, in the
            order of the files and of what stands in them, ``aliases.json``
            first; of a file that is no suite in form, the first place.
    """
    problems: list[str] = []
    suites: dict[str, Suite] = {}
    files: dict[str, str] = {}
    documents: dict[str, bytes] = {}
    found = _find_files(path)
    aliases = _load_aliases(found, problems)
    for file in found:
        data = None if file.name == ALIASES_FILE else _read(file, problems)
        if data is None:
            continue
        faults: list[DecodeError] = []
        try:
            suite = decode_suite(data, str(file), faults)
        except SuiteError as error:
            problems.append(str(error))
            continue
        faults += find_faults(suite, _CHECKER, aliases)
        key = key_of(suite)
        if key in suites:
            faults.append(
                DecodeError(
                    "$.version",
                    "expected a suiteId and version of its own,"
                    f" {files[key]} has {key} too",
                )
            )
        else:
            suites[key] = suite
            files[key] = str(file)
            documents[key] = data
        problems += [f"{file}: {fault}" for fault in in_document_order(data, faults)]
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
        loaded: The suites, from ``load_directory``: each has a meaning.
        digester: Makes the digests that expected arguments are compared by.

    Returns:
        ``suiteId@version`` -> compiled suite, in the order of ``loaded``.
    """
    return {
        key: CompiledSuite(suite, digester, loaded.aliases, loaded.files[key])
        for key, suite in loaded.suites.items()
    }


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
            if file.suffix == _SUFFIX and not file.name.startswith(".")
        )
    except OSError as error:
        raise SuitesError((f"{path}: cannot be read: {error.strerror}",)) from error


def find_skipped(path: Path) -> list[str]:
    """What ``load_directory`` leaves alone and may have been meant as a suite.

    Args:
        path: The directory; what starts with a dot is left out here too.

    Returns:
        One line each, sorted by name: a file whose suffix has capitals, and a
        directory with suites' names below. Empty where ``path`` cannot be read.
    """
    try:
        entries = sorted(path.iterdir())
    except OSError:
        return []
    found = []
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            if any(map(_is_named_as_suite, entry.rglob("*"))):
                found.append(f"{entry}: skipped: a directory below is not looked into")
        elif _is_named_as_suite(entry) and entry.suffix != _SUFFIX:
            found.append(f"{entry}: skipped: expected a name that ends in {_SUFFIX}")
    return found


def _is_named_as_suite(file: Path) -> bool:
    return file.suffix.lower() == _SUFFIX and not file.name.startswith(".")


def find_doubts(loaded: SuiteSet) -> list[str]:
    """What is taken as it is written and was hardly meant so; one line each.

    Names are literal (DESIGN.md §3), white space around them too: a forbidden
    ``"rm "`` forbids no call of ``rm``.
    """
    return [
        f"{loaded.files[key]}: {place}: white space around a tool's name is taken"
        " literally"
        for key, suite in loaded.suites.items()
        for place, name in tool_names(suite)
        if _is_padded(name) or _is_padded(name.removesuffix("*"))
    ]


def _is_padded(name: str) -> bool:
    return name.strip() != name


def _load_aliases(files: list[Path], problems: list[str]) -> dict[str, str]:
    """The alias map; empty where there is none, or none that can be used."""
    file = next((file for file in files if file.name == ALIASES_FILE), None)
    data = None if file is None else _read(file, problems)
    if data is None:
        return {}
    faults: list[DecodeError] = []
    try:
        aliases = decode_aliases(data, str(file), faults)
    except SuiteError as error:
        problems.append(str(error))
        return {}
    problems += [f"{file}: {fault}" for fault in faults]
    return {} if faults else aliases


def _read(file: Path, problems: list[str]) -> bytes | None:
    if file.is_dir():
        return None
    try:
        return file.read_bytes()
    except OSError as error:
        problems.append(f"{file}: cannot be read: {error.strerror}")
        return None
