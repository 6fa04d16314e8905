"""The closed lists of values that settings take."""

from enum import StrEnum


class SecurityProtocol(StrEnum):
    """Kafka's ``security.protocol``."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def uses_sasl(self) -> bool:
        """Whether a user is named."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class SaslMechanism(StrEnum):
    """Kafka's ``sasl.mechanism``, those that need a user and a password."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class Partitioner(StrEnum):
    """Which hash of the key the hosts' producers use."""

    MURMUR2 = "murmur2"
    CRC32 = "crc32"


class DeadLetterBody(StrEnum):
    """What a dead letter's value is."""

    NONE = "none"
    RAW = "raw"


class LogLevel(StrEnum):
    """Least level that is logged."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


class LogFormat(StrEnum):
    """How log lines look: for machines or for a person."""

    JSON = "json"
    CONSOLE = "console"
