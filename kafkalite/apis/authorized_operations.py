"""Authorized operations: the operations that a client may perform, as a set of bits.

Responses contain them for topics, groups and the cluster (KIP-430). Without an authorizer, every
operation is allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.security.acls import CLUSTER_NAME

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call

NOT_REQUESTED = -(1 << 31)
"""The value in a response if the client did not request the operations."""


def _bits(*operations: Operation) -> int:
    return sum(1 << operation.value for operation in operations)


TOPIC_OPERATIONS = _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
GROUP_OPERATIONS = _bits(
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS = _bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)


def topic_operations(call: Call, name: str) -> int:
    """Return the operations on a topic that the client may perform."""
    return _operations(call, Resource.TOPIC, name, TOPIC_OPERATIONS)


def group_operations(call: Call, group_id: str) -> int:
    """Return the operations on a group that the client may perform."""
    return _operations(call, Resource.GROUP, group_id, GROUP_OPERATIONS)


def cluster_operations(call: Call) -> int:
    """Return the operations on the cluster that the client may perform.

    There are none if it may not describe the cluster.
    """
    if not call.allows(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return 0
    return _operations(call, Resource.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS)


def _operations(call: Call, resource: Resource, name: str, supported: int) -> int:
    permissions = call.permissions
    return supported if permissions is None else permissions.operations(resource, name, supported)
