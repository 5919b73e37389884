"""ListGroups, DescribeGroups, DeleteGroups: groups as an administrator sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api, Eras
from kafkalite.apis.descriptions import GROUP_OPERATIONS, MOST_NOTED
from kafkalite.apis.refusals import note_refusal
from kafkalite.apis.repeats import Repeats
from kafkalite.apis.share_deletion import give_up_share_state
from kafkalite.groups.classic.describe import described
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.delete_groups import DeleteGroupsResponse
from kafkalite.protocol.messages.describe_groups import DescribeGroupsResponse
from kafkalite.protocol.messages.list_groups import ListGroupsResponse
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext
    from kafkalite.protocol.messages.delete_groups import DeleteGroupsRequest
    from kafkalite.protocol.messages.describe_groups import DescribeGroupsRequest
    from kafkalite.protocol.messages.list_groups import ListGroupsRequest

DescribedGroup = DescribeGroupsResponse.DescribedGroup

DEAD = "Dead"
"""The state DescribeGroups gives to a group that is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsEra:
    """What a range of DescribeGroups versions means."""

    missing_group: ErrorCode
    """Before v6 a missing group was only told by its state."""


DESCRIBE_GROUPS_ERAS = Eras(
    (0, DescribeGroupsEra(missing_group=ErrorCode.NONE)),
    (6, DescribeGroupsEra(missing_group=ErrorCode.GROUP_ID_NOT_FOUND)),
)


_JAVA_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))


def handle_list_groups(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups this node coordinates, in any of the states and of the types asked for."""
    # Names that there are not match nothing; Kafka trims the ones of states only.
    states = {state.lower().strip(_JAVA_TRIMMED) for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed = [
        ListGroupsResponse.ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name(),
            group_type=group.group_type.value,
        )
        for shard in context.services.groups.shards_of(context.node_id)
        for group in shard.machine.directory.groups.values()
        if (not states or _filter_word(group.state_name()) in states)
        and (not types or group.group_type.value in types)
    ]
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=listed)


def _filter_word(state: str) -> str:
    """Return what a state is called in a filter: as it is shown, in small letters.

    Of all states one has two words in Kafka, so that nobody who writes it as it is shown finds it.
    """
    return "not_ready" if state == "NotReady" else state.lower()


def refuse_list_groups(
    request: ListGroupsRequest, code: ErrorCode, message: str | None
) -> ListGroupsResponse:
    """Say an error of ListGroups; there is no field for a message."""
    del request, message
    return ListGroupsResponse(error_code=code, groups=[])


def handle_describe_groups(
    context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Describe classic groups; any other is shown as Dead."""
    groups = []
    repeats = Repeats()
    for index, group_id in enumerate(request.groups):
        try:
            repeats.check(group_id)
            shown = _describe(context, group_id)
        except KafkaError as refusal:
            shown = _undescribed(group_id, refusal.code)
        if shown.error_code != ErrorCode.NONE and index < MOST_NOTED:
            error = KafkaError(ErrorCode(shown.error_code), shown.error_message)
            note_refusal(context, "DescribeGroups", group_id, error)
        if request.include_authorized_operations and shown.error_code == ErrorCode.NONE:
            shown.authorized_operations = GROUP_OPERATIONS
        groups.append(shown)
    return DescribeGroupsResponse(groups=groups)


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    era: DescribeGroupsEra = context.era
    shard = context.services.groups.locate(group_id, context.node_id)
    machine = shard.machine
    group = machine.classic_group(group_id)
    if group is not None:
        return described(group)
    shown = _undescribed(group_id, era.missing_group)
    shown.group_state = DEAD
    if era.missing_group is not ErrorCode.NONE:
        is_there = machine.group(group_id) is not None
        shown.error_message = (
            f"Group {group_id} is not a classic group."
            if is_there
            else f"Group {group_id} not found."
        )
    return shown


def _undescribed(group_id: str, code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id,
        error_code=code,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )


def refuse_describe_groups(
    request: DescribeGroupsRequest, code: ErrorCode, message: str | None
) -> DescribeGroupsResponse:
    """Say an error of every group asked for."""
    del message
    return DescribeGroupsResponse(
        groups=[_undescribed(group_id, code) for group_id in request.groups]
    )


def handle_delete_groups(
    context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Delete groups that have no members, their offsets with them; each is answered by itself."""
    results: list[DeleteGroupsResponse.DeletableGroupResult] = []
    for group_id in dict.fromkeys(request.groups_names):
        code = ErrorCode.NONE
        try:
            _delete(context, group_id)
        except KafkaError as refusal:
            if len(results) < MOST_NOTED:
                note_refusal(context, "DeleteGroups", group_id, refusal)
            code = refusal.code
        results.append(
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=code)
        )
    return DeleteGroupsResponse(results=results)


def _delete(context: RequestContext, group_id: str) -> None:
    shard = context.services.groups.locate(group_id, context.node_id)
    give_up_share_state(context.services, shard, group_id)
    shard.write(lambda machine, _: machine.offsets.delete_group(group_id))


def refuse_delete_groups(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsResponse:
    """Say an error of every group that was to go."""
    del message
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id in request.groups_names
        ]
    )


APIS = (
    Api(
        key=15,
        versions=Versions(0, 6),
        handler=handle_describe_groups,
        refuse=refuse_describe_groups,
        eras=DESCRIBE_GROUPS_ERAS,
    ),
    Api(key=16, versions=Versions(0, 5), handler=handle_list_groups, refuse=refuse_list_groups),
    Api(key=42, versions=Versions(0, 2), handler=handle_delete_groups, refuse=refuse_delete_groups),
)
