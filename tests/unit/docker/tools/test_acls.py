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


def allowed(operation: str, resource: str) -> str:
    return f"allows User:alice from host * operation {operation} on {resource}"


def test_acls_are_added_listed_and_removed(secured: ToolRunner) -> None:
    options = (*ALICE, "--operation", "Read", "--operation", "Describe", "--topic", "orders")
    acls = [allowed(operation, "TOPIC LITERAL orders") for operation in ("READ", "DESCRIBE")]
    assert secured.ask(ACLS, "--add", *options).lines == [f"Added: {acl}" for acl in acls]
    assert secured.ask(ACLS, "--list").lines == acls
    assert secured.ask(ACLS, "--list", "--topic", "orders").lines == acls
    assert secured.ask(ACLS, "--list", "--topic", "other").lines == []
    assert secured.ask(ACLS, "--list", "--principal", "User:bob").lines == []
    removed = secured.ask(ACLS, "--remove", "--force", *options)
    assert removed.lines == [f"Removed: {acl}" for acl in acls]
    assert secured.ask(ACLS, "--list").lines == []


def test_roles_allow_their_operations(secured: ToolRunner) -> None:
    secured.ask(ACLS, "--add", *ALICE, "--consumer", "--topic", "orders", "--group", "g")
    secured.ask(ACLS, "--add", *ALICE, "--producer", "--topic", "orders")
    operations = [line.split()[6:9:2] for line in secured.ask(ACLS, "--list").lines]
    assert operations == [
        ["READ", "TOPIC"],
        ["WRITE", "TOPIC"],
        ["CREATE", "TOPIC"],
        ["DESCRIBE", "TOPIC"],
        ["READ", "GROUP"],
    ]


def test_prefixes_hosts_and_denials(secured: ToolRunner) -> None:
    added = secured.ask(
        ACLS, "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1",
        "--transactional-id", "tx-", "--resource-pattern-type", "prefixed",
    )  # fmt: skip
    assert added.lines == [
        "Added: denies User:bob from host 10.0.0.1 operation ALL on TRANSACTIONAL_ID PREFIXED tx-"
    ]
    added = secured.ask(ACLS, "--add", *ALICE, "--cluster", "--operation", "idempotent-write")
    assert added.lines == [f"Added: {allowed('IDEMPOTENT_WRITE', 'CLUSTER LITERAL kafka-cluster')}"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "exactly one of --add, --list and --remove"),
        (["--add", "--topic", "a"], "--allow-principal or --deny-principal is needed"),
        (["--add", *ALICE], "name a resource: --topic, --group"),
        (["--add", *ALICE, "--topic", "a", "--operation", "Fly"], "--operation FLY: valid are ALL"),
        (["--add", "--allow-principal", "alice", "--topic", "a"], "INVALID_REQUEST"),
    ],
)
def test_invalid_arguments_are_named(secured: ToolRunner, arguments: list[str], error: str) -> None:
    result = secured.ask(ACLS, *arguments)
    assert result.status == 1
    assert error in result.error


def test_broker_without_authorizer_refuses(tools: ToolRunner) -> None:
    assert "SECURITY_DISABLED" in tools.ask(ACLS, "--list").error
