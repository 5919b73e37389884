"""Checks of whole requests: derived from the catalogue, refused with facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.authorization.checks import check, checks_of
from kafkalite.protocol import catalogue
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.acls import Acl, PatternType, PermissionType
from kafkalite.security.authorizer import AuthorizerSettings
from kafkalite.security.permissions import PermissionsTable

if TYPE_CHECKING:
    from collections.abc import Sequence

DENY_G = Acl(
    Resource.GROUP, "g", PatternType.LITERAL, "User:*", "*", Operation.READ, PermissionType.DENY
)


def pairs(key: ApiKey) -> list[Sequence[tuple[Operation, str]]]:
    checks = checks_of(catalogue.row(key))
    return [[(each.operation, each.field) for each in alternatives] for alternatives in checks]


def test_the_catalogue_has_the_checks_of_whole_requests() -> None:
    assert pairs(ApiKey.HEARTBEAT) == [[(Operation.READ, "group_id")]]
    assert pairs(ApiKey.TXN_OFFSET_COMMIT) == [
        [(Operation.WRITE, "transactional_id")],
        [(Operation.READ, "group_id")],
    ]
    assert pairs(ApiKey.ELECT_LEADERS) == [[(Operation.ALTER, "")]]
    assert pairs(ApiKey.WRITE_TXN_MARKERS) == [
        [(Operation.CLUSTER_ACTION, ""), (Operation.ALTER, "")]
    ]
    assert pairs(ApiKey.METADATA) == pairs(ApiKey.FETCH) == pairs(ApiKey.LIST_GROUPS) == []


def test_the_name_is_that_in_the_request_or_of_the_cluster() -> None:
    ((group,),) = checks_of(catalogue.row(ApiKey.HEARTBEAT))
    ((cluster,),) = checks_of(catalogue.row(ApiKey.ELECT_LEADERS))
    assert group.name_in(HeartbeatRequest(group_id="g")) == "g"
    assert cluster.name_in(HeartbeatRequest(group_id="g")) == "kafka-cluster"


def test_a_refusal_names_the_acl_that_denied() -> None:
    permissions = PermissionsTable(AuthorizerSettings()).find(
        1, {b"1": DENY_G}, "User:x", "127.0.0.1"
    )
    with pytest.raises(KafkaError) as refused:
        check(permissions, Operation.READ, Resource.GROUP, "g", "message")
    error = refused.value
    assert (error.code, error.message) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, "message")
    assert error.explanation == (
        f"User:x from 127.0.0.1 may not READ GROUP g: denied by the ACL: {DENY_G}"
    )
    assert error.facts == {
        "rule": "acl", "principal": "User:x", "host": "127.0.0.1", "operation": "READ",
        "resource_type": "GROUP", "resource": "g", "acl": str(DENY_G),
    }  # fmt: skip


def test_an_allowed_operation_raises_nothing() -> None:
    settings = AuthorizerSettings(frozenset({"User:x"}))
    permissions = PermissionsTable(settings).find(1, {b"1": DENY_G}, "User:x", "127.0.0.1")
    check(permissions, Operation.READ, Resource.GROUP, "g")
