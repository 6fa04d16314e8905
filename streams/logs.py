"""Log lines: facts under fixed names, on stderr, and never any content."""

import logging
import sys
import traceback
from collections.abc import MutableMapping
from types import TracebackType
from typing import Any, TextIO

import structlog

from schemas.errors import SchemaError
from streams.errors import PathgateError
from streams.settings import LogFormat, LogLevel

# Names under which a caller might log what an agent was told or said.
CONTENT_KEYS = frozenset(
    {
        "args",
        "arguments",
        "body",
        "data",
        "inputs",
        "outcome",
        "outputs",
        "payload",
        "prompt",
        "value",
    }
)
REMOVED = "(removed)"
# Libraries that narrate each rebalance and fetch; below this they say nothing
# unless everything is asked for.
_LIBRARIES = ("aiokafka", "faust", "mode", "kafka", "asyncio", "aiohttp")
# Faust warns about partitions that it paused itself (changelogs), after every
# rebalance.
_NOISE = "has not sent fetch request"
# Their text is ours: where and what was expected, never a payload's.
_OWN_ERRORS = (PathgateError, SchemaError)

_EventDict = MutableMapping[str, Any]
_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def configure(level: LogLevel, style: LogFormat, stream: TextIO = sys.stderr) -> None:
    """Sends all log lines, the libraries' too, to one stream in one form.

    Args:
        level: Least level that is logged; the libraries' at least WARNING,
            unless it is DEBUG.
        style: ``json``, one object a line, or ``console`` for a person.
        stream: Where they go.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        remove_content,
        name_error,
    ]
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if style is LogFormat.CONSOLE:
        renderer = structlog.dev.ConsoleRenderer(colors=stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.addFilter(_admit)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.value)
    # Never DEBUG: aiokafka then logs whole responses, and with them content.
    quiet = LogLevel.INFO if level is LogLevel.DEBUG else LogLevel.WARNING
    for library in _LIBRARIES:
        logging.getLogger(library).setLevel(quiet.value)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger; its lines are an event's name and facts as keys."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def remove_content(_logger: Any, _method: str, event: _EventDict) -> _EventDict:
    """Blanks what stands under a name that content goes by."""
    for key in CONTENT_KEYS & event.keys():
        event[key] = REMOVED
    return event


def name_error(_logger: Any, _method: str, event: _EventDict) -> _EventDict:
    """Replaces an exception by its types and frames.

    The text of an exception may quote what was being read, so it is kept only
    where the exception is our own.
    """
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    if isinstance(info, BaseException):
        info = (type(info), info, info.__traceback__)
    if not info or info[1] is None:
        return event
    event["error_type"], event["error"] = _describe(info[1])
    event["frames"] = [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(info[2])
    ]
    return event


def _describe(error: BaseException) -> tuple[str, str | None]:
    names = [type(error).__qualname__]
    text = str(error) if isinstance(error, _OWN_ERRORS) else None
    cause = error.__cause__ or error.__context__
    while cause is not None and len(names) < 8:
        names.append(type(cause).__qualname__)
        cause = cause.__cause__ or cause.__context__
    return " from ".join(names), text


def _admit(record: logging.LogRecord) -> bool:
    """Whether a record is worth a line; names the errors in its arguments."""
    if isinstance(record.args, tuple):
        record.args = tuple(_without_text(arg) for arg in record.args)
    return _NOISE not in str(record.msg)


def _without_text(argument: object) -> object:
    if isinstance(argument, BaseException):
        names, text = _describe(argument)
        return names if text is None else f"{names}: {text}"
    return argument
