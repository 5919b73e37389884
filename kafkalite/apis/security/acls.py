"""CreateAcls, DescribeAcls and DeleteAcls: the ACLs of the cluster (KIP-140, 290).

Without an authorizer, all of them are refused with SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, Api
from kafkalite.ports.turns import in_steps, iterate_with_pauses, pause
from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kafkalite.protocol._generated.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kafkalite.protocol._generated.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.protocol.versions import Versions
from kafkalite.security.acls import (
    ALL_OPERATIONS,
    ANY,
    CLUSTER_NAME,
    UNKNOWN,
    Acl,
    AclFilter,
    PatternType,
    PermissionType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.gateway.call import Call
    from kafkalite.metadata.image import MetadataImage

MAX_SELECTED_ACLS: Final = 100_000
"""Maximum number of ACLs in one DeleteAcls response; one that two filters select counts twice."""

_PATTERN_FILTERS: Final = frozenset((ANY, *PatternType))
_RESOURCE_FILTERS: Final = frozenset((ANY, *Resource))
_OPERATION_FILTERS: Final = frozenset((ANY, ALL_OPERATIONS, *Operation))
_PERMISSION_FILTERS: Final = frozenset((ANY, *PermissionType))


def _check_enabled(call: Call, message: str) -> None:
    if not call.node.config.str("authorizer.class.name"):
        raise KafkaError(ErrorCode.SECURITY_DISABLED, message)


def _check_codes(api: str, *codes: int) -> None:
    """Close the connection if a code is that of UNKNOWN, as Kafka does."""
    if UNKNOWN in codes:
        raise ProtocolViolation(f"{api} has the code {UNKNOWN}, which stands for unknown values")


# CreateAcls


def handle_create_acls(call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    """Create ACLs; each succeeds or fails on its own. An ACL that exists is not created again."""
    for each in request.creations:
        _check_codes(
            "CreateAcls",
            each.resource_pattern_type,
            each.resource_type,
            each.permission_type,
            each.operation,
        )
    _check_enabled(call, "No Authorizer is configured.")
    acls = [_requested_acl(each) for each in request.creations]
    errors = [_name_error(acl) for acl in in_steps(acls)]
    valid = [acl for acl, error in zip(acls, errors, strict=True) if error is None]
    decided = iter(call.node.cluster.metadata.create_acls(valid))
    return CreateAclsResponse(
        results=[_creation_result(error or next(decided)) for error in in_steps(errors)]
    )


def _requested_acl(requested: CreateAclsRequest.AclCreation) -> Acl:
    """Return the ACL; raises KafkaError for a code that is valid in filters only.

    Kafka fails with an internal exception here, for the whole request.
    """
    if (
        ANY
        in (
            requested.resource_type,
            requested.resource_pattern_type,
            requested.operation,
            requested.permission_type,
        )
        or requested.resource_pattern_type == PatternType.MATCH
    ):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return Acl(
        requested.resource_type,
        requested.resource_name,
        requested.resource_pattern_type,
        requested.principal,
        requested.host,
        requested.operation,
        requested.permission_type,
    )


def _name_error(acl: Acl) -> KafkaError | None:
    if acl.resource_type == Resource.CLUSTER and acl.resource_name != CLUSTER_NAME:
        message = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not acl.resource_name:
        message = "Invalid empty resource name"
    else:
        return None
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _creation_result(error: KafkaError | None) -> CreateAclsResponse.AclCreationResult:
    if error is None:
        return CreateAclsResponse.AclCreationResult(error_message="")  # In Kafka it is not null.
    return CreateAclsResponse.AclCreationResult(error_code=error.code, error_message=error.message)


# DescribeAcls


def handle_describe_acls(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return the ACLs that a filter selects, by resource pattern, as the node knows them."""
    return describe_acls(call, request, call.node.image)


