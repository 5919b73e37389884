"""ListGroups, DescribeGroups and DeleteGroups: groups, for administrators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.apis.authorized_operations import group_operations
from kafkalite.apis.blank_fields import trim
from kafkalite.apis.duplicates import DuplicateLimit, without_duplicates
from kafkalite.apis.shares.deletion import delete_share_state_of_group
from kafkalite.coordinator.java_order import (
    in_java_order,
    in_timeline_order,
    named_partition_hash,
    string_hash,
)
from kafkalite.gateway.api import Api, Eras
from kafkalite.gateway.overdue_calls import sees_ended_sessions
from kafkalite.gateway.refusals import MAX_REPORTED, report_refusal
from kafkalite.groups.classic.describe import describe_group
from kafkalite.groups.group import GroupType, group_not_found_error
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.turns import in_steps
from kafkalite.ports.waiting import chain, gather
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsResponse
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsResponse
from kafkalite.protocol._generated.messages.list_groups import ListGroupsResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.rows import refusal, refused_row
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.ports.waiting import Waiting
    from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
    from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
    from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest

DescribedGroup = DescribeGroupsResponse.DescribedGroup
DeletableGroupResult = DeleteGroupsResponse.DeletableGroupResult

DEAD = "Dead"
"""The state of missing groups in DescribeGroups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsEra:
    """Traits of a range of DescribeGroups versions."""

    missing_group: ErrorCode
    """The error code of a missing group; before v6 only its state shows that it is missing."""


DESCRIBE_GROUPS_ERAS = Eras(
    (0, DescribeGroupsEra(missing_group=ErrorCode.NONE)),
    (6, DescribeGroupsEra(missing_group=ErrorCode.GROUP_ID_NOT_FOUND)),
)


@sees_ended_sessions
def handle_list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups of this node's shards that match the state and type filters.

    The order is that of Kafka's hash maps of shards and of their groups.
    """
    # Unknown names match nothing. Kafka trims state names, but not type names.
    states = {trim(state.lower()) for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    coordinator, node_id = call.node.groups, call.node.id
    used = {shard.partition: shard for shard in coordinator.shards_led_by(node_id)}
    led = in_java_order(coordinator.partitions_led_by(node_id), _offsets_partition_hash)
    shards = [used[partition] for partition in led if partition in used]
    listed = [
        ListGroupsResponse.ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name(),
            group_type=group.group_type.value,
        )
        for shard in shards
        for groups in (shard.machine.directory.groups,)
        for group_id in in_steps(in_timeline_order(groups, string_hash))
        if (group := groups.get(group_id)) is not None  # it may end during a pause
        and (not states or _state_filter_name(group.state_name()) in states)
        and (not types or group.group_type.value in types)
    ]
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=listed)


def _offsets_partition_hash(partition: int) -> int:
    return named_partition_hash(OFFSETS_TOPIC, partition)


def _state_filter_name(state: str) -> str:
    """Return the name of a state in filters: the state's name in lower case.

    Kafka's filter name of NotReady is "not_ready", so a filter "NotReady" does not match it.
    """
    return "not_ready" if state == "NotReady" else state.lower()


@sees_ended_sessions
def handle_describe_groups(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe classic groups; groups of other types have state Dead."""
    groups = []
    duplicate_limit = DuplicateLimit()
    for index, group_id in enumerate(request.groups):
        try:
            duplicate_limit.check(group_id)
            description = _describe(call, group_id)
        except KafkaError as refusal:
            description = refused_row(ApiKey.DESCRIBE_GROUPS, 0, group_id, refusal.code)
        if description.error_code != ErrorCode.NONE and index < MAX_REPORTED:
            error = KafkaError(ErrorCode(description.error_code), description.error_message)
            report_refusal(call, "DescribeGroups", group_id, error)
        if request.include_authorized_operations and description.error_code == ErrorCode.NONE:
            description.authorized_operations = group_operations(call, group_id)
        groups.append(description)
    return DescribeGroupsResponse(groups=groups)


