"""The settings' security in Faust's words."""

import faust
from faust.types.auth import CredentialsT

from streams.kafka.security import security_context
from streams.settings import Settings


def faust_credentials(settings: Settings) -> CredentialsT | None:
    """What ``broker_credentials`` of a Faust app is; None without security.

    Raises:
        SettingsError: As ``security_context``.
    """
    context = security_context(settings)
    if settings.security_protocol.uses_sasl and settings.sasl_mechanism is not None:
        password = settings.sasl_password
        return faust.SASLCredentials(
            username=settings.sasl_username,
            password=password.reveal_text() if password else "",
            mechanism=settings.sasl_mechanism.value,
            ssl_context=context,
        )
    # Without a ready context this class fails with a TypeError.
    return None if context is None else faust.SSLCredentials(context)
