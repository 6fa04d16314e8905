"""Why no connection to the brokers came about; their clients only log it."""

from typing import Any

from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from streams.errors import AccessDeniedError, BrokerUnavailableError, PathgateError

REQUEST_TIMEOUT_S = 10.0
_REFUSALS = (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)


async def diagnose(options: dict[str, Any]) -> PathgateError:
    """Why no connection came about: the clients themselves only log it.

    Args:
        options: As from ``client_options``.

    Returns:
        ``AccessDeniedError`` where a server refused the user, else
        ``BrokerUnavailableError`` with each address and its reason.
    """
    servers = options["bootstrap_servers"]
    rest = {k: v for k, v in options.items() if k != "bootstrap_servers"}
    protocol = rest["security_protocol"]
    reasons = []
    for host, port, _family in collect_hosts(servers):
        try:
            connection = await create_conn(
                host, port, request_timeout_ms=int(REQUEST_TIMEOUT_S * 1000), **rest
            )
            try:
                # A listener that wants a user answers the first request alone.
                await connection.send(MetadataRequest([]))
            finally:
                connection.close()
            reasons.append(f"{host}:{port}: answered at the second try; try again")
        except _REFUSALS as error:
            return AccessDeniedError(_refusal(f"{host}:{port}", error, rest))
        except (KafkaError, OSError, TimeoutError) as error:
            reasons.append(f"{host}:{port}: {_why(error, protocol)}")
    return BrokerUnavailableError("; ".join(reasons))


def _refusal(address: str, error: KafkaError, options: dict[str, Any]) -> str:
    mechanism = options.get("sasl_mechanism")
    if isinstance(error, SaslAuthenticationFailed | AuthenticationFailedError):
        user = options.get("sasl_plain_username")
        return f"{address} refused the user {user!r} or its password ({mechanism})"
    return (
        f"{address} does not take {mechanism} there ({type(error).__name__}); are"
        " security_protocol and sasl_mechanism what the broker has at this port?"
    )


def _why(error: Exception, protocol: str) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {REQUEST_TIMEOUT_S:g} s"
    text = getattr(error, "verify_message", None) or getattr(error, "strerror", None)
    if text and not isinstance(error, KafkaError):
        return str(text)
    return (
        f"the connection was closed while it was set up ({type(error).__name__}); is"
        f" security_protocol={protocol} what the broker speaks at this port?"
    )
