"""The permissions of clients: cached by node, and replaced when the ACLs change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.security import permissions as permissions_module
from kafkalite.security.acls import Acl, PatternType, PermissionType
from kafkalite.security.authorizer import AuthorizerSettings
from kafkalite.security.permissions import PermissionsTable, permission_key

if TYPE_CHECKING:
    import pytest

READ_A = Acl(
    Resource.TOPIC, "a", PatternType.LITERAL, "User:x", "*", Operation.READ, PermissionType.ALLOW
)
ACLS = {b"1" * 16: READ_A}
TOPIC_BITS = 1 << Operation.READ | 1 << Operation.WRITE | 1 << Operation.DESCRIBE


def test_permitted_names_are_cached() -> None:
    permissions = PermissionsTable(AuthorizerSettings()).find(1, ACLS, "User:x", "127.0.0.1")
    key = permission_key(Operation.READ, Resource.TOPIC)
    assert "a" not in permissions.permitted[key]
    assert permissions.allows(Operation.READ, Resource.TOPIC, "a")
    assert not permissions.allows(Operation.READ, Resource.TOPIC, "b")
    assert permissions.permitted[key] == {"a"}


def test_clients_with_equal_principals_and_hosts_share_their_permissions() -> None:
    table = PermissionsTable(AuthorizerSettings())
    first = table.find(1, ACLS, "User:x", "127.0.0.1")
    assert table.find(1, ACLS, "User:x", "127.0.0.1") is first
    assert table.find(1, ACLS, "User:x", "10.0.0.1") is not first
    assert table.find(2, ACLS, "User:x", "127.0.0.1") is not first


def test_other_acls_give_other_permissions() -> None:
    table = PermissionsTable(AuthorizerSettings())
    before = table.find(1, ACLS, "User:x", "127.0.0.1")
    after = table.find(1, {}, "User:x", "127.0.0.1")
    assert before.allows(Operation.READ, Resource.TOPIC, "a")
    assert not after.allows(Operation.READ, Resource.TOPIC, "a")


def test_allowed_operations_are_bits() -> None:
    table = PermissionsTable(AuthorizerSettings(frozenset({"User:admin"})))
    alice = table.find(1, ACLS, "User:x", "127.0.0.1")
    implied = 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert alice.operations(Resource.TOPIC, "a", TOPIC_BITS) == implied
    assert alice.operations(Resource.TOPIC, "b", TOPIC_BITS) == 0
    admin = table.find(1, ACLS, "User:admin", "127.0.0.1")
    assert admin.operations(Resource.TOPIC, "b", TOPIC_BITS) == TOPIC_BITS


def test_other_nodes_may_do_everything() -> None:
    node = PermissionsTable(AuthorizerSettings()).find(1, {}, "User:x", "127.0.0.1", is_node=True)
    assert node.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER, "kafka-cluster")
    assert node.allows_on_any(Operation.WRITE, Resource.TOPIC)
    assert node.operations(Resource.TOPIC, "b", TOPIC_BITS) == TOPIC_BITS
    assert node.decide(Operation.READ, Resource.TOPIC, "a").reason == "another node of the cluster"


def test_any_resource_is_asked_of_the_authorizer() -> None:
    permissions = PermissionsTable(AuthorizerSettings()).find(1, ACLS, "User:x", "127.0.0.1")
    assert permissions.allows_on_any(Operation.READ, Resource.TOPIC)
    assert not permissions.allows_on_any(Operation.WRITE, Resource.TOPIC)


def test_long_names_are_not_cached() -> None:
    permissions = PermissionsTable(AuthorizerSettings(allows_without_acls=True)).find(
        1, {}, "User:x", "h"
    )
    key = permission_key(Operation.READ, Resource.GROUP)
    for length in (255, 256):
        assert permissions.allows(Operation.READ, Resource.GROUP, "g" * length)
    assert permissions.permitted[key] == {"g" * 255}


def test_the_cached_names_of_a_client_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions_module, "_MAX_NAMES_OF_CLIENT", 2)
    permissions = PermissionsTable(AuthorizerSettings()).find(1, {}, "User:x", "h")
    for name in ("a", "b", "b", "c"):
        permissions.remember(1, name)
    permissions.remember(2, b"id")
    assert permissions.permitted == {1: {"c"}, 2: {b"id"}}


def test_the_cached_names_of_all_clients_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions_module, "_MAX_NAMES", 5)
    monkeypatch.setattr(permissions_module, "_MAX_NAMES_OF_CLIENT", 2)
    table = PermissionsTable(AuthorizerSettings())
    first, second = (table.find(1, {}, principal, "h") for principal in ("User:x", "User:y"))
    for name in "abcdefgh":
        first.remember(1, name)
    for name in "abc":
        second.remember(1, name)
    assert first.permitted[1] == {"g", "h"}
    assert second.permitted[1] == {"c"}
    for name in "cd":
        first.remember(2, name)
    assert (first.permitted, second.permitted) == ({1: {"g", "h"}, 2: {"c", "d"}}, {1: {"c"}})
    second.remember(2, "e")
    assert first.permitted == {1: set(), 2: set()}
    assert second.permitted == {1: set(), 2: {"e"}}


def test_a_removed_node_is_forgotten() -> None:
    table = PermissionsTable(AuthorizerSettings())
    first, other = (table.find(node_id, ACLS, "User:x", "h") for node_id in (1, 2))
    table.forget_node(1)
    table.forget_node(3)
    assert table.find(1, ACLS, "User:x", "h") is not first
    assert table.find(2, ACLS, "User:x", "h") is other