def describe_acls(
    call: Call, request: DescribeAclsRequest, image: MetadataImage
) -> DescribeAclsResponse:
    """Return the ACLs of an image that a filter selects, by resource pattern."""
    _check_codes(
        "DescribeAcls",
        request.pattern_type_filter,
        request.resource_type_filter,
        request.permission_type,
        request.operation,
    )
    _check_enabled(call, "No Authorizer is configured on the broker")
    selection = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    resources: dict[tuple[int, str, int], DescribeAclsResponse.DescribeAclsResource] = {}
    for acl in in_steps(image.acls.values()):
        if not selection.matches(acl):
            continue
        key = (acl.resource_type, acl.resource_name, acl.pattern_type)
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResponse.DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
            )
        resource.acls.append(
            DescribeAclsResponse.AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    # Kafka's response has no null here.
    return DescribeAclsResponse(error_message="", resources=list(resources.values()))


# DeleteAcls


def handle_delete_acls(call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Delete the ACLs that filters select; each filter succeeds or fails on its own.

    Raises KafkaError INVALID_REQUEST if the filters select too many.
    """
    for each in request.filters:
        _check_codes(
            "DeleteAcls",
            each.pattern_type_filter,
            each.resource_type_filter,
            each.operation,
            each.permission_type,
        )
    _check_enabled(call, "No Authorizer is configured.")
    errors = [_filter_error(each) for each in request.filters]
    filters = [
        AclFilter(
            each.resource_type_filter,
            each.resource_name_filter,
            each.pattern_type_filter,
            each.principal_filter,
            each.host_filter,
            each.operation,
            each.permission_type,
        )
        for each, error in zip(request.filters, errors, strict=True)
        if error is None
    ]
    metadata = call.node.cluster.metadata
    acls = metadata.image.acls
    selected = _select(acls, filters)
    # Other requests may have deleted some of them since.
    deleted = metadata.delete_acls({acl_id for ids in in_steps(selected) for acl_id in ids})
    remaining = iter(selected)
    return DeleteAclsResponse(
        filter_results=[
            _filter_error_result(error)
            if error is not None
            else _deletion_result(
                acls[acl_id] for acl_id in in_steps(next(remaining)) if acl_id in deleted
            )
            for error in in_steps(errors)
        ]
    )


def _select(acls: Mapping[bytes, Acl], filters: Sequence[AclFilter]) -> list[list[bytes]]:
    """Return the ids of the ACLs that each filter selects.

    Raises KafkaError INVALID_REQUEST if there are more than MAX_SELECTED_ACLS.
    """
    rows = tuple(acls.items())
    selected = []
    count = 0
    for each in filters:
        ids = [acl_id for acl_id, acl in iterate_with_pauses(rows) if each.matches(acl)]
        count += len(ids)
        if count > MAX_SELECTED_ACLS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The filters select more than {MAX_SELECTED_ACLS} ACLs.",
            )
        selected.append(ids)
        pause()
    return selected


def _filter_error(requested: DeleteAclsRequest.DeleteAclsFilter) -> KafkaError | None:
    message = None
    if (
        requested.pattern_type_filter not in _PATTERN_FILTERS
        or requested.resource_type_filter not in _RESOURCE_FILTERS
    ):
        message = "Unknown patternFilter."
    elif (
        requested.operation not in _OPERATION_FILTERS
        or requested.permission_type not in _PERMISSION_FILTERS
    ):
        message = "Unknown entryFilter."
    return None if message is None else KafkaError(ErrorCode.INVALID_REQUEST, message)


def _filter_error_result(error: KafkaError) -> DeleteAclsResponse.DeleteAclsFilterResult:
    return DeleteAclsResponse.DeleteAclsFilterResult(
        error_code=error.code, error_message=error.message
    )


def _deletion_result(deleted: Iterable[Acl]) -> DeleteAclsResponse.DeleteAclsFilterResult:
    return DeleteAclsResponse.DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[
            DeleteAclsResponse.DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in deleted
        ],
    )


APIS = (
    Api(
        key=DescribeAclsRequest.API_KEY,
        versions=Versions(1, 3),
        handler=handle_describe_acls,
        inline_bytes=0,
    ),
    Api(
        key=CreateAclsRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(1, 3),
        handler=handle_create_acls,
    ),
    Api(
        key=DeleteAclsRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(1, 3),
        handler=handle_delete_acls,
        inline_bytes=0,
    ),
)
