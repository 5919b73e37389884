"""The access of clients: cached by node, and replaced when the ACLs change."""

from __future__ import annotations

from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.security.access import AccessTable, permission_key
from kafkalite.security.acls import Acl, PatternType, PermissionType
from kafkalite.security.authorizer import AuthorizerSettings

READ_A = Acl(
    Resource.TOPIC, "a", PatternType.LITERAL, "User:x", "*", Operation.READ, PermissionType.ALLOW
)
ACLS = {b"1" * 16: READ_A}
TOPIC_BITS = 1 << Operation.READ | 1 << Operation.WRITE | 1 << Operation.DESCRIBE


def test_permitted_names_are_cached() -> None:
    access = AccessTable(AuthorizerSettings()).find(1, ACLS, "User:x", "127.0.0.1")
    key = permission_key(Operation.READ, Resource.TOPIC)
    assert "a" not in access.permitted[key]
    assert access.allows(Operation.READ, Resource.TOPIC, "a")
    assert not access.allows(Operation.READ, Resource.TOPIC, "b")
    assert access.permitted[key] == {"a"}


def test_clients_with_equal_principals_and_hosts_share_their_access() -> None:
    table = AccessTable(AuthorizerSettings())
    first = table.find(1, ACLS, "User:x", "127.0.0.1")
    assert table.find(1, ACLS, "User:x", "127.0.0.1") is first
    assert table.find(1, ACLS, "User:x", "10.0.0.1") is not first
    assert table.find(2, ACLS, "User:x", "127.0.0.1") is not first


def test_other_acls_give_another_access() -> None:
    table = AccessTable(AuthorizerSettings())
    before = table.find(1, ACLS, "User:x", "127.0.0.1")
    after = table.find(1, {}, "User:x", "127.0.0.1")
    assert before.allows(Operation.READ, Resource.TOPIC, "a")
    assert not after.allows(Operation.READ, Resource.TOPIC, "a")


def test_allowed_operations_are_bits() -> None:
    table = AccessTable(AuthorizerSettings(frozenset({"User:admin"})))
    alice = table.find(1, ACLS, "User:x", "127.0.0.1")
    implied = 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert alice.operations(Resource.TOPIC, "a", TOPIC_BITS) == implied
    assert alice.operations(Resource.TOPIC, "b", TOPIC_BITS) == 0
    admin = table.find(1, ACLS, "User:admin", "127.0.0.1")
    assert admin.operations(Resource.TOPIC, "b", TOPIC_BITS) == TOPIC_BITS


def test_other_nodes_may_do_everything() -> None:
    node = AccessTable(AuthorizerSettings()).find(1, {}, "User:x", "127.0.0.1", is_node=True)
    assert node.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER, "kafka-cluster")
    assert node.allows_on_any(Operation.WRITE, Resource.TOPIC)
    assert node.operations(Resource.TOPIC, "b", TOPIC_BITS) == TOPIC_BITS
    assert node.decide(Operation.READ, Resource.TOPIC, "a").reason == "another node of the cluster"


def test_any_resource_is_asked_of_the_authorizer() -> None:
    access = AccessTable(AuthorizerSettings()).find(1, ACLS, "User:x", "127.0.0.1")
    assert access.allows_on_any(Operation.READ, Resource.TOPIC)
    assert not access.allows_on_any(Operation.WRITE, Resource.TOPIC)
