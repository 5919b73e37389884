"""Authorized operations in responses, with and without an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.authorized_operations import (
    cluster_operations,
    group_operations,
    topic_operations,
)
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.security.acls import Acl, PatternType, PermissionType
from kafkalite.security.authorizer import AuthorizerSettings
from kafkalite.security.permissions import PermissionsTable
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.gateway.call import Call


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Call]:
    wire = TestCluster(tmp_path)
    yield wire.contexts[1].latest_call
    wire.end()


def with_acls(call: Call, *acls: Acl) -> Call:
    by_id = {bytes((index,)): acl for index, acl in enumerate(acls)}
    call.context.permissions = PermissionsTable(AuthorizerSettings()).find(
        1, by_id, "User:x", "127.0.0.1"
    )
    return call


def allow(operation: Operation, resource: Resource, name: str) -> Acl:
    return Acl(resource, name, PatternType.LITERAL, "User:x", "*", operation, PermissionType.ALLOW)


def test_with_an_authorizer_the_allowed_operations_are_returned(call: Call) -> None:
    with_acls(
        call,
        allow(Operation.WRITE, Resource.TOPIC, "t"),
        allow(Operation.DELETE, Resource.GROUP, "g"),
        allow(Operation.ALTER, Resource.CLUSTER, "kafka-cluster"),
    )
    describe = 1 << Operation.DESCRIBE
    assert topic_operations(call, "t") == describe | 1 << Operation.WRITE
    assert topic_operations(call, "u") == 0
    assert group_operations(call, "g") == describe | 1 << Operation.DELETE
    assert cluster_operations(call) == describe | 1 << Operation.ALTER


def test_the_cluster_has_no_operations_for_a_client_that_may_not_describe_it(call: Call) -> None:
    with_acls(call, allow(Operation.CREATE, Resource.CLUSTER, "kafka-cluster"))
    assert cluster_operations(call) == 0
