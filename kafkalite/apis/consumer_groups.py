"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: the consumer group protocol of KIP-848."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api, Eras
from kafkalite.apis.descriptions import describe_each
from kafkalite.groups.assignors.table import assignor_names
from kafkalite.groups.consumer.beat import Client
from kafkalite.groups.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kafkalite.groups.consumer.settings import MEMBER_ID_KEY, MEMBER_ID_UUID
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
from kafkalite.protocol.uuids import is_reserved, uuid_from_text
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.ports.waiting import Waiting

_UNCHANGED_MS = -1

_JAVA_BLANK = "".join(map(chr, range(33)))
"""What Java trims: control characters and the space, no other kind of space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatEra:
    """What a range of ConsumerGroupHeartbeat versions means."""

    client_draws_member_id: bool


# From v1 on the client draws its member id, so that a first heartbeat whose answer was lost can
# be sent again without making a second member (KIP-1082). Any id but a blank one will do, unless
# the broker is set to ask for a UUID, as the KIP did at first.
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
    if era.client_draws_member_id and config.str(MEMBER_ID_KEY) == MEMBER_ID_UUID:
        _check_uuid(request.member_id)
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


def _check_uuid(member_id: str) -> None:
    """Raise KafkaError unless an id is what KIP-1082 first asked for: a UUID as Kafka writes it."""
    try:
        uuid = uuid_from_text(member_id)
    except ValueError:
        raise _invalid("MemberId must be a UUID in URL-safe base64 without padding.") from None
    if is_reserved(uuid):
        raise _invalid("MemberId must not be a reserved UUID.")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _UNCHANGED_MS:
        raise _invalid("RebalanceTimeoutMs must be given on joining.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty on joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("SubscribedTopicNames or SubscribedTopicRegex must be given on joining.")


def _check_not_blank(field: str, value: str | None) -> None:
    if value is not None and not value.strip(_JAVA_BLANK):
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
    return ConsumerGroupDescribeResponse(
        groups=describe_each(
            context,
            "ConsumerGroupDescribe",
            request,
            lambda machine, group_id: machine.consumer.describe(group_id),
            _undescribed,
        )
    )


def _undescribed(
    group_id: str, code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponse.DescribedGroup:
    return ConsumerGroupDescribeResponse.DescribedGroup(
        group_id=group_id, error_code=code, error_message=message
    )


def refuse_consumer_group_describe(
    request: ConsumerGroupDescribeRequest, code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponse:
    """Say the same error of every group asked for."""
    groups = [_undescribed(group_id, code, message) for group_id in request.group_ids]
    return ConsumerGroupDescribeResponse(groups=groups)


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
