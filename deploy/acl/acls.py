"""The rights on the brokers that each user of pathgate needs, from the topic table.

One list, written out in three forms that a test holds equal: a script of Kafka's
own tool, users for the Strimzi operator, and the table of ``deploy/README.md``.
From the project's root::

    python -m deploy.acl.acls write                    # all three, default names
    python -m deploy.acl.acls script --config my.toml  # for names of your own
    python -m deploy.acl.acls strimzi --config my.toml
    python -m deploy.acl.acls table
"""

import argparse
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streams.settings import Settings
from streams.topics import Role, TopicSpec, table_from

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN = "<!-- rights: written by deploy/acl/acls.py -->"
END = "<!-- end of rights -->"

_READ = ("Read", "Describe")
_WRITE = ("Write", "Describe")


@dataclass(frozen=True, kw_only=True)
class Grant:
    """Operations on one resource, in the authorizer's names.

    Args:
        kind: ``topic`` or ``group``.
        name: Of the resource, or what its name starts with.
        is_prefix: Whether ``name`` is the start of names.
        operations: What is allowed, at least one.
    """

    kind: str
    name: str
    is_prefix: bool = False
    operations: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class User:
    """One user of the brokers and all that it may do.

    Args:
        name: Of the principal; ``pathgate`` is ``User:pathgate``.
        purpose: What runs under it, for a person.
        grants: Its rights, topics in the order of the topic table.
    """

    name: str
    purpose: str
    grants: tuple[Grant, ...]


def users_from(settings: Settings) -> tuple[User, ...]:
    """The users and their rights for the names that the settings give.

    Each may do what its commands do and nothing else: no wildcard, no right on
    the cluster, and Create for the one that provisions. Transactional ids are
    not used, and topics are not deleted by anyone.
    """
    app_id = settings.app_id
    table = table_from(settings)
    sources = _of(table, Role.SOURCE)
    events = [spec for spec in sources if spec.setting != "topic_suite_definition"]
    suites = [spec for spec in sources if spec not in events]
    outputs = _of(table, Role.OUTPUT)
    runs = [s for s in outputs if s.setting == "topic_suite_summary"]
    summaries = [s for s in outputs if s.setting.endswith("_summary")]
    internal = _of(table, Role.INTERNAL)
    control = [spec for spec in internal if spec.setting == "topic_control"]
    tables = [spec for spec in internal if spec not in control]
    return (
        User(
            name=app_id,
            purpose="`pathgate worker`, `doctor`, `topics check`",
            grants=(
                *_grants(sources, *_READ, "DescribeConfigs"),
                *_grants(outputs, *_WRITE, "DescribeConfigs"),
                # Of a run that is the baseline of another.
                *_grants(runs, "Read"),
                *_internal(internal, app_id),
                Grant(kind="group", name=app_id, operations=_READ),
                # A later version of the tables has a group of its own, so named
                # by Faust; its changelogs fall under the topics' prefix.
                Grant(
                    kind="group",
                    name=f"{app_id}-v",
                    is_prefix=True,
                    operations=_READ,
                ),
            ),
        ),
        User(
            name=f"{app_id}-topics",
            purpose="`pathgate topics create`",
            grants=_grants(table, "Create", "Describe", "DescribeConfigs"),
        ),
        User(
            name=f"{app_id}-suites",
            purpose="`pathgate suites publish`",
            # Read, since a version that is published is not written over.
            grants=_grants(suites, "Read", *_WRITE),
        ),
        User(
            name=f"{app_id}-verify",
            purpose="`pathgate verify`, with `--repair` too; `replay --from-topics`",
            grants=(
                *_grants((*sources, *summaries, *tables), *_READ),
                *_grants(control, *_WRITE),
            ),
        ),
        User(
            name=f"{app_id}-host",
            purpose="an OpenWOP host that publishes run events",
            grants=_grants(events, *_WRITE),
        ),
        User(
            name=f"{app_id}-reader",
            purpose="a deployment gate or an alert receiver",
            grants=(
                *_grants(outputs[:-1], *_READ),
                Grant(
                    kind="group",
                    name=f"{app_id}-reader",
                    is_prefix=True,
                    operations=_READ,
                ),
            ),
        ),
    )


def _of(table: Iterable[TopicSpec], role: Role) -> list[TopicSpec]:
    return [spec for spec in table if spec.role is role]


def _grants(specs: Iterable[TopicSpec], *operations: str) -> tuple[Grant, ...]:
    return tuple(
        Grant(kind="topic", name=spec.name, operations=operations) for spec in specs
    )


def _internal(specs: Iterable[TopicSpec], app_id: str) -> tuple[Grant, ...]:
    """What the worker does with its own topics; one prefix covers most of them."""
    operations = ("Read", "Write", "Describe", "DescribeConfigs")
    prefix = f"{app_id}-"
    others = [spec for spec in specs if not spec.name.startswith(prefix)]
    return (
        Grant(kind="topic", name=prefix, is_prefix=True, operations=operations),
        *_grants(others, *operations),
    )


# ------------------------------------------------------------------- the forms

