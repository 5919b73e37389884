"""ShareGroupHeartbeat and ShareGroupDescribe: membership in share groups (KIP-932)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalite.apis.blank_fields import check_not_blank
from kafkalite.apis.groups.descriptions import describe_each
from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, Api
from kafkalite.gateway.overdue_calls import after_overdue_calls, sees_ended_sessions
from kafkalite.groups.modern.member import JOIN_EPOCH, LEAVE_EPOCH, Client
from kafkalite.metadata.features import SHARE_VERSION
from kafkalite.ports.module_steps import ModuleSteps
from kafkalite.protocol._generated.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kafkalite.protocol._generated.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.ports.waiting import Waiting
    from kafkalite.protocol._generated.messages.share_acknowledge import ShareAcknowledgeRequest
    from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest

MAX_MEMBER_ID_LENGTH = 36
"""The maximum length of a member id in characters as Java counts them (UTF-16 units)."""


MODULES_OF_FIRST_MEMBER: Final = ModuleSteps(
    "shares.coordinator",
    "shares.shard",
    "cluster.share_persister",
    "apis.shares.state",
)
"""What the first member needs in addition to the modules of groups: the state of its partitions."""


def check_share_groups_enabled(node: Node) -> None:
    """Raise KafkaError UNSUPPORTED_VERSION if share groups are disabled in this cluster."""
    if not node.image.features.get(SHARE_VERSION):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def check_group_id(call: Call, request: ShareFetchRequest | ShareAcknowledgeRequest) -> None:
    """Raise the KafkaError of a share request without a group id, or if groups are disabled."""
    check_share_groups_enabled(call.node)
    if request.group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A group id is needed.")


def check_member_id(member_id: str) -> None:
    """Raise KafkaError INVALID_REQUEST for an invalid member id of a share group."""
    units = len(member_id.encode("utf-16-le", "surrogatepass")) // 2
    if not 0 < units <= MAX_MEMBER_ID_LENGTH:
        # Without a message, as in Kafka; `explain` shows the facts.
        facts = {"rule": "member-id-length", "length": units, "max_length": MAX_MEMBER_ID_LENGTH}
        raise KafkaError(ErrorCode.INVALID_REQUEST, facts=facts)


def handle_share_group_heartbeat(
    call: Call, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Waiting[ShareGroupHeartbeatResponse]:
    """Handle a heartbeat: a member joins, remains in, or leaves a group."""
    node = call.node
    check_share_groups_enabled(node)
    check_heartbeat(request)
    client = Client(call.client_id or "", call.client_host)
    shard = node.groups.locate(request.group_id, node.id)
    answer = shard.read(
        lambda machine, now_ms: machine.share.steady_heartbeat(request, client, now_ms)
    )
    if answer is not None:
        return answer
    if request.member_epoch == JOIN_EPOCH:
        MODULES_OF_FIRST_MEMBER.load()
        # The sessions of members decide whether there is room for another member.
        return after_overdue_calls(call, request, _update_member)
    return _update_member(call, request)


def loads_modules(call: Call, request: ShareGroupHeartbeatRequest) -> bool:
    """Return whether the request is that of the first member, which loads many modules."""
    del call
    return request.member_epoch == JOIN_EPOCH and not MODULES_OF_FIRST_MEMBER.are_loaded()


def _update_member(
    call: Call, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Waiting[ShareGroupHeartbeatResponse]:
    """Handle a heartbeat that may change the group."""
    node = call.node
    client = Client(call.client_id or "", call.client_host)
    shard = node.groups.locate(request.group_id, node.id)
    # Heartbeats succeed even if share state cannot be stored. Partitions without share state are
    # not assigned, and a later heartbeat tries again.
    with suppress(KafkaError):
        node.share_persister.ensure_topic()
    return shard.write(lambda machine, now_ms: machine.share.heartbeat(request, client, now_ms))


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Raise KafkaError INVALID_REQUEST for an invalid heartbeat; the order is Kafka's."""
    check_member_id(request.member_id)
    check_not_blank("MemberId", request.member_id)
    check_not_blank("GroupId", request.group_id)
    check_not_blank("RackId", request.rack_id)
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise _invalid("SubscribedTopicNames must be set when joining.")
    if request.member_epoch < LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch {request.member_epoch} is not valid.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


@sees_ended_sessions
def handle_share_group_describe(
    call: Call, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """Describe groups; each has its own error if it cannot be described."""
    check_share_groups_enabled(call.node)
    return ShareGroupDescribeResponse(
        groups=describe_each(
            call,
            ApiKey.SHARE_GROUP_DESCRIBE,
            request,
            lambda machine, group_id: machine.share.describe(group_id),
        )
    )


APIS = (
    Api(
        key=ShareGroupHeartbeatRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(1, 1),
        handler=handle_share_group_heartbeat,
        check_first=lambda call, _: check_share_groups_enabled(call.node),
        inline_bytes=8 * 1024,
        is_repeated=True,
        may_take_long=loads_modules,
    ),
    Api(
        key=ShareGroupDescribeRequest.API_KEY,
        versions=Versions(1, 1),
        handler=handle_share_group_describe,
        check_first=lambda call, _: check_share_groups_enabled(call.node),
        inline_bytes=0,
    ),
)
