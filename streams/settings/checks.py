"""What must hold between settings, beyond the type of each."""

import re
from collections.abc import Iterator
from pathlib import Path

from streams.settings.choices import SaslMechanism, SecurityProtocol
from streams.settings.fields import Values
from streams.settings.secret import Secret
from streams.settings.sources import SECRET_FILES, variable_of

MIN_KEY_BYTES = 16
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
# A broker refuses longer names; room is left for Faust's suffixes.
MAX_TOPIC_LENGTH = 249
MAX_APP_ID_LENGTH = 200


def find_problems(values: Values, secrets: dict[str, Secret | None]) -> list[str]:
    """Every combination of settings that cannot work, in words that name them.

    Args:
        values: Each setting, typed.
        secrets: Secret -> its value or None.

    Returns:
        One line a problem; empty if there is none. No line holds a secret.
    """
    return [
        *_servers(values),
        *_names(values),
        *_sasl(values, secrets["sasl_password"]),
        *_tls(values, secrets["ssl_key_password"]),
        *_figures(values),
        *_digest_key(values, secrets["args_digest_key"]),
    ]


def find_warnings(values: Values) -> list[str]:
    """What works and is still unwise; one line each, for the log."""
    found = []
    if (
        values.security_protocol is SecurityProtocol.SASL_PLAINTEXT
        and values.sasl_mechanism is SaslMechanism.PLAIN
    ):
        found.append(
            "sasl_mechanism=PLAIN over security_protocol=SASL_PLAINTEXT sends the"
            " password in the clear; use SASL_SSL"
        )
    if values.security_protocol.uses_tls and not values.ssl_check_hostname:
        found.append(
            "ssl_check_hostname=false: any host with a trusted certificate can pose"
            " as the broker"
        )
    return found


def _given_name(secret: str, values: Values) -> str:
    """What gave a secret: the setting of its file, else its variable."""
    file = SECRET_FILES[secret]
    return file if getattr(values, file) else variable_of(secret)


def _servers(values: Values) -> Iterator[str]:
    for server in values.bootstrap_servers.split(","):
        entry = server.strip()
        if "@" in entry:
            # What stands before the @ may be a password.
            yield (
                "bootstrap_servers: holds user information; give sasl_username and"
                " sasl_password_file"
            )
        elif "://" in entry:
            yield f"bootstrap_servers: {entry}: expected host:port without a scheme"
        else:
            match = _SERVER.fullmatch(entry)
            if match is None or not 0 < int(match[2]) < 65536:
                yield f"bootstrap_servers: expected host:port, got {entry!r}"


def _names(values: Values) -> Iterator[str]:
    app_id = values.app_id
    if not _NAME.fullmatch(app_id) or len(app_id) > MAX_APP_ID_LENGTH:
        yield (
            f"app_id: expected 1 to {MAX_APP_ID_LENGTH} of letters, digits, '.', '_'"
            f" and '-', got {app_id!r}"
        )
    for field in values.__struct_fields__:
        name: str = getattr(values, field)
        if not field.startswith("topic_") or field == "topic_prefix":
            continue
        if not name and field in {"topic_events", "topic_control"}:
            continue
        whole = values.topic_prefix + name
        if (
            not _NAME.fullmatch(whole)
            or len(whole) > MAX_TOPIC_LENGTH
            or whole in {".", ".."}
            or not name
        ):
            yield (
                f"{field}: expected a topic name of letters, digits, '.', '_' and"
                f" '-', at most {MAX_TOPIC_LENGTH}, got {whole!r}"
            )


def _sasl(values: Values, password: Secret | None) -> Iterator[str]:
    protocol = values.security_protocol
    source = SECRET_FILES["sasl_password"]
    if password is not None:
        source = _given_name("sasl_password", values)
    parts = {
        "sasl_mechanism": values.sasl_mechanism is not None,
        "sasl_username": bool(values.sasl_username),
        source: password is not None or bool(values.sasl_password_file),
    }
    for name, is_given in parts.items():
        if protocol.uses_sasl and not is_given:
            yield f"{name}: needed with security_protocol={protocol}"
        elif is_given and not protocol.uses_sasl:
            yield (
                f"{name}: has no use with security_protocol={protocol};"
                " use SASL_SSL, or leave it out"
            )
    if password is not None:
        try:
            password.reveal_text()
        except ValueError:
            yield f"{source}: expected UTF-8 text"


def _tls(values: Values, key_password: Secret | None) -> Iterator[str]:
    protocol = values.security_protocol
    files = {
        "ssl_ca_file": values.ssl_ca_file,
        "ssl_cert_file": values.ssl_cert_file,
        "ssl_key_file": values.ssl_key_file,
    }
    for name, file in files.items():
        if file and not protocol.uses_tls:
            yield (
                f"{name}: has no use with security_protocol={protocol};"
                " use SSL or SASL_SSL, or leave it out"
            )
        elif file and not Path(file).is_file():
            yield f"{name}: {file}: no such file"
    if bool(values.ssl_cert_file) != bool(values.ssl_key_file):
        given, missing = ("ssl_cert_file", "ssl_key_file")
        if values.ssl_key_file:
            given, missing = missing, given
        yield f"{missing}: needed with {given}"
    if key_password is not None and not values.ssl_key_file:
        name = _given_name("ssl_key_password", values)
        yield f"{name}: has no use without ssl_key_file"


def _figures(values: Values) -> Iterator[str]:
    if values.min_insync_replicas > values.replication_factor:
        yield (
            f"min_insync_replicas: {values.min_insync_replicas} is more than"
            f" replication_factor={values.replication_factor}: no write would succeed"
        )
    if values.closed_retention_s < values.late_window_s:
        yield (
            f"closed_retention_s: {values.closed_retention_s:g} is less than"
            f" late_window_s={values.late_window_s:g}: a late event would start a"
            " closed run anew"
        )
    if values.host_verdict_grace_s >= values.run_idle_timeout_s:
        yield (
            f"host_verdict_grace_s: {values.host_verdict_grace_s:g} must be less than"
            f" run_idle_timeout_s={values.run_idle_timeout_s:g}"
        )


def _digest_key(values: Values, key: Secret | None) -> Iterator[str]:
    if key is not None and len(key.reveal()) < MIN_KEY_BYTES:
        name = _given_name("args_digest_key", values)
        yield f"{name}: expected at least {MIN_KEY_BYTES} bytes"
