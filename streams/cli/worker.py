"""``pathgate worker``: the stream processors."""

import asyncio

from streams.cli.exit_codes import ExitCode
from streams.cli.options import settings_command
from streams.cli.terminal import Terminal
from streams.errors import PathgateError
from streams.logs import configure, get_logger
from streams.serve import serve
from streams.settings import Settings


@settings_command(
    "worker",
    shown=(
        "bootstrap_servers",
        "app_id",
        "suites_dir",
        "data_dir",
        "web_host",
        "web_port",
        "log_level",
        "log_format",
    ),
    codes=(
        ExitCode.OK,
        ExitCode.USAGE,
        ExitCode.BROKER,
        ExitCode.INTERNAL,
        ExitCode.CONFIGURATION,
    ),
    examples=(
        "pathgate worker --bootstrap-servers kafka:9092 --suites suites/",
        "pathgate worker --config /etc/pathgate/pathgate.toml",
        "PATHGATE_LOG_FORMAT=console pathgate worker --late-window-s 3600",
    ),
    help="Read events from Kafka, grade each run as it completes, publish task and"
    " suite summaries. Ends with 0 after SIGTERM or SIGINT and a clean drain."
    " Every setting of `pathgate config show` is a flag too.",
)
def worker(_terminal: Terminal, *, settings: Settings) -> ExitCode:
    """Runs a worker until it is told to stop."""
    configure(settings.log_level, settings.log_format)
    try:
        asyncio.run(serve(settings))
    except PathgateError:
        raise
    except Exception:  # noqa: BLE001 - whatever it was, the log line names its place
        get_logger(__name__).critical("worker_crashed", exc_info=True)
        return ExitCode.INTERNAL
    return ExitCode.OK
