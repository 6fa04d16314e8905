"""Grades event logs from files, with the core that the worker runs."""

from streams.replay.grader import FileGrader, GradedRun
from streams.replay.reader import Line, ReadError, open_log, read_lines

__all__ = [
    "FileGrader",
    "GradedRun",
    "Line",
    "ReadError",
    "open_log",
    "read_lines",
]
