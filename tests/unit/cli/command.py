"""Runs the command line in this process, or in one of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streams.cli import run
from tests.factories import Log, task

ROOT = Path(__file__).parents[3]
STEPS = {"steps": [{"tool": "lookup"}, {"tool": "refund"}], "forbidden": ["wire_*"]}


class Ended(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str


def call(
    capfd: pytest.CaptureFixture[str],
    *arguments: str,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Runs a command line here, with nothing in the environment but ``env``."""
    capfd.readouterr()
    code = run(arguments, {"HOME": "/home/ann"} | dict(env or {}))
    out, err = capfd.readouterr()
    return Ended(code, out, err)


def command_of(*arguments: str) -> list[str]:
    """The command line of a process of its own."""
    return [sys.executable, "-m", "streams.cli", *arguments]


def clean_env(**more: str) -> dict[str, str]:
    """The environment of a process of its own, without settings of ours."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PATHGATE_")}
    return kept | {"PYTHONPATH": str(ROOT)} | more


def spawn(arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Starts a command line as a process of its own."""
    options.setdefault("env", clean_env())
    return subprocess.Popen(
        command_of(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        **options,
    )


def write_suites(folder: Path, **thresholds: object) -> Path:
    """A directory with one suite of one task, its bar 0.7."""
    suites = folder / "suites"
    suites.mkdir(exist_ok=True)
    document = {
        "suiteId": "acme.evals.refunds",
        "version": "1.0.0",
        "modes": ["golden"],
        "thresholds": {"passScore": 0.7} | thresholds,
        "tasks": [task("refund", STEPS)],
    }
    (suites / "refunds.json").write_text(json.dumps(document))
    return suites


def good_log(run_id: str = "acme/run-000000000001") -> Log:
    """A run on its path, score 0.9."""
    log = Log(run=run_id).start().calls("lookup", "refund").score("refund", 0.9)
    return log.completed(0.9).end()


def bad_log(run_id: str = "acme/run-000000000002") -> Log:
    """A run with the same score, by a forbidden tool; RFC 0244 would pass it."""
    log = Log(run=run_id).start().calls("lookup", "wire_x").score("refund", 0.9)
    return log.completed(0.9).end()


def write_log(path: Path, *logs: Log, extra: Sequence[bytes] = ()) -> str:
    """An NDJSON file of whole logs, then lines of any kind."""
    lines = [line for log in logs for line in log.lines]
    path.write_bytes(b"".join(line + b"\n" for line in [*lines, *extra]))
    return str(path)