_SCRIPT_HEAD = """\
#!/usr/bin/env bash
# Grants the rights that pathgate's users need, and nothing else; repeatable.
#
#   kafka-acls.sh --bootstrap-server kafka:9093 --command-config admin.properties
#
# All arguments go to Kafka's tool of the same name, which KAFKA_ACLS names if it is
# elsewhere. USERS restricts it to some users: USERS="pathgate pathgate-topics".
# HOST allows them from one address only. Written by deploy/acl/acls.py.
set -euo pipefail

tool=${KAFKA_ACLS:-/opt/kafka/bin/kafka-acls.sh}
host=${HOST:-*}
users=" ${USERS:-@USERS@} "
connection=("$@")

allow() {
  local user=$1
  shift
  case $users in
    *" $user "*) ;;
    *) return 0 ;;
  esac
  "$tool" "${connection[@]}" --add --force \\
    --allow-principal "User:$user" --allow-host "$host" "$@"
}
"""


def script_of(users: Sequence[User]) -> str:
    """A shell script that makes Kafka's ``kafka-acls.sh`` grant the rights.

    Each run of that tool starts a JVM, so resources of one user with the same
    operations go into one call.
    """
    names = " ".join(user.name for user in users)
    lines = [_SCRIPT_HEAD.replace("@USERS@", names)]
    for user in users:
        lines.append(f"# {user.purpose}")
        lines += [_call(user, same) for same in _alike(user.grants)]
        lines.append("")
    return "\n".join(lines)


def _alike(grants: Iterable[Grant]) -> Iterator[list[Grant]]:
    groups: dict[object, list[Grant]] = {}
    for grant in grants:
        key = (grant.kind, grant.is_prefix, grant.operations)
        groups.setdefault(key, []).append(grant)
    yield from groups.values()


def _call(user: User, grants: Sequence[Grant]) -> str:
    first = grants[0]
    pattern = "prefixed" if first.is_prefix else "literal"
    words = [f"allow {shlex.quote(user.name)} --resource-pattern-type {pattern}"]
    words.append(" ".join(f"--operation {name}" for name in first.operations))
    words += [f"--{grant.kind} {shlex.quote(grant.name)}" for grant in grants]
    return " \\\n  ".join(words)


_STRIMZI_HEAD = """\
# The same rights as kafka-acls.sh grants, for the Strimzi operator (0.49 or newer; before
# that the apiVersion is kafka.strimzi.io/v1beta2). Set the label to your cluster's name.
# The operator puts each password into a Secret named like the user, under `password`.
# Written by deploy/acl/acls.py.
"""


def strimzi_of(users: Sequence[User]) -> str:
    """One ``KafkaUser`` a user, as YAML documents."""
    return _STRIMZI_HEAD + "".join(_kafka_user(user) for user in users)


def _kafka_user(user: User) -> str:
    text = f"""\
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata:
  name: {user.name}
  labels:
    strimzi.io/cluster: kafka
spec:
  authentication:
    type: scram-sha-512
  authorization:
    type: simple
    acls:
"""
    for grant in user.grants:
        pattern = "prefix" if grant.is_prefix else "literal"
        text += f"""\
      - resource:
          type: {grant.kind}
          name: {grant.name}
          patternType: {pattern}
        operations: [{", ".join(grant.operations)}]
"""
    return text


def table_of(users: Sequence[User]) -> str:
    """The rights as a Markdown table; resources with the same operations share a row.

    A name that ends in ``*`` stands for all names that begin so.
    """
    lines = [
        "| user | runs | may | on |",
        "| --- | --- | --- | --- |",
    ]
    for user in users:
        who = (f"`{user.name}`", user.purpose)
        for same in _alike(user.grants):
            names = (f"`{g.name}{'*' if g.is_prefix else ''}`" for g in same)
            where = f"{same[0].kind} {', '.join(names)}"
            cells = (*who, ", ".join(same[0].operations), where)
            lines.append("| " + " | ".join(cells) + " |")
            who = ("", "")
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------ the command line


def _settings(config: Path | None, env: Mapping[str, str]) -> Settings:
    """The settings of a file and the environment; the names are all that counts."""
    return Settings.load({}, env, config)


def files_from(users: Sequence[User]) -> dict[Path, str]:
    """Each committed file and what it holds for these users."""
    readme = README.read_text(encoding="utf-8")
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return {
        HERE / "kafka-acls.sh": script_of(users),
        HERE / "kafka-users.yaml": strimzi_of(users),
        README: f"{before}{BEGIN}\n{table_of(users)}{END}{after}",
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Prints one form, or writes the committed files; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.acl.acls",
        description="The rights on the brokers that pathgate needs.",
    )
    parser.add_argument("form", choices=("write", "script", "strimzi", "table"))
    parser.add_argument(
        "--config", type=Path, help="settings file, for names of your own"
    )
    options = parser.parse_args(argv)
    if options.form == "write":
        for path, text in files_from(users_from(_settings(None, {}))).items():
            path.write_text(text, encoding="utf-8")
        return 0
    users = users_from(_settings(options.config, os.environ))
    forms = {"script": script_of, "strimzi": strimzi_of, "table": table_of}
    sys.stdout.write(forms[options.form](users))
    return 0


if __name__ == "__main__":
    sys.exit(main())
