"""Settings: precedence, origins, every problem at once, secrets unseen."""

from pathlib import Path

import msgspec
import pytest

from schemas.records import AlertKind, Severity
from streams.core.policy import (
    Aggregation,
    Attribution,
    CallEvidence,
    MissingBudget,
    Policy,
)
from streams.settings import (
    FIELDS,
    SECRET_FILES,
    LogLevel,
    Partitioner,
    Secret,
    Settings,
    SettingsError,
    flag_of,
    policy_from,
    variable_of,
)
from streams.settings.fields import Values

HOME = {"HOME": "/home/ann"}

# Word for word what the design promises to who sets nothing.
DEFAULTS = {
    "bootstrap_servers": "127.0.0.1:9092",
    "app_id": "pathgate",
    "topic_tool_called": "agent.tool-called",
    "topic_eval_started": "eval.started",
    "topic_eval_scored": "eval.scored",
    "topic_eval_completed": "eval.completed",
    "topic_run_terminal": "run.terminal",
    "topic_events": "",
    "topic_suite_definition": "eval.suite-definition",
    "topic_task_summary": "eval.task-summary",
    "topic_suite_summary": "eval.suite-summary",
    "topic_gate_alert": "eval.gate-alert",
    "topic_dead_letter": "eval.dead-letter",
    "topic_control": "pathgate-control",
    "partitions": 6,
    "replication_factor": 3,
    "min_insync_replicas": 2,
    "attribution": "sequence",
    "aggregation": "mean",
    "default_pass_score": None,
    "missing_budget": "closed",
    "require_call_evidence": "alert",
    "partitioner": "murmur2",
    "host_verdict_grace_s": 2.0,
    "run_idle_timeout_s": 3600.0,
    "late_window_s": 86_400.0,
    "closed_retention_s": 2_592_000.0,
    "late_start_window_s": 1200.0,
    "max_calls_per_trial": 100_000,
    "dead_letter_body": "none",
    "barrier_interval_s": 0.1,
    "tick_interval_s": 1.0,
    "commit_interval_s": 1.0,
    "chunk_records": 2000,
    "cache_runs": 20_000,
    "data_dir": "/home/ann/.local/state/pathgate",
    "standby_replicas": 0,
    "session_timeout_s": 15.0,
    "web_host": "127.0.0.1",
    "web_port": 8321,
    "log_level": "INFO",
    "log_format": "json",
    "ssl_check_hostname": True,
}


def load(
    flags: dict[str, object] | None = None,
    env: dict[str, str] | None = None,
    toml_path: Path | None = None,
) -> Settings:
    return Settings.load(flags or {}, HOME | (env or {}), toml_path)


def problems_of(
    flags: dict[str, object] | None = None,
    env: dict[str, str] | None = None,
    toml_path: Path | None = None,
) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(flags, env, toml_path)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return caught.value.problems


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_bytes(b"hush-hush-hush-hush\n")
    return path


# ------------------------------------------------------------------ precedence


@pytest.mark.parametrize(("name", "value"), DEFAULTS.items())
def test_setting_has_its_default(name: str, value: object) -> None:
    """Who sets nothing gets what the design promises, with that origin."""
    settings = load()
    assert getattr(settings, name) == value
    assert settings.origins[name] == "default"


def test_flags_go_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    """The nearest source wins, and its name is kept."""
    file = tmp_path / "pathgate.toml"
    file.write_text("partitions = 2\nchunk_records = 2\ncache_runs = 2\n")
    env = {"PATHGATE_PARTITIONS": "3", "PATHGATE_CHUNK_RECORDS": "3"}
    settings = load({"partitions": "4", "cache_runs": None}, env, file)
    found = {
        name: (getattr(settings, name), settings.origins[name])
        for name in ("partitions", "chunk_records", "cache_runs", "web_port")
    }
    assert found == {
        "partitions": (4, "--partitions"),
        "chunk_records": (3, "PATHGATE_CHUNK_RECORDS"),
        "cache_runs": (2, str(file)),
        "web_port": (8321, "default"),
    }


def test_empty_variable_counts_as_not_set() -> None:
    """Compose files hand on variables that nobody set as empty ones."""
    settings = load(env={"PATHGATE_PARTITIONS": "", "PATHGATE_APP_ID": ""})
    assert (settings.partitions, settings.app_id) == (6, "pathgate")


