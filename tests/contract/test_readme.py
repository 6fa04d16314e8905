"""What the READMEs and the runbook say is so: commands, output, links, paths, names."""

import ast
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import click
import pytest

from deploy.kafka.broker import default_data
from schemas.reasons import RunReason
from streams.cli import root as pathgate
from streams.cli import run
from streams.metrics import CATALOGUE, sample_names
from streams.settings import FIELDS, PREFIX, Settings, variable_of

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "deploy/README.md", "deploy/runbook.md")
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
MAIN, DEPLOY = TEXTS["README.md"], TEXTS["deploy/README.md"]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")

# Not settings: headers of records, thresholds of rules, events of the log.
OTHER_NAMES = {
    "ce_id",
    "changelog_not_repaired",
    "changelog_written_by_another",
    "closed_ratio",
    "closed_runs",
    "event_dead_lettered",
}


def fences(text: str, language: str) -> list[str]:
    """The fenced blocks of one language, in order, without their fences."""
    return [found[2] for found in FENCE.finditer(text) if found[1] == language]


def spans(text: str) -> list[str]:
    """What stands in backticks within the prose and the tables."""
    return [" ".join(one.split()) for one in SPAN.findall(FENCE.sub("", text))]


def commands(block: str) -> list[str]:
    """A shell block's commands, without comments and here-documents."""
    bare = re.sub(r"<<'EOF'.*?^EOF$", "", block, flags=re.MULTILINE | re.DOTALL)
    lines = bare.replace("\\\n", " ").splitlines()
    return [
        " ".join(parts) for line in lines if (parts := shlex.split(line, comments=True))
    ]


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings make."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}


def invocations(text: str) -> list[list[str]]:
    """Every call of ``pathgate`` that a page shows, its words after the name."""
    shown = [one for block in fences(text, "sh") for one in commands(block)]
    parts = [part.split() for one in [*shown, *spans(text)] for part in one.split("&&")]
    return [p[1:] for p in parts if p and p[0].rpartition("/")[2] == "pathgate"]


def unknown_in(words: list[str]) -> str | None:
    """The first word that is no command, or no option of the one before it."""
    command: click.Command = pathgate
    # As the program makes them: a command remembers its first help option.
    context = click.Context(command, **command.context_settings)
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return words[0]
        command, words = found, words[1:]
        context = click.Context(command, parent=context, **command.context_settings)
    options = {opt for param in command.get_params(context) for opt in param.opts}
    flags = (word.partition("=")[0] for word in words if word.startswith("--"))
    return next((flag for flag in flags if flag not in options), None)


# ------------------------------------------------------------ what can be run


def test_first_screen_is_what_the_gate_runs() -> None:
    """The demo and the tests: the gate runs the very same, with the same arguments."""
    first, second = commands(fences(MAIN, "sh")[0])
    gate = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "\nvenv=${PATHGATE_VENV:-.venv}\npython=$venv/bin/python\n" in gate
    steps = [
        line.partition('" ')[2].replace('"', "")
        for line in gate.splitlines()
        if line.startswith("step ")
    ]
    ours = [
        one.replace(".venv/bin/python", "$python").replace(".venv", "$venv")
        for one in (first.rpartition(" && ")[2], second)
    ]
    assert ours == ["$venv/bin/pathgate demo", "$python -m pytest"]
    assert [one for one in steps if one in ours] == ours
    assert first.startswith("python3 -m venv .venv && .venv/bin/pip install -e .[dev] ")


def test_demo_excerpt_is_what_demo_prints(capfd: pytest.CaptureFixture[str]) -> None:
    """One whole run, to the letter: from its verdict to the empty line after it."""
    (excerpt,) = fences(MAIN.partition("<!-- demo:")[2], "text")
    assert run(["demo"], {}) == 0
    out = capfd.readouterr().out
    assert excerpt.startswith("NOT PASSED  acme/")
    assert f"\n{excerpt}\n" in out


def test_commands_on_the_sample_run_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In a copy of the sample: 1 for the four that compare, 0 for the check."""
    shutil.copytree(ROOT / "streams/sample", tmp_path / "sample")
    monkeypatch.chdir(tmp_path / "sample")
    section = MAIN.partition("## Grade a log")[2].partition("\n## ")[0]
    (block,) = fences(section, "sh")
    codes = [run(shlex.split(one)[1:], {}) for one in commands(block)]
    assert [1, 1, 1, 1, 0] == codes
    assert "pathgate: " not in capfd.readouterr().err


def test_broker_and_worker_share_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker refuses a directory that holds anything else, the broker's included."""
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    worker = Path(Settings.load({}, {"HOME": "/home/ann"}).data_dir)
    kafka = default_data()
    assert worker.parent == kafka.parent
    assert not kafka.is_relative_to(worker)
    assert not worker.is_relative_to(kafka)


