"""What stops pathgate, as opposed to what is wrong with an event."""


class PathgateError(Exception):
    """Base of the errors that end a command or a worker; the text says why."""


class InputError(PathgateError):
    """Something named on the command line cannot be read; correct it."""


class OutputError(PathgateError):
    """What a command has to say cannot be written; make room, or name another place."""


class ConfigurationError(PathgateError):
    """Settings, suites or topics that cannot be used; correct what is named."""


class BrokerUnavailableError(PathgateError):
    """No broker answered; start one, or correct ``bootstrap_servers``."""


class AccessDeniedError(ConfigurationError):
    """The brokers answered and refused; correct the user or grant the right."""
