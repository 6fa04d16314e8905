"""The AsyncAPI document, as AsyncAPI's own parser and Spectral's rules see it.

The contract tests hold the document against our code; these hold it against the
standard: its structure, the Kafka bindings and the references. Neither tool checks
the examples, which the contract tests do. The parser's rules that merely warn are for
AsyncAPI 2, so for this document its complaints are errors; Spectral has the warnings.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

Check = Callable[[Path], subprocess.CompletedProcess[str]]

SCHEMAS = Path(__file__).parents[3] / "schemas"


def plant(folder: Path, *faults: tuple[str, str]) -> Path:
    """A copy of the document in ``folder`` in which each ``(old, new)`` was replaced.

    The schemas that it refers to are beside it.
    """
    for path in SCHEMAS.glob("*.schema.json"):
        shutil.copy(path, folder)
    text = (SCHEMAS / "asyncapi.yaml").read_text(encoding="utf-8")
    for old, new in faults:
        assert old in text, f"there is nothing to replace: {old!r}"
        text = text.replace(old, new, 1)
    planted = folder / "asyncapi.yaml"
    planted.write_text(text, encoding="utf-8")
    return planted


def test_parser_has_no_complaint(parse: Check) -> None:
    """The parser has neither an error nor a warning."""
    done = parse(SCHEMAS / "asyncapi.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_parser_rejects(parse: Check, tmp_path: Path) -> None:
    """The parser is alive: it finds an action that there is not."""
    done = parse(plant(tmp_path, ("action: receive", "action: listen")))
    assert done.returncode == 1, done.stderr
    [problem] = done.stdout.splitlines()
    assert problem.startswith("error asyncapi-document-resolved")
    assert "operations.receiveToolCalled.action" in problem


def test_rules_have_no_complaint(lint: Check) -> None:
    """No rule of style is broken, those apart that the ruleset leaves out."""
    done = lint(SCHEMAS / "asyncapi.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_reject(lint: Check, tmp_path: Path) -> None:
    """The rules are alive: one of Spectral's, and each of ours, finds its fault."""
    planted = plant(
        tmp_path,
        ("  license:\n    name: Apache-2.0\n", ""),
        ("    summary: Reads calls.\n", ""),
        ("      headers:\n        type: object\n", "      headers:\n"),
    )
    schema = tmp_path / "dead-letter.schema.json"
    text = schema.read_text(encoding="utf-8")
    assert text.count('"type": "object"') >= 1
    schema.write_text(text.replace('"type": "object",', "", 1), encoding="utf-8")

    done = lint(planted)

    assert done.returncode == 1, done.stderr
    for rule in (
        "asyncapi-info-license",
        "pathgate-operation-summary",
        "pathgate-headers-type-object",
    ):
        assert rule in done.stdout, done.stdout
    # One of the two is the trait, the other the schema in a file of its own.
    assert done.stdout.count("pathgate-headers-type-object") == 2, done.stdout
