"""Log lines: one form for all loggers, and never any content."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from schemas.errors import DecodeError
from streams.logs import REMOVED, configure, get_logger
from streams.settings import LogFormat, LogLevel

SAID = "the customer said XYZZY"


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Puts the process-wide logging back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level


def lines_of(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail_in_two_steps() -> None:
    try:
        int(SAID)
    except ValueError as error:
        raise KeyError(SAID) from error


@pytest.fixture
def stream() -> io.StringIO:
    out = io.StringIO()
    configure(LogLevel.INFO, LogFormat.JSON, out)
    return out


def test_line_holds_event_facts_level_logger_and_time(stream: io.StringIO) -> None:
    """One JSON object a line, with the time in UTC."""
    get_logger("streams.x").info("run_closed", run_id="acme/r", took_s=0.5)
    (line,) = lines_of(stream)
    at = str(line.pop("timestamp"))
    assert at.endswith("Z")
    assert line == {
        "event": "run_closed",
        "level": "info",
        "logger": "streams.x",
        "run_id": "acme/r",
        "took_s": 0.5,
    }


@pytest.mark.parametrize("key", ["inputs", "payload", "value", "body", "outputs"])
def test_content_is_blanked(stream: io.StringIO, key: str) -> None:
    """A fact under a name that content goes by never shows."""
    get_logger("streams.x").warning("odd", **{key: SAID})
    (line,) = lines_of(stream)
    assert line[key] == REMOVED


def test_text_of_a_foreign_error_is_left_out(stream: io.StringIO) -> None:
    """A parser's message may quote the document: types and frames stay."""
    try:
        fail_in_two_steps()
    except KeyError:
        get_logger("streams.x").exception("crashed")
    (line,) = lines_of(stream)
    assert line["error_type"] == "KeyError from ValueError"
    assert line["error"] is None
    assert "test_logs.py" in str(line["frames"])
    assert "XYZZY" not in stream.getvalue()


def test_text_of_our_own_error_is_kept(stream: io.StringIO) -> None:
    """It says where and what was expected, never what stood there."""
    error = DecodeError("$.payload.score", "expected a number")
    get_logger("streams.x").error("event_dead_lettered", exc_info=error)
    (line,) = lines_of(stream)
    assert line["error"] == "$.payload.score: expected a number"


def test_libraries_write_the_same_form(stream: io.StringIO) -> None:
    """Their warnings are lines like ours, errors in them without their text."""
    logging.getLogger("faust.agents").error("agent raised: %r", ValueError(SAID))
    (line,) = lines_of(stream)
    assert (line["event"], line["logger"]) == (
        "agent raised: 'ValueError'",
        "faust.agents",
    )
    assert "XYZZY" not in stream.getvalue()


def test_traceback_of_a_library_is_left_out(stream: io.StringIO) -> None:
    """What it logs with an exception shows types and frames only."""
    try:
        fail_in_two_steps()
    except KeyError:
        logging.getLogger("mode").exception("crashed")
    (line,) = lines_of(stream)
    assert line["error_type"] == "KeyError from ValueError"
    assert "XYZZY" not in stream.getvalue()


def test_narration_of_libraries_is_left_out(stream: io.StringIO) -> None:
    """At INFO they tell every rebalance; known noise is dropped at any level."""
    logging.getLogger("aiokafka.consumer").info("joined")
    logging.getLogger("faust").error("has not sent fetch request for TP since start")
    assert lines_of(stream) == []


def test_debug_lets_libraries_speak() -> None:
    """Who asks for everything gets it."""
    out = io.StringIO()
    configure(LogLevel.DEBUG, LogFormat.JSON, out)
    logging.getLogger("aiokafka.consumer").info("joined")
    assert [line["event"] for line in lines_of(out)] == ["joined"]


def test_console_form_is_for_a_person() -> None:
    """No JSON, no colour where no terminal is."""
    out = io.StringIO()
    configure(LogLevel.INFO, LogFormat.CONSOLE, out)
    get_logger("streams.x").info("run_closed", run_id="acme/r")
    assert "run_closed" in out.getvalue()
    assert "run_id=acme/r" in out.getvalue()
    assert "\x1b" not in out.getvalue()