def _describe(call: Call, group_id: str) -> DescribedGroup:
    era: DescribeGroupsEra = call.era
    shard = call.node.groups.locate(group_id, call.node.id)
    machine = shard.machine
    group = machine.classic_group(group_id)
    if group is not None:
        return describe_group(group)
    description: DescribedGroup = refused_row(
        ApiKey.DESCRIBE_GROUPS, 0, group_id, era.missing_group
    )
    description.group_state = DEAD
    if era.missing_group is not ErrorCode.NONE:
        exists = machine.group(group_id) is not None
        description.error_message = group_not_found_error(
            group_id, GroupType.CLASSIC, exists=exists
        ).message
    return description


@sees_ended_sessions
def handle_delete_groups(
    call: Call, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Waiting[DeleteGroupsResponse]:
    """Delete groups without members, with their offsets; each group has its own error code."""
    results: list[DeletableGroupResult] = []
    pending: list[tuple[int, Waiting[None]]] = []
    for index, group_id in enumerate(without_duplicates(request.groups_names)):
        results.append(DeletableGroupResult(group_id=group_id, error_code=ErrorCode.NONE))
        try:
            deletion = delete_group(call.node, group_id)
        except KafkaError as refusal:
            _set_error(call, results, index, refusal)
        else:
            if deletion is not None:
                pending.append((index, deletion))

    deletions: list[Waiting[None] | Exception | None] = [deletion for _, deletion in pending]

    def response(errors: Sequence[Exception | None]) -> DeleteGroupsResponse:
        for (index, _), error in zip(pending, errors, strict=True):
            if error is not None:
                _set_error(call, results, index, error)
        return DeleteGroupsResponse(results=results)

    return chain(gather(deletions), response)


def _set_error(
    call: Call, results: Sequence[DeletableGroupResult], index: int, error: Exception
) -> None:
    """Set the error code of a result; raises an exception that is not a KafkaError again."""
    if not isinstance(error, KafkaError):
        raise error
    result = results[index]
    result.error_code = error.code
    if index < MAX_REPORTED:
        report_refusal(call, "DeleteGroups", result.group_id, error)


def delete_group(node: Node, group_id: str, cause: str = "DeleteGroups") -> Waiting[None] | None:
    """Delete a group without members, with its offsets and its share state, at its coordinator.

    Returns None if it is deleted at once. Raises KafkaError, directly or through the Waiting.
    `cause` names what deletes it in the history.
    """
    shard = node.groups.locate(group_id, node.id)

    def delete(_: None) -> None:
        shard.write(lambda machine, _: machine.offsets.delete_group(group_id, cause))

    return chain(delete_share_state_of_group(node, shard, group_id), delete)


def refuse_delete_groups(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsResponse:
    """Return an error for every requested group.

    Only GROUP_DELETION_FAILED has a message. In Kafka it means that a plug-in for descriptions of
    topologies failed; here it is the error of a fault.
    """
    text = message or code.message if code is ErrorCode.GROUP_DELETION_FAILED else None
    response: DeleteGroupsResponse = refusal(ApiKey.DELETE_GROUPS, request, code, text)
    return response


_HAS_DELETION_ERROR: Final = Eras((0, False), (3, True))
"""Whether a version of DeleteGroups has the error GROUP_DELETION_FAILED."""


def lower_delete_groups(response: DeleteGroupsResponse, version: int) -> DeleteGroupsResponse:
    """Replace an error that the version does not have."""
    if not _HAS_DELETION_ERROR.at(version):
        for result in response.results:
            if result.error_code == ErrorCode.GROUP_DELETION_FAILED:
                result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
    return response


APIS = (
    Api(
        key=ApiKey.DESCRIBE_GROUPS,
        versions=Versions(0, 6),
        handler=handle_describe_groups,
        inline_bytes=0,
        eras=DESCRIBE_GROUPS_ERAS,
    ),
    Api(
        key=ApiKey.LIST_GROUPS,
        other_pausing_lists=frozenset(("states_filter", "types_filter")),
        versions=Versions(0, 5),
        handler=handle_list_groups,
        inline_bytes=0,
    ),
    Api(
        key=ApiKey.DELETE_GROUPS,
        versions=Versions(0, 3),
        handler=handle_delete_groups,
        inline_bytes=0,
        refusal=refuse_delete_groups,
        lower=lower_delete_groups,
    ),
)
