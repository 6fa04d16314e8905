"""The rights on the brokers: three forms of one list, and no more than is needed."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from deploy.acl import acls
from deploy.acl.acls import User, users_from
from streams.settings import Settings
from streams.topics import Role, table_from

# (user, kind, name, is prefix, operation)
Right = tuple[str, str, str, bool, str]
DEFAULTS = Settings.load({}, {})


def rights_of(users: tuple[User, ...]) -> set[Right]:
    return {
        (user.name, grant.kind, grant.name, grant.is_prefix, operation)
        for user in users
        for grant in user.grants
        for operation in grant.operations
    }


def rights_of_script(text: str) -> set[Right]:
    """What the calls of ``allow`` in the script grant."""
    found = set()
    for line in text.replace("\\\n", " ").splitlines():
        if not line.startswith("allow "):
            continue
        _, user, *words = shlex.split(line)
        pairs = list(zip(words[::2], words[1::2], strict=True))
        [pattern] = [v for k, v in pairs if k == "--resource-pattern-type"]
        operations = [v for k, v in pairs if k == "--operation"]
        for kind in ("topic", "group"):
            for name in (v for k, v in pairs if k == f"--{kind}"):
                found |= {
                    (user, kind, name, pattern == "prefixed", o) for o in operations
                }
    return found


def rights_of_strimzi(text: str) -> set[Right]:
    """What the KafkaUsers grant."""
    found = set()
    for document in yaml.safe_load_all(text):
        for acl in document["spec"]["authorization"]["acls"]:
            resource = acl["resource"]
            for operation in acl["operations"]:
                found.add(
                    (
                        document["metadata"]["name"],
                        resource["type"],
                        resource["name"],
                        resource["patternType"] == "prefix",
                        operation,
                    )
                )
    return found


def rights_of_table(text: str) -> set[Right]:
    """What the rows of the README's table say."""
    found = set()
    user = ""
    rows = text.partition(acls.BEGIN)[2].partition(acls.END)[0].strip().splitlines()
    for row in rows[2:]:
        who, _, may, where = (cell.strip() for cell in row.strip("|").split("|"))
        user = who.strip("`") or user
        kind = where.split()[0]
        for name in re.findall(r"`([^`]+)`", where):
            for operation in may.split(", "):
                bare = name.removesuffix("*")
                found.add((user, kind, bare, name.endswith("*"), operation))
    return found


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("acl/kafka-acls.sh", rights_of_script),
        ("acl/kafka-users.yaml", rights_of_strimzi),
        ("README.md", rights_of_table),
    ],
)
def test_each_form_grants_the_list(root: Path, name: str, read: object) -> None:
    """Script, Strimzi users and table say the same as the list, no more, no less."""
    assert callable(read)
    text = (root / "deploy" / name).read_text(encoding="utf-8")
    assert read(text) == rights_of(users_from(DEFAULTS))


def test_committed_files_are_current() -> None:
    """They are what the list writes: ``python -m deploy.acl.acls write``."""
    stale = [
        path.name
        for path, text in acls.files_from(users_from(DEFAULTS)).items()
        if path.read_text(encoding="utf-8") != text
    ]
    assert stale == []


def test_worker_has_no_way_to_change_the_cluster() -> None:
    """Neither Create nor Alter nor Delete, for it or for anyone but the provisioner."""
    for user, kind, name, is_prefix, operation in rights_of(users_from(DEFAULTS)):
        assert operation in {
            "Read",
            "Write",
            "Describe",
            "DescribeConfigs",
            "Create",
        }
        if operation == "Create":
            assert user == "pathgate-topics"
        assert kind in {"topic", "group"}
        assert name not in {"", "*"}
        # A prefix ends where another word begins, or covers versions only.
        if is_prefix and kind == "topic":
            assert name.endswith("-")


def test_worker_reads_what_it_reads_and_writes_what_it_writes() -> None:
    """By the topics' roles: sources are read, outputs written, its own topics both.

    Suite summaries are read back too: of a run that is the baseline of another.
    """
    worker = users_from(DEFAULTS)[0]

    def operations(topic: str) -> set[str]:
        return {
            operation
            for grant in worker.grants
            if grant.kind == "topic"
            and (
                topic.startswith(grant.name) if grant.is_prefix else topic == grant.name
            )
            for operation in grant.operations
        }

    look = {"Describe", "DescribeConfigs"}
    expected = {
        Role.SOURCE: look | {"Read"},
        Role.OUTPUT: look | {"Write"},
        Role.INTERNAL: look | {"Read", "Write"},
    }
    for spec in table_from(DEFAULTS):
        wanted = set(expected[spec.role])
        if spec.setting == "topic_suite_summary":
            wanted.add("Read")
        assert operations(spec.name) == wanted, spec.name


def test_names_follow_the_settings() -> None:
    """With names of one's own the rights are on those, and on no default name."""
    settings = Settings.load(
        {
            "app_id": "gate",
            "topic_prefix": "eu.",
            "topic_events": "openwop.events",
            "topic_control": "ticks",
        },
        {},
    )
    found = rights_of(users_from(settings))
    topics = {name for _, kind, name, _, _ in found if kind == "topic"}
    assert "eu.openwop.events" in topics
    assert "eu.ticks" in topics
    assert "gate-" in topics
    assert not {"agent.tool-called", "pathgate-", "eval.scored"} & topics
    groups = {
        name for user, kind, name, _, _ in found if (user, kind) == ("gate", "group")
    }
    assert groups == {"gate", "gate-v"}


def test_forms_of_other_names_agree_too() -> None:
    """The three writers are equal for any names, not for the defaults alone."""
    settings = Settings.load({"app_id": "gate", "topic_prefix": "eu."}, {})
    users = users_from(settings)
    expected = rights_of(users)
    assert rights_of_script(acls.script_of(users)) == expected
    assert rights_of_strimzi(acls.strimzi_of(users)) == expected
    table = f"{acls.BEGIN}\n{acls.table_of(users)}{acls.END}"
    assert rights_of_table(table) == expected


def test_a_difference_would_be_seen() -> None:
    """The readers of the forms are alive: one operation less is another set."""
    users = users_from(DEFAULTS)
    whole = rights_of(users)
    script = acls.script_of(users).replace("--operation Write", "--operation Read", 1)
    assert rights_of_script(script) != whole
    strimzi = acls.strimzi_of(users).replace(
        "patternType: prefix", "patternType: literal", 1
    )
    assert rights_of_strimzi(strimzi) != whole


def test_command_line_prints_each_form(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A settings file of one's own gives the forms for its names."""
    # The tests' own variable, which no program of the project reads.
    monkeypatch.delenv("PATHGATE_TOOLS_CACHE", raising=False)
    config = tmp_path / "my.toml"
    config.write_text('app_id = "gate"\n', encoding="utf-8")
    for form in ("script", "strimzi", "table"):
        assert acls.main([form, "--config", str(config)]) == 0
        assert "gate-topics" in capsys.readouterr().out
