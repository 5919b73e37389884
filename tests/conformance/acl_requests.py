"""Requests that create, describe and delete ACLs: valid ones, and every kind of invalid one."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest
from kafkalite.protocol._generated.messages.delete_acls import DeleteAclsRequest
from kafkalite.protocol._generated.messages.describe_acls import DescribeAclsRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.protocol.message import Message

VERSIONS: Final = (1, 2, 3)
_UNKNOWN, _ANY, _MATCH, _LITERAL, _PREFIXED = range(5)
_ALL_OPERATIONS, _READ, _WRITE, _CREATE, _DESCRIBE, _CLUSTER_ACTION = 2, 3, 4, 5, 8, 9
_DENY, _ALLOW = 2, 3
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID, _TOKEN, _USER = 2, 3, 4, 5, 6, 7

EVERYTHING: Final = DescribeAclsRequest(
    resource_type_filter=_ANY,
    resource_name_filter=None,
    pattern_type_filter=_ANY,
    principal_filter=None,
    host_filter=None,
    operation=_ANY,
    permission_type=_ANY,
)


def _acl(**fields: Any) -> CreateAclsRequest.AclCreation:  # noqa: ANN401 - the fields of an ACL
    valid: dict[str, Any] = {
        "resource_type": _TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": _LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": _READ,
        "permission_type": _ALLOW,
    }
    return CreateAclsRequest.AclCreation(**(valid | fields))


_VALID: Final = (
    _acl(),
    _acl(),
    _acl(permission_type=_DENY),
    _acl(host="10.0.0.1"),
    _acl(principal="User:*"),
    _acl(principal="Group:staff"),
    _acl(principal="User:CN=alice,O=Example"),
    _acl(operation=_ALL_OPERATIONS),
    _acl(operation=_CREATE),
    _acl(resource_name="*"),
    _acl(resource_name="ord", resource_pattern_type=_PREFIXED),
    _acl(resource_name="*", resource_pattern_type=_PREFIXED),
    _acl(resource_name="other", operation=_WRITE),
    _acl(resource_type=_GROUP, resource_name="readers"),
    _acl(resource_type=_CLUSTER, resource_name="kafka-cluster", operation=_CLUSTER_ACTION),
    _acl(resource_type=_TRANSACTIONAL_ID, resource_name="tx", operation=_WRITE),
    _acl(resource_type=_TOKEN, resource_name="token", operation=_DESCRIBE),
    _acl(resource_type=_USER, resource_name="User:bob", operation=_DESCRIBE),
)
_REFUSED: Final = (
    _acl(resource_name=""),
    _acl(resource_type=_CLUSTER, resource_name="cluster", operation=_CREATE),
    _acl(resource_type=_CLUSTER, resource_name="kafka-cluster", operation=_READ),
    _acl(resource_type=_GROUP, resource_name="readers", operation=_CLUSTER_ACTION),
    _acl(principal="alice"),
    _acl(principal=""),
    _acl(principal=":"),
    _acl(resource_type=_ANY),
    _acl(resource_pattern_type=_ANY),
    _acl(resource_pattern_type=_MATCH),
    _acl(operation=_ANY),
    _acl(permission_type=_ANY),
    _acl(resource_type=_UNKNOWN),
    _acl(resource_pattern_type=_UNKNOWN),
    _acl(operation=_UNKNOWN),
    _acl(permission_type=_UNKNOWN),
    _acl(resource_type=99),
    _acl(operation=99),
)


def _filters() -> Iterator[dict[str, Any]]:
    """Yield the fields of filters."""
    anything: dict[str, Any] = {
        name: getattr(EVERYTHING, name) for name in DescribeAclsRequest.__slots__[:-1]
    }
    names = (None, "orders", "*", "kafka-cluster", "")
    patterns = (_ANY, _MATCH, _LITERAL, _PREFIXED)
    for pattern, name in product(patterns, names):
        yield anything | {"pattern_type_filter": pattern, "resource_name_filter": name}
    for field, values in {
        "resource_type_filter": (_TOPIC, _GROUP, _CLUSTER, _USER, _UNKNOWN, 99),
        "principal_filter": ("User:alice", "User:*", "alice", ""),
        "host_filter": ("*", "10.0.0.1", ""),
        "operation": (_ALL_OPERATIONS, _READ, _UNKNOWN, 99),
        "permission_type": (_DENY, _ALLOW, _UNKNOWN),
        "pattern_type_filter": (_UNKNOWN, 99),
    }.items():
        for value in values:
            yield anything | {field: value}


HOSTS: Final = (
    "",
    " ",
    "localhost",
    "10.0.0.0/8",
    "10.0.0.300",
    "::1",
    "fe80::1%eth0",
    "*.example",
)
"""Hosts of ACLs that are no addresses, or unusual ones."""


def creation_for_host(host: str) -> CreateAclsRequest:
    """Return the creation of an ACL for this host."""
    return CreateAclsRequest(creations=[_acl(host=host)])


def requests() -> Iterator[Message]:
    """Yield creations, descriptions and deletions of ACLs, in the order to send them."""
    yield CreateAclsRequest(creations=list(_VALID))
    yield CreateAclsRequest(creations=[])
    for acl in _REFUSED:
        yield CreateAclsRequest(creations=[acl])
    yield CreateAclsRequest(creations=[_acl(resource_name=""), _acl(resource_name="partly")])
    for fields in _filters():
        yield DescribeAclsRequest(**fields)
    yield DeleteAclsRequest(filters=[])
    for fields in _filters():
        yield CreateAclsRequest(creations=list(_VALID))
        yield DeleteAclsRequest(filters=[DeleteAclsRequest.DeleteAclsFilter(**fields)])
    some = DeleteAclsRequest.DeleteAclsFilter(**next(_filters()) | {"operation": _READ})
    yield CreateAclsRequest(creations=list(_VALID))
    yield DeleteAclsRequest(filters=[some, some])
