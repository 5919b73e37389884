"""ShareGroupHeartbeat and ShareGroupDescribe: membership in share groups (KIP-932)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api
from kafkalite.apis.descriptions import describe_each
from kafkalite.groups.consumer.beat import Client
from kafkalite.groups.share.member import JOIN_EPOCH, LEAVE_EPOCH
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kafkalite.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext, Services
    from kafkalite.ports.waiting import Waiting

LONGEST_MEMBER_ID = 36
"""How many characters, as Java counts them, the id of a member may have."""

_FEATURE = "share.version"


def check_share_groups_enabled(services: Services) -> None:
    """Raise KafkaError(UNSUPPORTED_VERSION) in a cluster that has given up share groups."""
    if not services.metadata.image.features.get(_FEATURE):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def check_member_id(member_id: str) -> None:
    """Raise KafkaError(INVALID_REQUEST) for what cannot be the id of a share group's member."""
    units = len(member_id.encode("utf-16-le", "surrogatepass")) // 2
    if not 0 < units <= LONGEST_MEMBER_ID:
        # Without a message, as in Kafka; whoever asks for an explanation is told more.
        facts = {"rule": "member-id-length", "length": units, "longest": LONGEST_MEMBER_ID}
        raise KafkaError(ErrorCode.INVALID_REQUEST, facts=facts)


def handle_share_group_heartbeat(
    context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Waiting[ShareGroupHeartbeatResponse]:
    """Let a member join, stay in, or leave a group."""
    services = context.services
    check_share_groups_enabled(services)
    check_heartbeat(request)
    client = Client(context.client_id or "", context.client_host)
    shard = services.groups.locate(request.group_id, context.node_id)
    answer = shard.read(lambda machine, now_ms: machine.share.steady(request, client, now_ms))
    if answer is not None:
        return answer
    # Members heartbeat whether or not there is a place for share state. Partitions without it are
    # given to nobody, and a later heartbeat tries again.
    with suppress(KafkaError):
        services.shares.have_topic()
    return shard.write(lambda machine, now_ms: machine.share.heartbeat(request, client, now_ms))


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Raise KafkaError(INVALID_REQUEST) unless a member may send this; Kafka's order of checks."""
    check_member_id(request.member_id)
    _check_not_blank("MemberId", request.member_id)
    _check_not_blank("GroupId", request.group_id)
    _check_not_blank("RackId", request.rack_id)
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise _invalid("SubscribedTopicNames must be given on joining.")
    if request.member_epoch < LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch {request.member_epoch} means nothing.")


def _check_not_blank(field: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{field} can't be blank.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def refuse_share_group_heartbeat(
    request: ShareGroupHeartbeatRequest,  # noqa: ARG001 - every refusal has this shape
    code: ErrorCode,
    message: str | None,
) -> ShareGroupHeartbeatResponse:
    """Say an error and nothing else."""
    return ShareGroupHeartbeatResponse(error_code=code, error_message=message)


def handle_share_group_describe(
    context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """Describe groups, each with its own error if it has one."""
    check_share_groups_enabled(context.services)
    return ShareGroupDescribeResponse(
        groups=describe_each(
            context,
            "ShareGroupDescribe",
            request,
            lambda machine, group_id: machine.share.describe(group_id),
            _undescribed,
        )
    )


def _undescribed(
    group_id: str, code: ErrorCode, message: str | None
) -> ShareGroupDescribeResponse.DescribedGroup:
    return ShareGroupDescribeResponse.DescribedGroup(
        group_id=group_id, error_code=code, error_message=message
    )


def refuse_share_group_describe(
    request: ShareGroupDescribeRequest, code: ErrorCode, message: str | None
) -> ShareGroupDescribeResponse:
    """Say the same error of every group asked for."""
    groups = [_undescribed(group_id, code, message) for group_id in request.group_ids]
    return ShareGroupDescribeResponse(groups=groups)


APIS = (
    Api(
        key=ShareGroupHeartbeatRequest.API_KEY,
        versions=Versions(1, 1),
        handler=handle_share_group_heartbeat,
        refuse=refuse_share_group_heartbeat,
        is_repeated=True,
    ),
    Api(
        key=ShareGroupDescribeRequest.API_KEY,
        versions=Versions(1, 1),
        handler=handle_share_group_describe,
        refuse=refuse_share_group_describe,
    ),
)
