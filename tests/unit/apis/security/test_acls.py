"""CreateAcls, DescribeAcls and DeleteAcls over the wire."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.security import acls
from kafkalite.ports.workers import Worker
from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest
from kafkalite.protocol._generated.messages.delete_acls import DeleteAclsRequest
from kafkalite.protocol._generated.messages.describe_acls import DescribeAclsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.protocol.message import Message

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TOPIC, GROUP, CLUSTER = 2, 3, 4
LITERAL, PREFIXED = 3, 4
READ, WRITE = 3, 4
ALLOW = 3
NO_TYPE = (
    "Could not parse principal from `x` (no colon is present separating the principal type from "
    "the principal name)"
)
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    wire = TestCluster(tmp_path, config=AUTHORIZER)
    yield wire
    wire.end()


def creation(**fields: object) -> CreateAclsRequest.AclCreation:
    defaults: dict[str, Any] = {
        "resource_type": TOPIC,
        "resource_name": "a",
        "resource_pattern_type": LITERAL,
        "principal": "User:x",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return CreateAclsRequest.AclCreation(**{**defaults, **fields})


def selection(**fields: object) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return {**defaults, **fields}


def create(wire: TestCluster, *acls: CreateAclsRequest.AclCreation, version: int = 3) -> list[Any]:
    results = wire.ask(CreateAclsRequest(creations=list(acls)), version).results
    return [(each.error_code, each.error_message) for each in results]


@VERSIONS
def test_created_acls_are_described_by_resource_pattern(wire: TestCluster, version: int) -> None:
    requested = [
        creation(),
        creation(operation=WRITE),
        creation(resource_name="b", resource_pattern_type=PREFIXED, host="10.0.0.1"),
    ]
    assert create(wire, *requested, version=version) == [(0, "")] * 3
    response = wire.ask(DescribeAclsRequest(**selection()), version)
    assert (response.error_code, response.error_message) == (0, "")
    assert [
        (resource.resource_type, resource.resource_name, resource.pattern_type,
         [(each.principal, each.host, each.operation, each.permission_type)
          for each in resource.acls])
        for resource in response.resources
    ] == [
        (TOPIC, "a", LITERAL, [("User:x", "*", READ, ALLOW), ("User:x", "*", WRITE, ALLOW)]),
        (TOPIC, "b", PREFIXED, [("User:x", "10.0.0.1", READ, ALLOW)]),
    ]  # fmt: skip
    narrow = DescribeAclsRequest(**selection(operation=WRITE, pattern_type_filter=LITERAL))
    (resource,) = wire.ask(narrow, version).resources
    assert [each.operation for each in resource.acls] == [WRITE]


@VERSIONS
def test_invalid_acls_are_refused_one_by_one(wire: TestCluster, version: int) -> None:
    invalid = ErrorCode.INVALID_REQUEST
    assert create(
        wire,
        creation(resource_type=CLUSTER),
        creation(),
        creation(resource_name=""),
        creation(resource_type=99),
        creation(principal="x"),
        version=version,
    ) == [
        (invalid, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (0, ""),
        (invalid, "Invalid empty resource name"),
        (invalid, "Invalid resourceType UNKNOWN"),
        (
            invalid,
            NO_TYPE,
        ),
    ]


@pytest.mark.parametrize(
    "field", ["resource_type", "resource_pattern_type", "operation", "permission_type"]
)
def test_codes_of_filters_fail_the_whole_creation(wire: TestCluster, field: str) -> None:
    failed = (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert create(wire, creation(), creation(**{field: 1})) == [failed, failed]
    assert wire.cluster.metadata.image.acls == {}


@pytest.mark.parametrize(
    "request_",
    [
        CreateAclsRequest(creations=[creation(operation=0)]),
        DescribeAclsRequest(**selection(permission_type=0)),
        DeleteAclsRequest(filters=[DeleteAclsRequest.DeleteAclsFilter(**selection(operation=0))]),
    ],
    ids=lambda request: type(request).__name__,
)
def test_the_code_of_unknown_closes_the_connection(wire: TestCluster, request_: Message) -> None:
    with pytest.raises(ProtocolViolation, match="stands for unknown"):
        wire.ask(request_, 3)


@VERSIONS
def test_filters_delete_acls_and_report_them(wire: TestCluster, version: int) -> None:
    create(wire, creation(), creation(resource_type=GROUP, resource_name="g"))
    filters = [
        DeleteAclsRequest.DeleteAclsFilter(**selection(**fields))
        for fields in (
            {"resource_type_filter": GROUP},
            {"pattern_type_filter": 99},
            {"permission_type": 99},
            {"resource_name_filter": "missing"},
        )
    ]
    response = wire.ask(DeleteAclsRequest(filters=filters), version)
    assert [
        (each.error_code, each.error_message, [acl.resource_name for acl in each.matching_acls])
        for each in response.filter_results
    ] == [
        (0, None, ["g"]),
        (ErrorCode.INVALID_REQUEST, "Unknown patternFilter.", []),
        (ErrorCode.INVALID_REQUEST, "Unknown entryFilter.", []),
        (0, None, []),
    ]
    assert [acl.resource_name for acl in wire.cluster.metadata.image.acls.values()] == ["a"]


def test_filters_that_select_too_many_acls_are_refused(
    wire: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(wire, creation(), creation(resource_name="b"))
    monkeypatch.setattr(acls, "MAX_SELECTED_ACLS", 3)
    every = DeleteAclsRequest.DeleteAclsFilter(**selection())
    response = wire.ask(DeleteAclsRequest(filters=[every, every]), 3)
    message = "The filters select more than 3 ACLs."
    assert [(each.error_code, each.error_message) for each in response.filter_results] == [
        (ErrorCode.INVALID_REQUEST, message)
    ] * 2
    assert len(wire.cluster.metadata.image.acls) == 2
    one = DeleteAclsRequest.DeleteAclsFilter(**selection(resource_name_filter="a"))
    response = wire.ask(DeleteAclsRequest(filters=[every, one]), 3)
    assert [len(each.matching_acls) for each in response.filter_results] == [2, 1]


def test_a_deletion_pauses_after_each_filter(wire: TestCluster) -> None:
    create(wire, creation(), creation(resource_name="b"))
    every = DeleteAclsRequest.DeleteAclsFilter(**selection())
    responses = []
    worker = Worker()
    worker.task = lambda: responses.append(wire.ask(DeleteAclsRequest(filters=[every, every]), 3))
    assert worker.take_turn(-inf) is worker
    # Another request deletes an ACL meanwhile.
    metadata = wire.cluster.metadata
    metadata.delete_acls(list(metadata.image.acls)[:1])
    while worker.take_turn(-inf) is not None:
        pass
    worker.end()
    (response,) = responses
    assert [
        [acl.resource_name for acl in each.matching_acls] for each in response.filter_results
    ] == [["b"], ["b"]]
    assert metadata.image.acls == {}


@VERSIONS
def test_without_an_authorizer_acls_are_disabled(tmp_path: Path, version: int) -> None:
    wire = TestCluster(tmp_path)
    disabled = ErrorCode.SECURITY_DISABLED
    message = "No Authorizer is configured."
    assert create(wire, creation(), version=version) == [(disabled, message)]
    filters = [DeleteAclsRequest.DeleteAclsFilter(**selection())]
    (result,) = wire.ask(DeleteAclsRequest(filters=filters), version).filter_results
    assert (result.error_code, result.error_message) == (disabled, message)
    described = wire.ask(DescribeAclsRequest(**selection()), version)
    assert described.error_code == disabled
    assert described.error_message == "No Authorizer is configured on the broker"
    wire.end()
