"""ACLs of the controller: creation, deletion, and their records."""

from __future__ import annotations

import pytest

from kafkalite.metadata.acls import MAX_ACLS_PER_REQUEST, Acls
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol._generated.records.access_control_entry import AccessControlEntryRecord
from kafkalite.protocol._generated.records.remove_access_control_entry import (
    RemoveAccessControlEntryRecord,
)
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.codec import decode_metadata_record
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.acls import (
    ANY,
    Acl,
    PatternType,
    PermissionType,
)
from tests.cluster.metadata import MetadataCluster

READ_A = Acl(
    Resource.TOPIC, "a", PatternType.LITERAL, "User:x", "*", Operation.READ, PermissionType.ALLOW
)


def records(cluster: MetadataCluster) -> list[object]:
    return [
        decode_metadata_record(value) for _, value in cluster.log.read_all() if value is not None
    ]


def acl_records(cluster: MetadataCluster) -> list[object]:
    kinds = (AccessControlEntryRecord, RemoveAccessControlEntryRecord)
    return [record for record in records(cluster) if isinstance(record, kinds)]


def test_a_created_acl_is_a_record_and_in_the_image() -> None:
    cluster = MetadataCluster()
    assert cluster.controller.create_acls([READ_A]) == [None]
    assert list(cluster.image.acls.values()) == [READ_A]
    (record,) = acl_records(cluster)
    assert record == AccessControlEntryRecord(
        id=next(iter(cluster.image.acls)),
        resource_type=2,
        resource_name="a",
        pattern_type=3,
        principal="User:x",
        host="*",
        operation=3,
        permission_type=3,
    )
    assert cluster.restart(1).image.acls == cluster.image.acls


def test_an_acl_that_exists_is_not_created_again() -> None:
    cluster = MetadataCluster()
    cluster.controller.create_acls([READ_A])
    other = READ_A._replace(host="127.0.0.1")
    assert cluster.controller.create_acls([READ_A, other, other]) == [None, None, None]
    assert list(cluster.image.acls.values()) == [READ_A, other]


def test_other_changes_keep_the_same_mapping_of_acls() -> None:
    cluster = MetadataCluster()
    cluster.controller.create_acls([READ_A])
    before = cluster.image.acls
    cluster.controller.allocate_producer_ids(1)
    assert cluster.image.acls is before
    cluster.controller.create_acls([READ_A._replace(host="127.0.0.1")])
    assert cluster.image.acls is not before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resource_type": ANY}, "Invalid resourceType ANY"),
        ({"pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"pattern_type": ANY}, "Invalid patternType ANY"),
        ({"operation": ANY}, "Invalid operation ANY"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        ({"permission": ANY}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Resource name should not be empty"),
    ],
)
def test_an_invalid_acl_is_refused_and_the_others_are_created(
    change: dict[str, object], message: str
) -> None:
    cluster = MetadataCluster()
    error, none = cluster.controller.create_acls([READ_A._replace(**change), READ_A])  # type: ignore[arg-type]
    assert none is None
    assert error is not None
    assert (error.code, error.message) == (ErrorCode.INVALID_REQUEST, message)
    assert list(cluster.image.acls.values()) == [READ_A]


def test_existing_acls_are_deleted_by_id() -> None:
    cluster = MetadataCluster()
    other = READ_A._replace(resource_name="b")
    cluster.controller.create_acls([READ_A, other])
    ids = list(cluster.image.acls)
    assert cluster.controller.delete_acls([ids[0], bytes(16), ids[0], ids[1]]) == {*ids}
    assert cluster.controller.delete_acls(ids) == set()
    assert cluster.image.acls == {}
    assert cluster.restart(1).image.acls == {}
    assert [type(record) for record in acl_records(cluster)] == [
        AccessControlEntryRecord, AccessControlEntryRecord,
        RemoveAccessControlEntryRecord, RemoveAccessControlEntryRecord,
    ]  # fmt: skip


def test_too_many_acls_in_one_request_are_refused_as_a_whole() -> None:
    cluster = MetadataCluster()
    acls = [READ_A._replace(resource_name=f"{n}") for n in range(MAX_ACLS_PER_REQUEST + 1)]
    with pytest.raises(KafkaError) as refused:
        cluster.controller.create_acls(acls)
    assert (refused.value.code, refused.value.message) == (
        ErrorCode.POLICY_VIOLATION,
        "Unable to perform excessively large batch operation.",
    )
    assert cluster.image.acls == {}
    cluster.controller.create_acls(acls[:-1])
    cluster.controller.create_acls(acls[-1:])
    with pytest.raises(KafkaError) as refused:
        cluster.controller.delete_acls(cluster.image.acls)
    assert refused.value.message == (
        "Cannot remove more than 10000 acls in a single delete operation."
    )
    assert len(cluster.image.acls) == MAX_ACLS_PER_REQUEST + 1


LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("", ErrorCode.INVALID_REQUEST),
        ("10.0.0.0/33", ErrorCode.INVALID_REQUEST),
        ("10.0.0/8", ErrorCode.INVALID_REQUEST),
        ("fd00::/129", ErrorCode.INVALID_REQUEST),
        ("10.0.0.0/8", None),
        ("fd00::/8", None),
        ("any text", None),
    ],
)
def test_hosts_of_new_acls_are_checked(host: str, code: ErrorCode | None) -> None:
    acl = READ_A._replace(host=host)
    (error,) = MetadataCluster(as_version="4.4").controller.create_acls([acl])
    assert (error and error.code) == code
    older = MetadataCluster(as_version="4.3")
    assert older.controller.create_acls([acl]) == [None]


def test_ranges_of_hosts_need_a_level_of_metadata_version() -> None:
    acl = READ_A._replace(host="10.0.0.0/8")
    (error, none), created = Acls(SeededEntropy(1)).create([acl, READ_A], supports_ranges=False)
    assert error is not None
    assert (error.code, none) == (ErrorCode.UNSUPPORTED_VERSION, None)
    assert [record.host for record in created] == ["*"]