def test_names_of_others_pass() -> None:
    """Tests, Faust, the development broker and the file's own name are no settings."""
    env = {
        "PATHGATE_TEST_BOOTSTRAP": "x",
        "PATHGATE_FAUST_DEBUG": "1",
        "PATHGATE_KAFKA_CACHE": "/c",
        "PATHGATE_CONFIG": "/etc/pathgate.toml",
        "OTHER_PARTITIONS": "9",
    }
    assert load(env=env) == load()


def test_state_is_kept_below_the_xdg_state_home() -> None:
    """The XDG variable wins over the home directory."""
    assert load(env={"XDG_STATE_HOME": "/state"}).data_dir == "/state/pathgate"


def test_names_that_follow_from_the_app_id() -> None:
    """Two deployments on one cluster do not read each other's control topic."""
    settings = load({"app_id": "blue"})
    assert (settings.topic_control, settings.client_id) == ("blue-control", "blue")


def test_words_of_closed_lists_are_read_in_any_case() -> None:
    """A level or protocol in the other case is meant as it is spelt here."""
    env = {
        "PATHGATE_LOG_LEVEL": "debug",
        "PATHGATE_PARTITIONER": "CRC32",
        "PATHGATE_SECURITY_PROTOCOL": "plaintext",
    }
    settings = load(env=env)
    assert settings.log_level is LogLevel.DEBUG
    assert settings.partitioner is Partitioner.CRC32


# -------------------------------------------------------------------- problems


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    """One start tells all that has to be corrected, each with its source."""
    file = tmp_path / "pathgate.toml"
    file.write_text('late_widow_s = 5\nweb_port = "x"\n')
    problems = problems_of(
        {"partitons": 3, "chunk_records": "0"},
        {"PATHGATE_APPID": "x", "PATHGATE_AGGREGATION": "mode"},
        file,
    )
    assert problems == tuple(
        sorted(
            (
                "partitons: no such setting (did you mean partitions?)",
                "--chunk-records: expected an integer >= 1, got '0'",
                "PATHGATE_APPID: no such setting (did you mean PATHGATE_APP_ID?)",
                "PATHGATE_AGGREGATION: expected one of mean, median, min, got 'mode'",
                f"{file}: late_widow_s: no such setting (did you mean late_window_s?)",
                f"{file}: web_port: expected an integer, got 'x'",
            )
        )
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partitions", "six"),
        ("partitions", "6.5"),
        ("partitions", "0"),
        ("replication_factor", "0"),
        ("default_pass_score", "1.1"),
        ("default_pass_score", "nan"),
        ("default_pass_score", "-0.1"),
        ("late_window_s", "inf"),
        ("late_window_s", "0"),
        ("host_verdict_grace_s", "-1"),
        ("barrier_interval_s", "0"),
        ("session_timeout_s", "5"),
        ("web_port", "65536"),
        ("ssl_check_hostname", "maybe"),
        ("severity_gate_closed", "loud"),
        ("sasl_mechanism", "GSSAPI"),
        ("dead_letter_body", "all"),
    ],
)
def test_value_out_of_bounds_is_an_error_that_names_the_variable(
    name: str, value: str
) -> None:
    """No bound is open: not-a-number and infinity are no durations."""
    (problem,) = problems_of(env={variable_of(name): value})
    assert problem.startswith(f"{variable_of(name)}: expected ")
    assert problem.endswith(f", got {value!r}")


def test_kubernetes_service_link_is_explained() -> None:
    """A service named pathgate makes variables that look like settings."""
    (problem,) = problems_of(env={"PATHGATE_PORT": "tcp://10.0.0.1:8321"})
    assert "enableServiceLinks: false" in problem


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"partitions = = 1\n", "not TOML: Invalid value (at line 1, column 14)"),
        (b"app_id = '\xff'\n", "not TOML: not UTF-8 at byte 10"),
    ],
)
def test_unreadable_file_is_one_problem(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    """A file that is no TOML is named with the place of its fault."""
    file = tmp_path / "pathgate.toml"
    file.write_bytes(content)
    assert problems_of(toml_path=file) == (f"{file}: {expected}",)


def test_missing_file_is_one_problem(tmp_path: Path) -> None:
    """A file that was named and is not there is no empty file."""
    file = tmp_path / "none.toml"
    expected = f"{file}: cannot be read: No such file or directory"
    assert problems_of(toml_path=file) == (expected,)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"bootstrap_servers": "kafka"}, "bootstrap_servers: expected host:port"),
        ({"bootstrap_servers": "k:9092,,l:1"}, "bootstrap_servers: expected host:port"),
        ({"bootstrap_servers": "k:0"}, "bootstrap_servers: expected host:port"),
        ({"bootstrap_servers": "k:65536"}, "bootstrap_servers: expected host:port"),
        ({"bootstrap_servers": "kafka://k:1"}, "expected host:port without a scheme"),
        ({"app_id": "a b"}, "app_id: expected"),
        ({"topic_prefix": "acme/"}, "topic_tool_called: expected a topic name"),
        ({"topic_gate_alert": "a" * 250}, "topic_gate_alert: expected a topic name"),
        ({"replication_factor": 1}, "min_insync_replicas: 2 is more than"),
        ({"closed_retention_s": 60}, "closed_retention_s: 60 is less than"),
        ({"run_idle_timeout_s": 2}, "host_verdict_grace_s: 2 must be less than"),
    ],
)
def test_combination_that_cannot_work_is_an_error(
    flags: dict[str, object], expected: str
) -> None:
    """What would fail later, or lose a verdict, fails at the start."""
    assert any(expected in problem for problem in problems_of(flags))


