"""What stops pathgate, as opposed to what is wrong with an event."""


class PathgateError(Exception):
    """Base of the errors that end a command or a worker; the text says why."""
