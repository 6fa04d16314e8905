"""Settings: flags over ``PATHGATE_*`` over a TOML file over defaults."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

import msgspec

from schemas.records import AlertKind, Severity
from streams.core.policy import Policy
from streams.errors import ConfigurationError
from streams.settings.checks import find_problems, find_warnings
from streams.settings.choices import (
    DeadLetterBody,
    LogFormat,
    LogLevel,
    Partitioner,
    SaslMechanism,
    SecurityProtocol,
)
from streams.settings.fields import Values
from streams.settings.secret import Secret
from streams.settings.sources import (
    FIELDS,
    PREFIX,
    SECRET_FILES,
    Given,
    flag_of,
    read_environment,
    read_flags,
    read_secret,
    read_toml,
    typed,
    variable_of,
)

__all__ = [
    "FIELDS",
    "PREFIX",
    "SECRET_FILES",
    "DeadLetterBody",
    "LogFormat",
    "LogLevel",
    "Partitioner",
    "SaslMechanism",
    "Secret",
    "SecurityProtocol",
    "Settings",
    "SettingsError",
    "Values",
    "flag_of",
    "policy_from",
    "variable_of",
]

DEFAULT_ORIGIN = "default"


class SettingsError(ConfigurationError):
    """Settings that cannot be used; correct each of ``problems`` and start again.

    Args:
        problems: One line a problem, each naming its setting; no secrets.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Settings(Values, frozen=True, kw_only=True):
    """Every setting, resolved.

    Args:
        sasl_password: From ``sasl_password_file``, else ``PATHGATE_SASL_PASSWORD``.
        ssl_key_password: From its file, else the environment.
        args_digest_key: From its file, else the environment.
        origins: Setting -> what gave it (flag, variable, file, ``default``).
    """

    sasl_password: Secret | None = None
    ssl_key_password: Secret | None = None
    args_digest_key: Secret | None = None
    origins: dict[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fills in the names that follow from ``app_id``."""
        if not self.client_id:
            msgspec.structs.force_setattr(self, "client_id", self.app_id)
        if not self.topic_control:
            name = f"{self.app_id}-control"
            msgspec.structs.force_setattr(self, "topic_control", name)

    @classmethod
    def load(
        cls,
        flags: Mapping[str, object],
        env: Mapping[str, str],
        toml_path: Path | None = None,
    ) -> Self:
        """The effective settings.

        Args:
            flags: Setting -> value of the command line; None if not given.
            env: The environment; names without the prefix are left alone.
            toml_path: The settings file, or None.

        Returns:
            The settings, with the origin of each.

        Raises:
            SettingsError: An unknown name, a value of the wrong type or out of
                bounds, an unreadable file or an impossible combination. All
                that is wrong is reported at once.
        """
        problems: list[str] = []
        given: dict[str, Given] = {
            **read_toml(toml_path, problems),
            **read_environment(env, problems),
            **read_flags(flags, problems),
        }
        values: dict[str, object] = {}
        for name in FIELDS.keys() & given.keys():
            try:
                values[name] = typed(name, given[name])
            except ValueError as error:
                problems.append(str(error))
        values.setdefault("data_dir", _state_home(env))
        typed_values = msgspec.convert(values, Values)
        secrets = {
            name: _secret(name, getattr(typed_values, file), given, problems)
            for name, file in SECRET_FILES.items()
        }
        problems += find_problems(typed_values, secrets)
        if problems:
            raise SettingsError(tuple(sorted(problems)))
        origins = dict.fromkeys(FIELDS, DEFAULT_ORIGIN) | {
            name: one.origin for name, one in given.items()
        }
        return cls(**values, **secrets, origins=origins)  # type: ignore[arg-type]  # each was typed by its field above

    def severity_of(self, kind: AlertKind) -> Severity:
        """The severity that alerts of a kind carry."""
        severity: Severity = getattr(self, "severity_" + kind.value.replace("-", "_"))
        return severity

    def find_warnings(self) -> list[str]:
        """What works and is still unwise; one line each."""
        return find_warnings(self)


def _secret(
    name: str, file: str, given: Mapping[str, Given], problems: list[str]
) -> Secret | None:
    data = read_secret(name, file, given.get(name), problems)
    return None if data is None else Secret(data)


def _state_home(env: Mapping[str, str]) -> str:
    """Where tables are kept unless told otherwise: below the XDG state home."""
    home = env.get("XDG_STATE_HOME") or f"{env.get('HOME', '.')}/.local/state"
    return str(Path(home) / "pathgate")


def policy_from(settings: Settings) -> Policy:
    """The part of the settings that grading follows."""
    return Policy(
        attribution=settings.attribution,
        aggregation=settings.aggregation,
        default_pass_score=settings.default_pass_score,
        missing_budget=settings.missing_budget,
        require_call_evidence=settings.require_call_evidence,
        max_calls_per_trial=settings.max_calls_per_trial,
    )
