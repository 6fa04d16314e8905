"""The rights that a broker holds after the shipped script ran on it."""

from typing import Any

import pytest

from deploy.acl.acls import Grant, users_from

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


def grants_on_broker(secure: Any) -> set[tuple[str, str, bool, str, str]]:
    """(kind, name, is prefix, user, operation) of everything that is allowed."""
    told = secure.tool("kafka-acls.sh", "--list")
    assert told.returncode == 0, told.stderr
    found = set()
    kind = name = ""
    is_prefix = False
    for line in told.stdout.splitlines():
        if "ResourcePattern(" in line:
            inner = line.partition("ResourcePattern(")[2].partition(")")[0]
            parts = dict(pair.split("=", 1) for pair in inner.split(", "))
            kind, name = parts["resourceType"].lower(), parts["name"]
            is_prefix = parts["patternType"] == "PREFIXED"
        elif "principal=" in line:
            inner = line.partition("(")[2].partition(")")[0]
            parts = dict(pair.split("=", 1) for pair in inner.split(", "))
            assert (parts["host"], parts["permissionType"]) == ("*", "ALLOW")
            user = parts["principal"].removeprefix("User:")
            found.add((kind, name, is_prefix, user, parts["operation"]))
    return found


def as_listed(user: str, grant: Grant) -> set[tuple[str, str, bool, str, str]]:
    names = {"DescribeConfigs": "DESCRIBE_CONFIGS"}
    return {
        (grant.kind, grant.name, grant.is_prefix, user, names.get(op, op.upper()))
        for op in grant.operations
    }


def test_broker_has_exactly_the_shipped_rights(secure: Any) -> None:
    """Running the script leaves the rights of the list and no other."""
    expected = set().union(
        *(
            as_listed(user.name, grant)
            for user in users_from(secure.settings("pathgate"))
            for grant in user.grants
        )
    )
    assert grants_on_broker(secure) == expected
