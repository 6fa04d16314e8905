"""The file grader, and the bare loop that is its limit, on one log file.

The bare loop decodes the same lines to the same types and looks at nothing.
Says ``bare-N`` and ``replay-N`` at the beginning of each round, and ``end``.
"""

from pathlib import Path

import msgspec

from schemas.errors import DecodeError
from schemas.events import Envelope, EvalScored, ToolCalled
from streams.collector import tune_collector
from streams.replay import FileGrader, open_log, read_lines
from tests.benchmarks.job import read_job, say
from tests.benchmarks.outputs import context_of


def bare_loop(path: str) -> int:
    """Decodes every event of a log; how many."""
    envelope = msgspec.json.Decoder(Envelope).decode
    payloads = {
        "agent.tool-called": msgspec.json.Decoder(ToolCalled).decode,
        "eval.scored": msgspec.json.Decoder(EvalScored).decode,
    }
    count = 0
    with open_log(path) as stream:
        for lines in read_lines(stream, path):
            for line in lines:
                event = envelope(line.data or b"")
                read = payloads.get(event.type)
                if read is not None:
                    read(event.payload)
                count += 1
    return count


def replay(path: str, suites_dir: str) -> int:
    """Grades a log; how many events."""

    def reject(_source: str, number: int, error: DecodeError) -> None:
        raise ValueError(f"line {number} was rejected: {error}")

    with FileGrader(context_of(Path(suites_dir)), reject) as grader:
        with open_log(path) as stream:
            for lines in read_lines(stream, path):
                grader.add(path, lines)
        for _ in grader.finish():
            pass
        return grader.events


def run() -> None:
    """Runs both in turns."""
    # As the command does.
    tune_collector()
    job = read_job()
    path = f"{job.home}/log.ndjson"
    for number in range(int(job.settings["rounds"])):
        say(f"bare-{number}")
        counts = [bare_loop(path)]
        say(f"replay-{number}")
        counts.append(replay(path, job.suites_dir))
        if counts != [job.events, job.events]:
            raise ValueError(f"read {counts} events of {job.events}")
    say("end")


if __name__ == "__main__":
    run()
