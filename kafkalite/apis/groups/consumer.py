"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: the consumer group protocol (KIP-848)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.blank_fields import check_not_blank, trim
from kafkalite.apis.groups.descriptions import describe_each
from kafkalite.gateway.api import MAX_ELEMENTS_WITH_PARTITIONS, Api, Eras
from kafkalite.gateway.error_messages import printable
from kafkalite.gateway.overdue_calls import after_overdue_calls, sees_ended_sessions
from kafkalite.groups.assignors.table import assignor_names
from kafkalite.groups.consumer.settings import MEMBER_ID_KEY, MEMBER_ID_UUID
from kafkalite.groups.modern.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH, Client
from kafkalite.metadata.features import GROUP_VERSION, is_disabled
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import is_reserved, parse_uuid
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.gateway.call import Call
    from kafkalite.ports.waiting import Waiting

_UNCHANGED_MS = -1


class InvalidMemberIdError(KafkaError):
    """A heartbeat with an invalid member id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatEra:
    """Traits of a range of ConsumerGroupHeartbeat versions."""

    client_generates_member_id: bool


# Since v1 the client generates its member id, so that it can repeat a first heartbeat without
# creating a second member (KIP-1082). Any id that is not blank is valid, unless the broker is
# configured to require a UUID, as the first version of the KIP did.
HEARTBEAT_ERAS = Eras(
    (0, HeartbeatEra(client_generates_member_id=False)),
    (1, HeartbeatEra(client_generates_member_id=True)),
)


def handle_consumer_group_heartbeat(
    call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Waiting[ConsumerGroupHeartbeatResponse]:
    """Handle a heartbeat of a member that joins, stays or leaves."""
    node = call.node
    check_protocol_enabled(node)
    try:
        check_heartbeat(request, call.era, node.config)
    except InvalidMemberIdError as refusal:
        _log_invalid_member_id(call, request, refusal)
        raise
    client = _client(call)
    shard = node.groups.locate(request.group_id, node.id)
    answer = shard.read(
        lambda machine, now_ms: machine.consumer.steady_heartbeat(request, client, now_ms)
    )
    if answer is not None:
        return answer
    if request.member_epoch == JOIN_EPOCH:
        # The session of another member decides whether its instance id is free.
        return after_overdue_calls(call, request, _update_member)
    return _update_member(call, request)


def _update_member(
    call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Waiting[ConsumerGroupHeartbeatResponse]:
    """Handle a heartbeat that may change the group."""
    client = _client(call)
    shard = call.node.groups.locate(request.group_id, call.node.id)
    return shard.write(lambda machine, now_ms: machine.consumer.heartbeat(request, client, now_ms))


def _client(call: Call) -> Client:
    permissions = call.permissions
    return Client(
        call.client_id or "",
        call.client_host,
        None if permissions is None else permissions.may_describe_topic,
    )


def _log_invalid_member_id(
    call: Call, request: ConsumerGroupHeartbeatRequest, refusal: KafkaError
) -> None:
    """Log the warning that KIP-1082 requires."""
    problem = "invalid" if trim(request.member_id) else "missing"
    call.node.warn_about_client(
        call.client_host.removeprefix("/"),
        f"{problem} member id",
        f"ConsumerGroupHeartbeat refused: {problem} member id",
        group=printable(request.group_id),
        member_id=printable(request.member_id),
        client_id=printable(call.client_id or ""),
        client=call.client_host.removeprefix("/"),
        listener=call.listener,
        reason=refusal.message,
    )


def check_protocol_enabled(node: Node) -> None:
    """Raise KafkaError(UNSUPPORTED_VERSION) if the consumer protocol is disabled.

    Its setting or the level of its feature disables it.
    """
    config = node.config
    if "consumer" not in config.list("group.coordinator.rebalance.protocols") or is_disabled(
        GROUP_VERSION, config.release, node.image.features
    ):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, era: HeartbeatEra, config: BrokerConfig
) -> None:
    """Validate the fields of a heartbeat, in Kafka's order.

    Raises KafkaError(INVALID_REQUEST), or KafkaError(UNSUPPORTED_ASSIGNOR) even for a member that
    leaves.
    """
    epoch = request.member_epoch
    try:
        if era.client_generates_member_id and config.str(MEMBER_ID_KEY) == MEMBER_ID_UUID:
            _check_uuid(request.member_id)
        if era.client_generates_member_id or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
            check_not_blank("MemberId", request.member_id)
    except KafkaError as refusal:
        raise InvalidMemberIdError(refusal.code, refusal.message) from None
    check_not_blank("GroupId", request.group_id)
    check_not_blank("InstanceId", request.instance_id)
    check_not_blank("RackId", request.rack_id)
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId must be set in order to leave temporarily.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch {epoch} is invalid.")
    assignor = request.server_assignor
    if assignor is not None:
        known = assignor_names(config.list("group.consumer.assignors"))
        if assignor not in known:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                ErrorText.UNSUPPORTED_ASSIGNOR.format(
                    assignor=assignor, supported=", ".join(known)
                ),
            )


def _check_uuid(member_id: str) -> None:
    """Raise KafkaError unless an id is a UUID, in any encoding, that is not reserved.

    KIP-1082 recommends URL-safe base64 and requires no encoding; librdkafka sends standard base64.
    """
    try:
        uuid = parse_uuid(member_id)
    except ValueError:
        raise _invalid("MemberId must be a UUID, in base64 or with 36 characters.") from None
    if is_reserved(uuid):
        raise _invalid("MemberId must not be a reserved UUID.")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _UNCHANGED_MS:
        raise _invalid("RebalanceTimeoutMs must be set on joining.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty on joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("SubscribedTopicNames or SubscribedTopicRegex must be set on joining.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


@sees_ended_sessions
def handle_consumer_group_describe(
    call: Call, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describe groups; each group has its own error code."""
    check_protocol_enabled(call.node)
    return ConsumerGroupDescribeResponse(
        groups=describe_each(
            call,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            request,
            lambda machine, group_id: machine.consumer.describe(group_id),
        )
    )


APIS = (
    Api(
        key=ConsumerGroupHeartbeatRequest.API_KEY,
        max_elements=MAX_ELEMENTS_WITH_PARTITIONS,
        versions=Versions(0, 1),
        handler=handle_consumer_group_heartbeat,
        check_first=lambda call, _: check_protocol_enabled(call.node),
        inline_bytes=8 * 1024,
        eras=HEARTBEAT_ERAS,
        is_repeated=True,
    ),
    Api(
        key=ConsumerGroupDescribeRequest.API_KEY,
        versions=Versions(0, 1),
        handler=handle_consumer_group_describe,
        check_first=lambda call, _: check_protocol_enabled(call.node),
        inline_bytes=0,
    ),
)
