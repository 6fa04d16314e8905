"""Where settings come from: flags, the environment and a TOML file."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from schemas.faults import place_and_shape
from streams.settings.fields import Values

PREFIX = "PATHGATE_"
# Names of the same prefix that other things read: the file's own name, tests,
# Faust's settings and the development broker.
OTHER_NAMES = frozenset(
    {
        "PATHGATE_CONFIG",
        "PATHGATE_KAFKA_CACHE",
        "PATHGATE_TOOLS_CACHE",
        "PATHGATE_VENV",
    }
)
OTHER_PREFIXES = ("PATHGATE_TEST_", "PATHGATE_FAUST_")

FIELDS: Mapping[str, msgspec.structs.FieldInfo] = {
    field.name: field for field in msgspec.structs.fields(Values)
}
# Secret -> the setting that names its file.
SECRET_FILES: Mapping[str, str] = {
    "sasl_password": "sasl_password_file",
    "ssl_key_password": "ssl_key_password_file",
    "args_digest_key": "args_digest_key_file",
}


class Given(msgspec.Struct, frozen=True):
    """One value as it was given.

    Args:
        value: As read, not yet typed.
        origin: What gave it: the flag, the variable, or the file.
        label: The setting in the spelling of that source, for errors.
    """

    value: Any
    origin: str
    label: str


def flag_of(name: str) -> str:
    """The flag of a setting: ``late_window_s`` -> ``--late-window-s``."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


def suggest(name: str, known: Iterable[str]) -> str:
    """``" (did you mean X?)"`` for the nearest known name, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def read_flags(flags: Mapping[str, object], problems: list[str]) -> dict[str, Given]:
    """Settings given on the command line; a None stands for a flag not given."""
    found: dict[str, Given] = {}
    for name, value in flags.items():
        if value is None:
            continue
        if name in SECRET_FILES:
            problems.append(
                f"{flag_of(name)}: a secret is never a flag, which other users of"
                f" the machine can read; give {flag_of(SECRET_FILES[name])}"
            )
        elif name in FIELDS:
            found[name] = Given(value, flag_of(name), flag_of(name))
        else:
            near = suggest(name, FIELDS)
            problems.append(f"{name}: no such setting{near}")
    return found


def read_environment(env: Mapping[str, str], problems: list[str]) -> dict[str, Given]:
    """Settings of the environment; an empty variable counts as not set."""
    names = {variable_of(name): name for name in (*FIELDS, *SECRET_FILES)}
    found: dict[str, Given] = {}
    for variable, value in sorted(env.items()):
        if (
            not variable.startswith(PREFIX)
            or variable in OTHER_NAMES
            or variable.startswith(OTHER_PREFIXES)
        ):
            continue
        if variable not in names:
            problems.append(f"{variable}: no such setting{_hint(variable, names)}")
        elif value:
            found[names[variable]] = Given(value, variable, variable)
    return found


def _hint(variable: str, names: Iterable[str]) -> str:
    rest = variable.removeprefix(PREFIX)
    if rest.startswith(("PORT", "SERVICE_")):
        return (
            "; Kubernetes makes such variables for a service named pathgate:"
            " set enableServiceLinks: false on the pod"
        )
    return suggest(variable, names)


def read_toml(path: Path | None, problems: list[str]) -> dict[str, Given]:
    """Settings of a TOML file with one top-level key a setting."""
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}")
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"{path}: not TOML: {_where(error)}")
        return {}
    found: dict[str, Given] = {}
    for name, value in document.items():
        if name in SECRET_FILES:
            problems.append(
                f"{path}: {name}: a secret is never written into this file; give"
                f" {SECRET_FILES[name]}, or {variable_of(name)}"
            )
        elif name in FIELDS:
            found[name] = Given(value, str(path), f"{path}: {name}")
        else:
            problems.append(f"{path}: {name}: no such setting{suggest(name, FIELDS)}")
    return found


def _where(error: tomllib.TOMLDecodeError | UnicodeDecodeError) -> str:
    # A Unicode error would print the bytes that it stumbled over.
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start}"
    return str(error)


def typed(name: str, given: Given) -> object:
    """The value of a setting in its type.

    Text is read as the type wants it; the words of a closed list in any case.

    Raises:
        ValueError: It is not of the type or out of bounds; names the setting,
            the source and what was expected.
    """
    words = _words(FIELDS[name].type)
    value = given.value
    if words and isinstance(value, str):
        by_folded = {word.casefold(): word for word in words}
        value = by_folded.get(value.casefold(), value)
    try:
        return msgspec.convert(value, FIELDS[name].type, strict=False)
    except msgspec.ValidationError as error:
        expected = place_and_shape(error)[1]
        if words:
            expected = f"expected one of {', '.join(words)}"
        raise ValueError(f"{given.label}: {expected}, got {value!r}") from None


def _words(kind: Any) -> list[str]:
    """The values of a closed list, or nothing for another type."""
    members = getattr(kind, "__members__", None)
    if members is not None:
        return [str(member) for member in members.values()]
    return [word for part in get_args(kind) for word in _words(part)]


def read_secret(
    name: str, file: str, given: Given | None, problems: list[str]
) -> bytes | None:
    """A secret's bytes without the line end: from its file first.

    Args:
        name: The secret.
        file: Path of its file, or empty.
        given: What the environment gave for the secret itself.
        problems: Receives what is wrong; never any of the secret.

    Returns:
        The bytes, at least one; None if there is no secret.
    """
    if not file:
        # Bytes of the environment that are no UTF-8 are a secret's own matter.
        return str(given.value).encode(errors="surrogateescape") if given else None
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        problems.append(f"{SECRET_FILES[name]}: {file}: {error.strerror}")
        return None
    data = data.removesuffix(b"\n").removesuffix(b"\r")
    if not data:
        problems.append(f"{SECRET_FILES[name]}: {file}: is empty")
        return None
    return data