@pytest.mark.parametrize(
    "server", ["[::1]:9092", "kafka-0.kafka.svc:9092", "10.0.0.1:1"]
)
def test_server_addresses_are_taken(server: str) -> None:
    """Names, IPv4 and IPv6 in brackets."""
    assert load({"bootstrap_servers": server}).bootstrap_servers == server


# -------------------------------------------------------------------- security


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism: needed with"),
        ({"security_protocol": "SASL_SSL"}, "sasl_username: needed with"),
        ({"security_protocol": "SASL_SSL"}, "sasl_password_file: needed with"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism: has no use with"),
        ({"sasl_username": "ann"}, "sasl_username: has no use with"),
        ({"ssl_ca_file": "ca.crt"}, "ssl_ca_file: has no use with"),
        (
            {"security_protocol": "SSL", "ssl_cert_file": __file__},
            "ssl_key_file: needed with ssl_cert_file",
        ),
        (
            {"security_protocol": "SSL", "ssl_key_file": __file__},
            "ssl_cert_file: needed with ssl_key_file",
        ),
        (
            {"security_protocol": "SSL", "ssl_ca_file": "/nowhere/ca.crt"},
            "ssl_ca_file: /nowhere/ca.crt: no such file",
        ),
        (
            {"security_protocol": "SSL", "ssl_key_password_file": __file__},
            "ssl_key_password_file: has no use without ssl_key_file",
        ),
    ],
)
def test_security_that_is_not_whole_is_an_error(
    flags: dict[str, object], expected: str
) -> None:
    """Half a login or half a certificate never connects in the clear instead."""
    assert any(expected in problem for problem in problems_of(flags))


def test_password_in_the_clear_is_a_warning(secret_file: Path) -> None:
    """PLAIN without TLS works and is said to be unwise."""
    settings = load(
        {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "ann",
            "sasl_password_file": str(secret_file),
        }
    )
    (warning,) = settings.find_warnings()
    assert "in the clear" in warning


def test_unchecked_host_names_are_a_warning() -> None:
    """TLS without host names is said to be unwise; with them nothing is said."""
    tls: dict[str, object] = {"security_protocol": "SSL"}
    (warning,) = load(tls | {"ssl_check_hostname": "false"}).find_warnings()
    assert "ssl_check_hostname=false" in warning
    assert load(tls).find_warnings() == []


def test_user_information_in_an_address_is_not_repeated() -> None:
    """What stands before an @ may be a password, so the error leaves it out."""
    (problem,) = problems_of({"bootstrap_servers": "ann:pw-1234@kafka:9092"})
    assert "pw-1234" not in problem


# --------------------------------------------------------------------- secrets


def test_secret_comes_from_its_file_first(secret_file: Path) -> None:
    """The file wins over the variable; its line end is no part of the secret."""
    env = {
        "PATHGATE_ARGS_DIGEST_KEY_FILE": str(secret_file),
        "PATHGATE_ARGS_DIGEST_KEY": "another-key-of-the-environment",
    }
    key = load(env=env).args_digest_key
    assert key == Secret(b"hush-hush-hush-hush")


def test_secret_comes_from_the_environment_without_a_file() -> None:
    """The variable of the secret itself is the second choice."""
    settings = load(env={"PATHGATE_ARGS_DIGEST_KEY": "0123456789abcdef"})
    assert settings.args_digest_key == Secret(b"0123456789abcdef")
    assert settings.origins["args_digest_key"] == "PATHGATE_ARGS_DIGEST_KEY"


