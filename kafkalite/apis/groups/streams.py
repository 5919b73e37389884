"""The APIs of streams groups: heartbeats, descriptions, descriptions of topologies (KIP-1071).

Features that the emulated release does not support are refused as in Kafka: source topics by
regular expression, and before Kafka 4.4 static members, task offsets, and warm-up tasks reported by
members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.blank_fields import check_not_blank
from kafkalite.apis.groups.descriptions import describe_each
from kafkalite.coordinator.contract import Event
from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, MAX_ELEMENTS_WITH_OWN_LIMITS, Api, Eras
from kafkalite.gateway.overdue_calls import after_overdue_calls, sees_ended_sessions
from kafkalite.groups.modern.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH, Client
from kafkalite.groups.streams.descriptions import check_description_size
from kafkalite.groups.streams.heartbeat import StreamsHeartbeatEra
from kafkalite.groups.streams.settings import stores_descriptions
from kafkalite.groups.streams.status import StatusCode, format_topic_names
from kafkalite.groups.streams.topology import UNDECIDED, check_member_size, check_size
from kafkalite.metadata.creation import BROKER_DEFAULT, MAX_PARTITIONS_PER_REQUEST, NewTopic
from kafkalite.metadata.features import STREAMS_VERSION, is_disabled
from kafkalite.metadata.image import INTERNAL_TOPICS
from kafkalite.metadata.topic_names import invalid_name_reason
from kafkalite.ports.waiting import when
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kafkalite.protocol._generated.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions
from kafkalite.security.acls import CLUSTER_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.cluster.pace import Pace
    from kafkalite.gateway.call import Call
    from kafkalite.groups.streams.heartbeat import StreamsHeartbeatResult
    from kafkalite.groups.streams.topology import InternalTopic
    from kafkalite.ports.waiting import Waiting
    from kafkalite.security.permissions import Permissions

_UNCHANGED_MS = -1


def handle_streams_group_heartbeat(
    call: Call, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | Waiting[StreamsGroupHeartbeatResponse]:
    """Handle a heartbeat, and create the internal topics that the application lacks."""
    node = call.node
    check_protocol_enabled(node)
    check_member_size(request)
    if request.topology is not None:
        check_size(request.topology)
        check_topic_names(request.topology)
    _check_supported(
        request, accepts_all_members=node.config.release.rules.accepts_all_streams_members
    )
    _check_fields(request)
    if request.member_epoch == JOIN_EPOCH:
        # The sessions of members decide whether there is room for another member.
        return after_overdue_calls(call, request, _update_member)
    return _update_member(call, request)


def _update_member(
    call: Call, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | Waiting[StreamsGroupHeartbeatResponse]:
    node = call.node
    client = Client(call.client_id or "", call.client_host)
    shard = node.groups.locate(request.group_id, node.id)
    era: StreamsHeartbeatEra = call.era
    result = shard.write(
        lambda machine, now_ms: machine.streams.heartbeat(request, client, now_ms, era)
    )
    permissions = call.permissions
    return when(
        result, lambda result: _create_missing_topics(node, permissions, request.group_id, result)
    )


def check_protocol_enabled(node: Node) -> None:
    """Raise KafkaError(UNSUPPORTED_VERSION) if the streams protocol is disabled.

    Its setting or the level of its feature disables it.
    """
    config = node.config
    if "streams" not in config.list("group.coordinator.rebalance.protocols") or is_disabled(
        STREAMS_VERSION, config.release, node.image.features
    ):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def topics_of(topology: StreamsGroupHeartbeatRequest.Topology) -> list[str]:
    """Return the names of all topics in a topology, without repetitions."""
    names = {
        name: None
        for subtopology in topology.subtopologies
        for name in (
            *subtopology.source_topics,
            *subtopology.repartition_sink_topics,
            *(topic.name for topic in subtopology.repartition_source_topics),
            *(topic.name for topic in subtopology.state_changelog_topics),
        )
    }
    return list(names)


def check_topic_names(topology: StreamsGroupHeartbeatRequest.Topology) -> None:
    """Raise KafkaError(STREAMS_INVALID_TOPOLOGY) for invalid or Kafka-internal topic names."""
    names = topics_of(topology)
    if internal := [name for name in names if name in INTERNAL_TOPICS]:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"A topology must not use internal topics of Kafka: {format_topic_names(internal)}.",
        )
    if invalid := [name for name in names if invalid_name_reason(name) is not None]:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Invalid topic names: {format_topic_names(invalid)}.",
        )


def _check_supported(request: StreamsGroupHeartbeatRequest, *, accepts_all_members: bool) -> None:
    """Raise KafkaError(INVALID_REQUEST) for features that the emulated release does not support."""
    if not accepts_all_members:
        if request.instance_id is not None:
            raise _invalid("Static members are not supported yet.")
        if request.task_offsets is not None or request.task_end_offsets is not None:
            raise _invalid("TaskOffsets and TaskEndOffsets are not supported yet.")
        if request.warmup_tasks:
            raise _invalid("WarmupTasks are not supported yet.")
    if request.topology is not None and any(
        subtopology.source_topic_regex for subtopology in request.topology.subtopologies
    ):
        raise _invalid("Regular expressions for source topics are not supported yet.")


def _check_fields(request: StreamsGroupHeartbeatRequest) -> None:
    """Validate the fields of a heartbeat, in Kafka's order.

    Raises KafkaError(INVALID_REQUEST) or KafkaError(STREAMS_INVALID_TOPOLOGY).
    """
    check_not_blank("MemberId", request.member_id)
    check_not_blank("GroupId", request.group_id)
    check_not_blank("InstanceId", request.instance_id)
    check_not_blank("RackId", request.rack_id)
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId must be set in order to leave temporarily.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch {request.member_epoch} is invalid.")
    if any(kind is not None for kind in tasks) and any(kind is None for kind in tasks):
        raise _invalid("ActiveTasks, StandbyTasks and WarmupTasks must be set together.")
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        raise _invalid("Topology must be null except on joining.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _UNCHANGED_MS:
        raise _invalid("RebalanceTimeoutMs must be set on joining.")
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if tasks is None or tasks:
            raise _invalid(f"{name} must be empty on joining.")
    if request.topology is None:
        raise _invalid("Topology must be set on joining.")
    for subtopology in request.topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != UNDECIDED:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog {topic.name} must not set a partition count.",
                )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _create_missing_topics(
    node: Node, permissions: Permissions | None, group_id: str, result: StreamsHeartbeatResult
) -> StreamsGroupHeartbeatResponse:
    """Create the missing internal topics of a heartbeat, and add failures to its response.

    Kafka creates them after the response and reports failures in a later response. With its pace,
    topics that can be created are created late.
    """
    if forbidden := _forbidden_topics(permissions, result.missing_topics):
        _report_forbidden_topics(result.response, forbidden)
        return result.response
    if result.missing_topics:
        failed = _create_all(node, group_id, result.missing_topics)
        for status in result.response.status or ():
            if failed and status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                status.status_detail += f" They could not be created: {format_topic_names(failed)}."
    return result.response


def _create_all(node: Node, group_id: str, topics: Sequence[InternalTopic]) -> list[str]:
    """Create topics, at once or with the delay of a real Kafka; return the failed ones."""
    pace = node.cluster.pace
    if pace is not None:
        failed = _create_topics(node, topics, validate_only=True)
        if not failed:
            _create_all_late(node, pace, group_id, topics)
            return []
    else:
        failed = _create_topics(node, topics)
    _report_creation(node, group_id, topics, failed)
    return failed


def _create_all_late(
    node: Node, pace: Pace, group_id: str, topics: Sequence[InternalTopic]
) -> None:
    by_name = {topic.name: topic for topic in topics}

    def create(names: Sequence[str]) -> None:
        existing = node.cluster.metadata.image.topics
        missing = [by_name[name] for name in names if name not in existing]
        if missing:
            _report_creation(node, group_id, missing, _create_topics(node, missing))

    pace.create_later(tuple(by_name), create)


def _report_creation(
    node: Node, group_id: str, topics: Sequence[InternalTopic], failed: list[str]
) -> None:
    event = _internal_topics_event(group_id, topics, failed)
    node.history.add(event, node.clock.now_ms())


def _forbidden_topics(
    permissions: Permissions | None, topics: Sequence[InternalTopic]
) -> list[str]:
    """Return the missing topics that the client may not create."""
    if permissions is None or permissions.allows(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME):
        return []
    return [
        topic.name
        for topic in topics
        if not permissions.allows(Operation.CREATE, Resource.TOPIC, topic.name)
    ]


def _report_forbidden_topics(response: StreamsGroupHeartbeatResponse, topics: list[str]) -> None:
    """Add the topics that the client may not create to the status of missing topics."""
    detail = f"Unauthorized to CREATE on topics {', '.join(topics)}."
    statuses = response.status = [] if response.status is None else response.status
    for status in statuses:
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {detail}"
            return
    statuses.append(
        StreamsGroupHeartbeatResponse.Status(
            status_code=StatusCode.MISSING_INTERNAL_TOPICS, status_detail=detail
        )
    )


def _internal_topics_event(
    group_id: str, topics: Sequence[InternalTopic], failed: list[str]
) -> Event:
    names = [topic.name for topic in topics]
    text = f"internal topics created: {format_topic_names(names)}"
    if failed:
        text = f"internal topics could not be created: {format_topic_names(failed)}"
    facts = {"topics": names, "partitions": [topic.partitions for topic in topics]}
    return Event(group_id, "topics", text, {**facts, "failed_topics": failed})


def _create_topics(
    node: Node, topics: Sequence[InternalTopic], *, validate_only: bool = False
) -> list[str]:
    """Create topics; return the failed ones with the reasons.

    If the topics exceed a limit of one request, it creates none of them. With `validate_only`, it
    only checks whether they can be created.
    """
    if sum(max(topic.partitions, 1) for topic in topics) > MAX_PARTITIONS_PER_REQUEST:
        return [f"{topic.name} ({ErrorText.TOO_MANY_PARTITIONS.template})" for topic in topics]
    requested = [
        NewTopic(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor or BROKER_DEFAULT,
            configs=dict(topic.configs),
        )
        for topic in topics
    ]
    try:
        creations = node.cluster.metadata.create_topics(requested, validate_only=validate_only)
    except KafkaError as error:
        return [f"{new.name} ({error.message or error.code.message})" for new in requested]
    return [
        f"{each.name} ({each.error.message or each.error.code.message})"
        for each in creations
        if each.error is not None
    ]


@sees_ended_sessions
def handle_streams_group_describe(
    call: Call, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    """Describe groups; each group has its own error code."""
    check_protocol_enabled(call.node)
    return StreamsGroupDescribeResponse(
        groups=describe_each(
            call,
            ApiKey.STREAMS_GROUP_DESCRIBE,
            request,
            lambda machine, group_id: machine.streams.describe(
                group_id, includes_description=request.include_topology_description
            ),
        )
    )


def handle_streams_group_topology_description_update(
    call: Call, request: StreamsGroupTopologyDescriptionUpdateRequest
) -> (
    StreamsGroupTopologyDescriptionUpdateResponse
    | Waiting[StreamsGroupTopologyDescriptionUpdateResponse]
):
    """Store the description of a topology, if a plugin is configured (KIP-1331)."""
    node = call.node
    check_protocol_enabled(node)
    if not stores_descriptions(node.config):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "The broker stores no descriptions of topologies."
        )
    check_not_blank("MemberId", request.member_id)
    check_not_blank("GroupId", request.group_id)
    check_description_size(request.topology_description)
    shard = node.groups.locate(request.group_id, node.id)
    stored = shard.write(lambda machine, now_ms: machine.streams.store_description(request, now_ms))
    return when(stored, lambda _: StreamsGroupTopologyDescriptionUpdateResponse())


APIS = (
    Api(
        key=StreamsGroupHeartbeatRequest.API_KEY,
        max_elements=MAX_ELEMENTS_WITH_OWN_LIMITS,
        versions=Versions(0, 1),
        eras=Eras(
            (0, StreamsHeartbeatEra(reports_missing_tags=False, requests_descriptions=False)),
            (1, StreamsHeartbeatEra()),
        ),
        handler=handle_streams_group_heartbeat,
        check_first=lambda call, _: check_protocol_enabled(call.node),
        inline_bytes=8 * 1024,
    ),
    Api(
        key=StreamsGroupDescribeRequest.API_KEY,
        versions=Versions(0, 1),
        handler=handle_streams_group_describe,
        check_first=lambda call, _: check_protocol_enabled(call.node),
        inline_bytes=0,
    ),
    Api(
        key=StreamsGroupTopologyDescriptionUpdateRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 0),
        handler=handle_streams_group_topology_description_update,
        check_first=lambda call, _: check_protocol_enabled(call.node),
    ),
)
