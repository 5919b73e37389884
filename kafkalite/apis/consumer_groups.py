"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: the consumer group protocol of KIP-848."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api, Eras
from kafkalite.groups.assignors.table import assignor_names
from kafkalite.groups.consumer.beat import Client
from kafkalite.groups.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafkalite.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.ports.waiting import Waiting

_UNCHANGED_MS = -1

_GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))
"""All one may do to a group: read, delete, describe, describe and alter its configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatEra:
    """What a range of ConsumerGroupHeartbeat versions means."""

    client_draws_member_id: bool


# From v1 on the client draws its member id, so that a first heartbeat whose answer was lost can
# be sent again without making a second member (KIP-1082). Any id but a blank one will do.
HEARTBEAT_ERAS = Eras(
    (0, HeartbeatEra(client_draws_member_id=False)),
    (1, HeartbeatEra(client_draws_member_id=True)),
)


def handle_consumer_group_heartbeat(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Waiting[ConsumerGroupHeartbeatResponse]:
    """Let a member join, stay in, or leave a group."""
    services = context.services
    check_protocol_enabled(services.config)
    check_heartbeat(request, context.era, services.config)
    client = Client(context.client_id or "", context.client_host)
    shard = services.groups.locate(request.group_id, context.node_id)
    answer = shard.read(lambda machine, now_ms: machine.consumer.steady(request, client, now_ms))
    if answer is not None:
        return answer
    return shard.write(lambda machine, now_ms: machine.consumer.heartbeat(request, client, now_ms))


def check_protocol_enabled(config: BrokerConfig) -> None:
    """Raise KafkaError(UNSUPPORTED_VERSION) where the broker is set not to speak KIP-848."""
    if "consumer" not in config.list("group.coordinator.rebalance.protocols"):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, era: HeartbeatEra, config: BrokerConfig
) -> None:
    """Raise KafkaError unless the request has a form that a member may send.

    INVALID_REQUEST, in Kafka's order of checks; UNSUPPORTED_ASSIGNOR, which even a member that
    leaves is told.
    """
    epoch = request.member_epoch
    if era.client_draws_member_id or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        _check_not_blank("MemberId", request.member_id)
    _check_not_blank("GroupId", request.group_id)
    _check_not_blank("InstanceId", request.instance_id)
    _check_not_blank("RackId", request.rack_id)
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId is needed to leave for a while.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch {epoch} means nothing.")
    assignor = request.server_assignor
    if assignor is not None:
        known = assignor_names(config.list("group.consumer.assignors"))
        if assignor not in known:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {assignor} is not supported; supported are {', '.join(known)}.",
            )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _UNCHANGED_MS:
        raise _invalid("RebalanceTimeoutMs must be given on joining.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty on joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("SubscribedTopicNames or SubscribedTopicRegex must be given on joining.")


def _check_not_blank(field: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{field} can't be blank.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def refuse_consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest,  # noqa: ARG001 - every refusal has this shape
    code: ErrorCode,
    message: str | None,
) -> ConsumerGroupHeartbeatResponse:
    """Say an error and nothing else."""
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


def handle_consumer_group_describe(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describe groups, each with its own error if it has one."""
    check_protocol_enabled(context.services.config)
    groups = [_describe(context, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = _GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(
    context: RequestContext, group_id: str
) -> ConsumerGroupDescribeResponse.DescribedGroup:
    if not group_id:
        return ConsumerGroupDescribeResponse.DescribedGroup(
            group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID
        )
    try:
        shard = context.services.groups.locate(group_id, context.node_id)
        return shard.machine.consumer.describe(group_id)
    except KafkaError as error:
        return ConsumerGroupDescribeResponse.DescribedGroup(
            group_id=group_id, error_code=error.code, error_message=error.message
        )


def refuse_consumer_group_describe(
    request: ConsumerGroupDescribeRequest, code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponse:
    """Say the same error of every group asked for."""
    return ConsumerGroupDescribeResponse(
        groups=[
            ConsumerGroupDescribeResponse.DescribedGroup(
                group_id=group_id, error_code=code, error_message=message
            )
            for group_id in request.group_ids
        ]
    )


APIS = (
    Api(
        key=ConsumerGroupHeartbeatRequest.API_KEY,
        versions=Versions(0, 1),
        handler=handle_consumer_group_heartbeat,
        refuse=refuse_consumer_group_heartbeat,
        eras=HEARTBEAT_ERAS,
        is_repeated=True,
    ),
    Api(
        key=ConsumerGroupDescribeRequest.API_KEY,
        versions=Versions(0, 1),
        handler=handle_consumer_group_describe,
        refuse=refuse_consumer_group_describe,
    ),
)