def test_python_in_the_readme_compiles() -> None:
    """The host's part, which the reader pastes."""
    (script,) = re.findall(r"<<'EOF'\n(.*?)^EOF$", MAIN, re.MULTILINE | re.DOTALL)
    assert "publish" in {getattr(node, "name", None) for node in ast.parse(script).body}


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_flag_exists(page: str) -> None:
    """Each ``pathgate ...`` that is shown names commands and options that are there."""
    shown = invocations(TEXTS[page])
    assert shown
    assert {} == {" ".join(one): bad for one in shown if (bad := unknown_in(one))}


# ------------------------------------------------------------ what is named


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    """File and heading exist; the page itself where only a heading is named."""
    broken = []
    for target, anchor in LINK.findall(TEXTS[page]):
        path = (ROOT / page).parent / target if target else ROOT / page
        if not path.exists() or (
            anchor and anchor not in anchors(path.read_text(encoding="utf-8"))
        ):
            broken.append(f"{target}#{anchor}")
    assert [] == broken


@pytest.mark.parametrize("page", PAGES)
def test_every_path_named_exists(page: str) -> None:
    """From the root or from the page's folder; a bare module anywhere in the code."""
    words = {word for span in spans(TEXTS[page]) for word in span.split()}
    named = {
        word
        for word in words
        if PATH.fullmatch(word) and ("/" in word or word.endswith(".py"))
    } - {".venv/bin/activate"}
    shown = "\n".join(fences(TEXTS[page], "sh"))
    named |= set(re.findall(r"\b(?:deploy|schemas|streams|tests)/[\w./*-]+", shown))
    sources = (ROOT / "streams", ROOT / "schemas", ROOT / "deploy")
    missing = [
        word
        for word in named
        if not any((ROOT / page).parent.glob(word))
        and not any(ROOT.glob(word))
        and not ("/" not in word and any(p for s in sources for p in s.rglob(word)))
    ]
    assert [] == missing


def test_every_part_of_the_layout_exists() -> None:
    """Folders of the layout, and the modules that stand behind each."""
    section = MAIN.partition("## Layout")[2]
    rows: dict[str, str] = {}
    folder = ""
    for line in fences(section, "")[0].splitlines():
        folder = line[:19].strip() or folder
        rows[folder] = f"{rows.get(folder, '')} {line[19:]}"
    assert all((ROOT / folder).is_dir() for folder in rows)
    for folder in ("streams/core/", "streams/agents/", "streams/"):
        bare = re.sub(r"\([^)]*\)", "", rows[folder]).replace("pure:", "")
        modules = [one.strip() for one in bare.split(",") if one.strip()]
        assert len(modules) >= 5
        for one in modules:
            path = ROOT / folder / one
            assert path.is_dir() or path.with_suffix(".py").is_file(), one


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_and_metric_named_exists(page: str) -> None:
    """Names with underscores are settings, metrics, or of the short list above."""
    metrics = {name for metric in CATALOGUE for name in sample_names(metric)}
    known = {*FIELDS, *metrics, *OTHER_NAMES}
    words = {
        re.split(r"[={]", span)[0]
        for span in spans(TEXTS[page])
        if re.match(r"[a-z0-9]+_[a-z0-9_]+(?:[={].*)?$", span)
    }
    assert words
    assert set() == words - known


@pytest.mark.parametrize("page", PAGES)
def test_every_variable_named_exists(page: str) -> None:
    """``PATHGATE_...`` is a setting's, the settings file's, or read by a file here."""
    ours = {variable_of(name) for name in FIELDS} | {f"{PREFIX}CONFIG"}
    elsewhere = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("tests", "deploy")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in {".py", ".yaml"} and path != Path(__file__)
    )
    for name in set(re.findall(rf"{PREFIX}[A-Z_]+\b", TEXTS[page])):
        assert name in ours or name in elsewhere, name


def test_reasons_named_exist() -> None:
    """The two reasons by which a host's faults close a run."""
    assert {"calls-dropped", "misrouted-events"} <= set(spans(MAIN)) & set(RunReason)


@pytest.mark.parametrize("block", fences(DEPLOY, "toml"))
def test_settings_files_shown_are_complete(block: str, tmp_path: Path) -> None:
    """Each loads without an error once the files it names are there."""
    shown = tomllib.loads(block)
    for name in [name for name in shown if name.endswith("_file")]:
        secret = tmp_path / Path(shown[name]).name
        secret.write_text("x", encoding="utf-8")
        block = block.replace(shown[name], str(secret))
    file = tmp_path / "pathgate.toml"
    file.write_text(block, encoding="utf-8")
    assert Settings.load({}, {}, file).security_protocol.endswith("SSL")