@pytest.mark.parametrize("name", SECRET_FILES)
def test_secret_is_never_a_flag_nor_in_the_file(name: str, tmp_path: Path) -> None:
    """A secret that was given there is refused and not repeated."""
    file = tmp_path / "pathgate.toml"
    file.write_text(f'{name} = "hush-hush"\n')
    problems = problems_of({name: "hush-hush"}, None, file)
    assert len(problems) == 2
    assert "hush" not in "".join(problems)
    assert all(SECRET_FILES[name] in problem.replace("-", "_") for problem in problems)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "No such file or directory"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"short", "expected at least 16 bytes"),
    ],
)
def test_secret_file_that_cannot_be_used_is_an_error(
    tmp_path: Path, content: bytes | None, expected: str
) -> None:
    """A key that is missing, empty or short protects nothing."""
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    (problem,) = problems_of({"args_digest_key_file": str(file)})
    assert problem.startswith("args_digest_key_file: ")
    assert problem.endswith(expected)


def test_password_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    """Its bytes are not in the error."""
    file = tmp_path / "password"
    file.write_bytes(b"\xff\xfe")
    problems = problems_of(
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "ann",
            "sasl_password_file": str(file),
        }
    )
    assert problems == ("sasl_password_file: expected UTF-8 text",)


@pytest.mark.parametrize(
    ("variable", "value", "flags", "expected"),
    [
        ("SASL_PASSWORD", "hush", {}, "has no use with security_protocol=PLAINTEXT"),
        (
            "SASL_PASSWORD",
            "hush\udcff",
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_username": "ann",
            },
            "expected UTF-8 text",
        ),
        ("SSL_KEY_PASSWORD", "hush", {}, "has no use without ssl_key_file"),
        ("ARGS_DIGEST_KEY", "hush", {}, "expected at least 16 bytes"),
    ],
)
def test_secret_of_the_environment_is_named_by_its_variable(
    variable: str, value: str, flags: dict[str, object], expected: str
) -> None:
    """Whoever gave the variable has given no file, and knows none."""
    (problem,) = problems_of(flags, {f"PATHGATE_{variable}": value})
    assert problem.startswith(f"PATHGATE_{variable}: {expected}")
    assert "hush" not in problem


def test_secret_hides_itself(secret_file: Path) -> None:
    """Neither the settings' repr nor any way of printing shows a secret."""
    settings = load({"args_digest_key_file": str(secret_file)})
    secret = settings.args_digest_key
    assert secret is not None
    shown = [repr(settings), repr(secret), str(secret), f"{secret}", f"{secret!r}"]
    assert not any("hush" in text for text in shown)
    with pytest.raises(TypeError, match="secret"):
        secret.__reduce__()


# ------------------------------------------------------------- the whole table


@pytest.mark.parametrize("name", FIELDS)
def test_setting_says_what_it_does(name: str) -> None:
    """The table of settings, the flags' help and the schema come of this text."""
    (properties,) = (
        definition["properties"]
        for key, definition in msgspec.json.schema(Values)["$defs"].items()
        if key == "Values"
    )
    assert properties[name]["description"].endswith(".")


@pytest.mark.parametrize("kind", AlertKind)
def test_alert_kind_has_a_severity(kind: AlertKind) -> None:
    """Each kind of alert has a setting of its own, and it is the one used."""
    name = "severity_" + kind.value.replace("-", "_")
    assert load({name: "info"}).severity_of(kind) is Severity.INFO
    assert load({name: "critical"}).severity_of(kind) is Severity.CRITICAL


def test_policy_follows_the_settings() -> None:
    """Defaults are the policy's own; each choice of an operator arrives."""
    assert policy_from(load()) == Policy()
    chosen = load(
        {
            "attribution": "node",
            "aggregation": "min",
            "default_pass_score": "0.25",
            "missing_budget": "open",
            "require_call_evidence": "closed",
            "max_calls_per_trial": 7,
        }
    )
    assert policy_from(chosen) == Policy(
        attribution=Attribution.NODE,
        aggregation=Aggregation.MIN,
        default_pass_score=0.25,
        missing_budget=MissingBudget.OPEN,
        require_call_evidence=CallEvidence.CLOSED,
        max_calls_per_trial=7,
    )


def test_settings_are_frozen() -> None:
    """Nothing changes a setting after the start."""
    with pytest.raises(AttributeError):
        load().partitions = 7  # type: ignore[misc]  # that it cannot is the point


def test_spellings_of_a_setting() -> None:
    """One name, three spellings."""
    assert flag_of("late_window_s") == "--late-window-s"
    assert variable_of("late_window_s") == "PATHGATE_LATE_WINDOW_S"
