"""``config`` and ``doctor``: what is set, where from, and what works."""

import json
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from streams.settings import FIELDS, SECRET_FILES, Settings
from tests.unit.cli.command import call, write_suites

HUSH = "hush-hush-hush-hush"


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    path = tmp_path / "key"
    path.write_text(HUSH + "\n")
    return str(path)


# ---------------------------------------------------------------------- config


def test_config_show_lists_each_setting_with_its_origin(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Name, value, origin; flags, variables, the file and defaults are told apart."""
    file = tmp_path / "pathgate.toml"
    file.write_text("chunk_records = 100\n")
    env = {"PATHGATE_APP_ID": "blue", "PATHGATE_CONFIG": str(file)}
    flags = ("--late-window-s", "3600", "--format", "json")
    told = json.loads(call(capfd, "config", "show", *flags, env=env).out)
    assert list(told) == [*FIELDS, *SECRET_FILES]
    found = {name: (one["value"], one["origin"]) for name, one in told.items()}
    assert found["late_window_s"] == (3600.0, "--late-window-s")
    assert found["app_id"] == ("blue", "PATHGATE_APP_ID")
    assert found["chunk_records"] == (100, str(file))
    assert found["web_port"] == (8321, "default")
    assert all(one["about"].endswith(".") for one in told.values())


def test_config_show_as_text_is_four_columns(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """One line a setting; what is not set says so."""
    ended = call(capfd, "config", "show", env={"PATHGATE_WEB_PORT": "1"})
    rows = [line.split("  ") for line in ended.out.splitlines()]
    cells = {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}
    assert list(cells) == [*FIELDS, *SECRET_FILES]
    assert cells["web_port"][:2] == ["1", "PATHGATE_WEB_PORT"]
    assert cells["default_pass_score"] == [
        "(not set)",
        "default",
        "Bar for suites that declare none.",
    ]
    assert cells["closed_retention_s"][:2] == ["2592000", "default"]


@pytest.mark.parametrize("style", ["text", "json", "toml"])
def test_config_show_hides_secrets(
    capfd: pytest.CaptureFixture[str], key_file: str, style: str
) -> None:
    """That there is one is told; what it is never."""
    env = {"PATHGATE_ARGS_DIGEST_KEY_FILE": key_file}
    ended = call(capfd, "config", "show", "--format", style, env=env)
    assert ended.code == 0
    assert "hush" not in ended.out + ended.err
    if style != "toml":
        assert "***" in ended.out


def test_config_show_as_toml_is_a_settings_file(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What it prints, read back, gives the same settings, and meets the schema."""
    env = {"PATHGATE_APP_ID": "blue", "PATHGATE_DEFAULT_PASS_SCORE": "0.5"}
    ended = call(capfd, "config", "show", "--format", "toml", env=env)
    file = tmp_path / "pathgate.toml"
    file.write_text(ended.out)
    again = Settings.load({}, {"HOME": "/home/bob"}, file)
    before = Settings.load({}, env | {"HOME": "/home/ann"})
    assert {name: getattr(again, name) for name in FIELDS} == {
        name: getattr(before, name) for name in FIELDS
    }
    schema = json.loads(call(capfd, "config", "schema").out)
    jsonschema_rs.validator_for(schema).validate(tomllib.loads(ended.out))


@pytest.mark.parametrize(
    "document",
    [{"late_widow_s": 1}, {"web_port": 70_000}, {"aggregation": "mode"}],
)
def test_config_schema_refuses_what_loading_refuses(
    capfd: pytest.CaptureFixture[str], document: dict[str, object]
) -> None:
    """An editor marks what the start would."""
    schema = json.loads(call(capfd, "config", "schema").out)
    assert not jsonschema_rs.validator_for(schema).is_valid(document)


def test_warning_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    """The output stays data."""
    flags = ("--security-protocol", "SSL", "--ssl-check-hostname", "false")
    ended = call(capfd, "config", "show", *flags)
    assert ended.code == 0
    assert ended.err.startswith("pathgate: warning: ssl_check_hostname=false: ")


# ---------------------------------------------------------------------- doctor


def findings_of(out: str) -> dict[str, tuple[str, str]]:
    told = json.loads(out)["findings"]
    return {one["name"]: (one["status"], one["detail"]) for one in told}


def test_doctor_looks_on_where_something_is_wrong(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """No broker: 69, and all the rest is told nevertheless."""
    env = {
        "PATHGATE_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "PATHGATE_SUITES_DIR": str(write_suites(tmp_path)),
        "HOME": str(tmp_path),
    }
    ended = call(capfd, "doctor", "--format", "json", env=env)
    found = findings_of(ended.out)
    assert ended.code == 69
    assert found["python"][0] == "ok"
    assert found["settings"] == ("ok", "2 given, the others by default")
    assert found["suites"] == ("ok", "1 suite in ~/suites")
    assert found["data_dir"][0] == "ok"
    assert found["data_dir"][1].startswith("~/.local/state/pathgate will be made, ")
    assert found["brokers"][0] == "fail"
    assert found["brokers"][1].startswith("127.0.0.1:1: ")


def test_doctor_takes_the_flags_of_a_worker(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What a worker was started with can be looked at as it was typed."""
    flags = (
        *(
            "--bootstrap-servers",
            "127.0.0.1:1",
            "--suites",
            str(write_suites(tmp_path)),
        ),
        *("--replication-factor", "1", "--min-insync-replicas", "1"),
        *("--late-window-s", "7200"),
    )
    ended = call(capfd, "doctor", *flags, "--format", "json")
    found = findings_of(ended.out)
    assert ended.code == 69
    assert found["settings"] == ("ok", "5 given, the others by default")
    assert found["suites"][0] == "ok"
    assert found["brokers"][1].startswith("127.0.0.1:1: ")


def test_doctor_tells_a_flag_that_cannot_be_used(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A finding as any other: the rest is told all the same."""
    ended = call(capfd, "doctor", "--replication-factor", "none")
    assert ended.code == 78
    assert "--replication-factor" in ended.out
    assert "aiokafka" in ended.out


def test_doctor_tells_every_problem_of_the_settings(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """78, one row a problem; versions are told all the same."""
    env = {"PATHGATE_X": "1", "PATHGATE_WEB_PORT": "x"}
    ended = call(capfd, "doctor", env=env)
    assert ended.code == 78
    failed = [row for row in ended.out.splitlines() if row.startswith("fail")]
    assert len(failed) == 2
    assert "PATHGATE_WEB_PORT" in ended.out
    assert "aiokafka" in ended.out


def test_doctor_tells_suites_that_cannot_be_used(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A configuration error weighs more than an absent broker."""
    (tmp_path / "a.json").write_text("{")
    env = {
        "PATHGATE_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "PATHGATE_SUITES_DIR": str(tmp_path),
    }
    ended = call(capfd, "doctor", "--format", "json", env=env)
    assert ended.code == 78
    assert findings_of(ended.out)["suites"][0] == "fail"


def test_doctor_shows_no_secret_and_no_home(
    capfd: pytest.CaptureFixture[str], key_file: str
) -> None:
    """Its output can be pasted into a bug report."""
    home = str(Path(key_file).parent)
    env = {
        "HOME": home,
        "PATHGATE_ARGS_DIGEST_KEY_FILE": key_file,
        "PATHGATE_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "PATHGATE_SASL_PASSWORD": HUSH,
    }
    for style in ("text", "json"):
        ended = call(capfd, "doctor", "--format", style, env=env)
        assert "hush" not in ended.out + ended.err
        assert home not in ended.out + ended.err
