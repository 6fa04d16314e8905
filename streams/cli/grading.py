"""Log files to verdicts: what ``replay``, ``audit``, ``demo`` and ``impact`` share."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from schemas.errors import DecodeError
from streams.cli.exit_codes import ExitCode, exit_code_for
from streams.cli.progress import show_progress
from streams.cli.step_summary import StepSummary
from streams.cli.terminal import Terminal
from streams.collector import tune_collector
from streams.core.context import Context
from streams.errors import ConfigurationError, InputError
from streams.render import Format, RunView, Totals, make_renderer, view_of
from streams.render.figures import count_of, visible
from streams.replay import FileGrader, GradedRun, ReadError, open_log, read_lines
from streams.settings import Settings, policy_from
from streams.suites import compile_suites, digester_from, load_directory

# The settings that change a verdict; the others have no use over files.
GRADING = (
    "attribution",
    "aggregation",
    "default_pass_score",
    "missing_budget",
    "require_call_evidence",
    "args_digest_key_file",
    "max_calls_per_trial",
)
CODES = (
    ExitCode.OK,
    ExitCode.NOT_PASSED,
    ExitCode.USAGE,
    ExitCode.UNDECIDED,
    ExitCode.INTERNAL,
    ExitCode.CONFIGURATION,
)
_TOLD_REJECTIONS = 10


def context_of(settings: Settings) -> Context:
    """What grading needs, suites included.

    Raises:
        ConfigurationError: No directory of suites was given.
        SuitesError: Its suites cannot be used.
    """
    if not settings.suites_dir:
        raise ConfigurationError(
            "no suites to grade against: give --suites DIR, or suites_dir"
        )
    digester = digester_from(settings)
    loaded = load_directory(Path(settings.suites_dir))
    return Context(
        policy=policy_from(settings),
        digester=digester,
        suites=compile_suites(loaded, digester),
    )


class Rejections:
    """The lines that were no events: counted, and the first of them kept."""

    def __init__(self) -> None:
        self._codes: Counter[str] = Counter()
        self._told: list[str] = []

    def add(self, source: str, line: int, error: DecodeError) -> None:
        """Counts one; the signature is ``FileGrader``'s."""
        self._codes[str(error.code)] += 1
        if len(self._told) < _TOLD_REJECTIONS:
            self._told.append(f"  {visible(source)}:{line}: {error} ({error.code})")

    @property
    def count(self) -> int:
        """How many there were."""
        return self._codes.total()

    def tell(self, terminal: Terminal) -> None:
        """Says on stderr which lines were left out and why; silent if none."""
        if not self.count:
            return
        kinds = ", ".join(f"{n} {code}" for code, n in self._codes.most_common())
        terminal.note(f"{count_of(self.count, 'event')} rejected: {kinds}")
        for line in self._told:
            terminal.note(line)
        if self.count > len(self._told):
            terminal.note(f"  and {self.count - len(self._told)} more")


class Tally:
    """The verdicts of the runs, the newest of each."""

    def __init__(self) -> None:
        self._verdicts: dict[str, tuple[bool, bool]] = {}

    def add(self, view: RunView) -> None:
        """Counts a run, over an earlier record of it."""
        run_id = view.suite.run_id
        self._verdicts[run_id] = (view.passed, view.suite.legacy_passed)

    def totals(self, rejections: Rejections) -> Totals:
        """The totals, and whether they answer the question."""
        verdicts = self._verdicts.values()
        undecided = []
        if rejections.count:
            undecided.append(f"{count_of(rejections.count, 'event')} rejected")
        if not verdicts:
            undecided.append("nothing was graded")
        return Totals(
            passed=sum(passed for passed, _ in verdicts),
            not_passed=sum(not passed for passed, _ in verdicts),
            changed=sum(legacy and not passed for passed, legacy in verdicts),
            undecided=", ".join(undecided),
        )


def read_all(
    grader: FileGrader,
    files: list[str],
    terminal: Terminal,
    follow: Callable[[], bool] | None = None,
) -> None:
    """Feeds logs to a grader, one after the other.

    Args:
        grader: Takes their lines.
        files: Paths, ``-`` for standard input.
        terminal: For the progress bar.
        follow: As of ``read_lines``.

    Raises:
        InputError: A log cannot be opened, or not read to its end.
    """
    tune_collector()
    read_bytes = 0
    is_watched = terminal.shows_progress
    with show_progress(terminal, files) as advance:
        for file in files:
            try:
                with open_log(file) as stream:
                    for lines in read_lines(
                        stream, file, follow=follow, idle=terminal.flush
                    ):
                        grader.add(file, lines)
                        if is_watched:
                            read_bytes += sum(
                                len(line.data or b"") + 1 for line in lines
                            )
                            advance(read_bytes, grader.events)
            except ReadError as error:
                raise InputError(str(error)) from error


def grade_files(
    context: Context, files: list[str], terminal: Terminal, rejections: Rejections
) -> Iterator[GradedRun]:
    """The final records of every run of some logs, by run id.

    Raises:
        InputError: As ``read_all``.
    """
    with FileGrader(context, rejections.add) as grader:
        read_all(grader, files, terminal)
        yield from grader.finish()


def print_runs(
    runs: Iterator[GradedRun],
    rejections: Rejections,
    terminal: Terminal,
    style: Format,
    *,
    tasks: bool = False,
) -> ExitCode:
    """Writes graded runs in a format, then says what was rejected.

    Args:
        runs: Each run once.
        rejections: What could not be read, complete once ``runs`` is spent.
        terminal: Where to.
        style: The format.
        tasks: As of ``make_renderer``.

    Returns:
        The exit code of the verdicts.
    """
    renderer = make_renderer(style, colour=terminal.colours_data, tasks=tasks)
    # In a workflow the page of the run shows what is appended to this file.
    page = terminal.env.get("GITHUB_STEP_SUMMARY") if style is Format.GITHUB else None
    with StepSummary(page) as summary:
        tally = Tally()
        terminal.write(renderer.start())
        for run in runs:
            view = view_of(run.record, run.tasks)
            tally.add(view)
            terminal.write(renderer.run(view))
            summary.add(view)
        totals = tally.totals(rejections)
        terminal.write(renderer.end(totals))
        summary.end(totals)
    terminal.flush()
    rejections.tell(terminal)
    if style is Format.JSON:
        terminal.note(str(totals))
    return exit_code_for(not_passed=totals.not_passed, undecided=totals.undecided)
