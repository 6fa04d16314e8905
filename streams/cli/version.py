"""The installed versions."""

from importlib.metadata import PackageNotFoundError, version


def version_of(distribution: str) -> str:
    """The version of an installed distribution, or ``not installed``."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


def pathgate_version() -> str:
    """The version of pathgate; ``not installed`` in a bare checkout."""
    return version_of("pathgate")
