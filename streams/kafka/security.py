"""Client options of aiokafka from the settings, a ready TLS context included."""

import ssl
from typing import Any

from streams.settings import Settings, SettingsError


def security_context(settings: Settings) -> ssl.SSLContext | None:
    """The TLS context, certificates loaded; None where no TLS is used.

    Certificates that are replaced on disk need a restart.

    Raises:
        SettingsError: A certificate, key or password that cannot be used;
            names the setting.
    """
    if not settings.security_protocol.uses_tls:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ssl_ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise _unusable("ssl_ca_file", settings.ssl_ca_file, error) from None
    context.check_hostname = settings.ssl_check_hostname
    if settings.ssl_cert_file:
        password = settings.ssl_key_password
        try:
            context.load_cert_chain(
                settings.ssl_cert_file,
                settings.ssl_key_file,
                # A key with a password would be asked for on the terminal.
                password.reveal if password else lambda: b"",
            )
        except (OSError, ssl.SSLError) as error:
            files = f"{settings.ssl_cert_file}, {settings.ssl_key_file}"
            raise _unusable("ssl_cert_file, ssl_key_file", files, error) from None
    return context


def _unusable(setting: str, file: str, error: OSError) -> SettingsError:
    why = error.strerror or getattr(error, "reason", None) or type(error).__name__
    return SettingsError((f"{setting}: {file}: cannot be used: {why}",))


def principal_of(settings: Settings) -> str:
    """Who the brokers take the client for, as far as its settings say."""
    user = settings.sasl_username
    return f"User:{user}" if user else "this client"


def client_options(settings: Settings) -> dict[str, Any]:
    """What every aiokafka client takes: servers, name, security.

    Returns:
        Keyword arguments of ``AIOKafkaConsumer``, ``AIOKafkaProducer`` and
        ``AIOKafkaClient``. Holds the password in the clear: pass it on at
        once, log it never.

    Raises:
        SettingsError: As ``security_context``.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": [
            server.strip() for server in settings.bootstrap_servers.split(",")
        ],
        "client_id": settings.client_id,
        "security_protocol": settings.security_protocol.value,
        "ssl_context": security_context(settings),
    }
    if settings.security_protocol.uses_sasl and settings.sasl_mechanism is not None:
        password = settings.sasl_password
        options["sasl_mechanism"] = settings.sasl_mechanism.value
        options["sasl_plain_username"] = settings.sasl_username
        options["sasl_plain_password"] = password.reveal_text() if password else ""
    return options
