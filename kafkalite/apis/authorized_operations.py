"""Authorized operations: the operations that a client may perform, as a set of bits.

Responses contain them for topics, groups and the cluster (KIP-430). Without an authorizer, every
operation is allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.acls import CLUSTER_NAME
from kafkalite.protocol.catalogue import Operation, Resource

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call

NOT_REQUESTED = -(1 << 31)
"""The value in a response if the client did not request the operations."""

# The codes of Kafka's AclOperation.
_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(
    _READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS
)
GROUP_OPERATIONS = _bits(_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
CLUSTER_OPERATIONS = _bits(
    _CREATE,
    _ALTER,
    _DESCRIBE,
    _CLUSTER_ACTION,
    _DESCRIBE_CONFIGS,
    _ALTER_CONFIGS,
    _IDEMPOTENT_WRITE,
)


def topic_operations(call: Call, name: str) -> int:
    """Return the operations on a topic that the client may perform."""
    access = call.access
    if access is None:
        return TOPIC_OPERATIONS
    return access.operations(Resource.TOPIC, name, TOPIC_OPERATIONS)


def group_operations(call: Call, group_id: str) -> int:
    """Return the operations on a group that the client may perform."""
    access = call.access
    if access is None:
        return GROUP_OPERATIONS
    return access.operations(Resource.GROUP, group_id, GROUP_OPERATIONS)


def cluster_operations(call: Call) -> int:
    """Return the operations on the cluster that the client may perform.

    There are none if it may not describe the cluster.
    """
    access = call.access
    if access is None:
        return CLUSTER_OPERATIONS
    if not access.allows(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return 0
    return access.operations(Resource.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS)
