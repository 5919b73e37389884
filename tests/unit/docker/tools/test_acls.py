"""`kafka-acls`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.testing import Broker
from tests.unit.docker.tools.tool import ToolRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

ACLS = "kafka-acls"
ALICE = ("--allow-principal", "User:alice")


@pytest.fixture
def secured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[ToolRunner]:
    """Return a runner whose broker checks ACLs, and allows everything to this client."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker(config=config) as broker:
        yield ToolRunner(broker, capsys, monkeypatch)


def pattern(kind: str, name: str, pattern_type: str = "LITERAL") -> str:
    return f"ResourcePattern(resourceType={kind}, name={name}, patternType={pattern_type})"


def allowed(operation: str) -> str:
    return f"(principal=User:alice, host=*, operation={operation}, permissionType=ALLOW)"


def test_acls_are_added_listed_and_removed(secured: ToolRunner) -> None:
    options = (*ALICE, "--operation", "Read", "--operation", "Describe", "--topic", "orders")
    added = secured.ask(ACLS, "--add", *options)
    acls = [f"\t{allowed(operation)}" for operation in ("READ", "DESCRIBE")]
    orders = pattern("TOPIC", "orders")
    assert added.lines == [
        f"Adding ACLs for resource `{orders}`: ", f" {acls[0]}", acls[1], ""
    ]  # fmt: skip
    listed = [f"Current ACLs for resource `{orders}`:", *acls, ""]
    assert secured.ask(ACLS, "--list").lines == listed
    assert secured.ask(ACLS, "--list", "--topic", "orders").lines == listed
    assert secured.ask(ACLS, "--list", "--topic", "other").lines == []
    title = "ACLs for principal `User:alice`"
    assert secured.ask(ACLS, "--list", "--principal", "User:alice").lines == [title, *listed]
    assert secured.ask(ACLS, "--remove", "--force", *options) == (0, [], "")
    assert secured.ask(ACLS, "--list").lines == []


def test_an_existing_acl_is_not_added_again(secured: ToolRunner) -> None:
    options = (*ALICE, "--operation", "Read", "--topic", "orders")
    secured.ask(ACLS, "--add", *options)
    acl = f"(pattern={pattern('TOPIC', 'orders')}, entry={allowed('READ')})"
    assert secured.ask(ACLS, "--add", *options).lines == [f"Acl {acl} already exists."]


def test_all_acls_of_a_resource_are_removed(secured: ToolRunner) -> None:
    for topic in ("orders", "others"):
        secured.ask(ACLS, "--add", *ALICE, "--producer", "--topic", topic)
    assert secured.ask(ACLS, "--remove", "--force", "--topic", "orders") == (0, [], "")
    (title, *_) = secured.ask(ACLS, "--list").lines
    assert title == f"Current ACLs for resource `{pattern('TOPIC', 'others')}`:"


def test_roles_allow_their_operations(secured: ToolRunner) -> None:
    secured.ask(ACLS, "--add", *ALICE, "--consumer", "--topic", "orders", "--group", "g")
    secured.ask(ACLS, "--add", *ALICE, "--producer", "--topic", "orders")
    assert secured.ask(ACLS, "--list").lines == [
        f"Current ACLs for resource `{pattern('TOPIC', 'orders')}`:",
        *(f"\t{allowed(operation)}" for operation in ("READ", "WRITE", "CREATE", "DESCRIBE")),
        "",
        f"Current ACLs for resource `{pattern('GROUP', 'g')}`:",
        f"\t{allowed('READ')}",
        "",
    ]


def test_prefixes_hosts_and_denials(secured: ToolRunner) -> None:
    added = secured.ask(
        ACLS, "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1",
        "--transactional-id", "tx-", "--resource-pattern-type", "prefixed",
    )  # fmt: skip
    assert added.lines == [
        f"Adding ACLs for resource `{pattern('TRANSACTIONAL_ID', 'tx-', 'PREFIXED')}`: ",
        " \t(principal=User:bob, host=10.0.0.1, operation=ALL, permissionType=DENY)",
        "",
    ]
    added = secured.ask(ACLS, "--add", *ALICE, "--cluster", "--operation", "idempotent-write")
    assert added.lines == [
        f"Adding ACLs for resource `{pattern('CLUSTER', 'kafka-cluster')}`: ",
        f" \t{allowed('IDEMPOTENT_WRITE')}",
        "",
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "exactly one of --add, --list and --remove"),
        (["--add", "--topic", "a"], "You must specify one of: --allow-principal, --deny-principal"),
        (["--add", *ALICE], "You must provide at least one resource"),
        (["--add", *ALICE, "--topic", "a", "--operation", "Fly"], "--operation Fly: valid are ALL"),
        (["--add", "--allow-principal", "alice", "--topic", "a"], "INVALID_REQUEST"),
    ],
)
def test_invalid_arguments_are_named(secured: ToolRunner, arguments: list[str], error: str) -> None:
    result = secured.ask(ACLS, *arguments)
    assert result.status == 1
    assert error in result.error


def test_broker_without_authorizer_refuses(tools: ToolRunner) -> None:
    assert "SECURITY_DISABLED" in tools.ask(ACLS, "--list").error
