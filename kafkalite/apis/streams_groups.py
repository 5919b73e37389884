"""StreamsGroupHeartbeat and StreamsGroupDescribe: the streams group protocol of KIP-1071.

What Kafka 4.3 does not support yet is refused as it refuses it: static members, offsets of tasks,
warm-up tasks in a member's hands, and source topics by regular expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api
from kafkalite.apis.descriptions import describe_each
from kafkalite.coordinator.contract import Event
from kafkalite.groups.consumer.beat import Client
from kafkalite.groups.streams.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from kafkalite.groups.streams.status import StatusCode, name_some
from kafkalite.groups.streams.topology import UNDECIDED
from kafkalite.metadata.creation import BROKER_DEFAULT, MAX_PARTITIONS_PER_REQUEST, NewTopic
from kafkalite.metadata.image import INTERNAL_TOPICS
from kafkalite.metadata.topic_names import name_complaint
from kafkalite.ports.waiting import when
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kafkalite.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.apis.context import RequestContext, Services
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.streams.beat import Beaten
    from kafkalite.groups.streams.topology import InternalTopic
    from kafkalite.ports.waiting import Waiting

_UNCHANGED_MS = -1


def handle_streams_group_heartbeat(
    context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | Waiting[StreamsGroupHeartbeatResponse]:
    """Let a member join, stay in, or leave a group, and make the topics its application lacks."""
    services = context.services
    check_protocol_enabled(services.config)
    if request.topology is not None:
        _check_topic_names(request.topology)
    _check_supported(request)
    _check_form(request)
    client = Client(context.client_id or "", context.client_host)
    shard = services.groups.locate(request.group_id, context.node_id)
    beaten = shard.write(lambda machine, now_ms: machine.streams.heartbeat(request, client, now_ms))
    return when(beaten, lambda done: _make_missing_topics(services, request.group_id, done))


def check_protocol_enabled(config: BrokerConfig) -> None:
    """Raise KafkaError(UNSUPPORTED_VERSION) where the broker is set not to speak KIP-1071."""
    if "streams" not in config.list("group.coordinator.rebalance.protocols"):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def _check_topic_names(topology: StreamsGroupHeartbeatRequest.Topology) -> None:
    """Raise KafkaError(STREAMS_INVALID_TOPOLOGY) for topics an application must not have."""
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
    if internal := [name for name in names if name in INTERNAL_TOPICS]:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"A topology must not use topics of Kafka's own: {name_some(internal)}.",
        )
    if invalid := [name for name in names if name_complaint(name) is not None]:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"These names cannot be topics': {name_some(invalid)}.",
        )


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise KafkaError(INVALID_REQUEST) for what Kafka 4.3 leaves to later versions."""
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


def _check_form(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise KafkaError unless the request has a form that a member may send.

    INVALID_REQUEST, or STREAMS_INVALID_TOPOLOGY, in Kafka's order of checks.
    """
    _check_not_blank("MemberId", request.member_id)
    _check_not_blank("GroupId", request.group_id)
    _check_not_blank("RackId", request.rack_id)
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH:
        raise _invalid("InstanceId is needed to leave for a while.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch {request.member_epoch} means nothing.")
    if any(kind is not None for kind in tasks) and any(kind is None for kind in tasks):
        raise _invalid("Who says which tasks it has must say so of every kind.")
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        raise _invalid("Topology can be given on joining alone.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _UNCHANGED_MS:
        raise _invalid("RebalanceTimeoutMs must be given on joining.")
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if tasks is None or tasks:
            raise _invalid(f"{name} must be empty on joining.")
    if request.topology is None:
        raise _invalid("Topology must be given on joining.")
    for subtopology in request.topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != UNDECIDED:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog {topic.name} must leave its number of partitions open.",
                )


def _check_not_blank(field: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{field} can't be blank.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _make_missing_topics(
    services: Services, group_id: str, done: Beaten
) -> StreamsGroupHeartbeatResponse:
    """Make the internal topics that a heartbeat found missing; its answer says that it did.

    Kafka makes them after it has answered, and tells what went wrong in a later answer. Here they
    are there at once, so this answer tells.
    """
    if done.missing_topics:
        failed = _made(services, done.missing_topics)
        services.journal.note(
            _told_of_topics(group_id, done.missing_topics, failed), services.clock.now_ms()
        )
        for status in done.response.status or ():
            if failed and status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                status.status_detail += f" They could not be made: {name_some(failed)}."
    return done.response


def _told_of_topics(group_id: str, topics: Sequence[InternalTopic], failed: list[str]) -> Event:
    names = [topic.name for topic in topics]
    text = f"internal topics made: {name_some(names)}"
    if failed:
        text = f"internal topics could not be made: {name_some(failed)}"
    facts = {"topics": names, "partitions": [topic.partitions for topic in topics]}
    return Event(group_id, "topics", text, {**facts, "failed": failed})


def _made(services: Services, topics: Sequence[InternalTopic]) -> list[str]:
    """Make topics, and return those that could not be made, with the reasons.

    More than one request may make are not even tried: every heartbeat would try them again.
    """
    if sum(1 + max(topic.partitions, 1) for topic in topics) > MAX_PARTITIONS_PER_REQUEST:
        return [f"{topic.name} (one of too many at once)" for topic in topics]
    wanted = [
        NewTopic(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor or BROKER_DEFAULT,
            configs=dict(topic.configs),
        )
        for topic in topics
    ]
    try:
        creations = services.metadata.create_topics(wanted)
    except KafkaError as error:
        return [f"{new.name} ({error.message or error.code.message})" for new in wanted]
    return [
        f"{each.name} ({each.error.message or each.error.code.message})"
        for each in creations
        if each.error is not None
    ]


def refuse_streams_group_heartbeat(
    request: StreamsGroupHeartbeatRequest,  # noqa: ARG001 - every refusal has this shape
    code: ErrorCode,
    message: str | None,
) -> StreamsGroupHeartbeatResponse:
    """Say an error and nothing else."""
    return StreamsGroupHeartbeatResponse(error_code=code, error_message=message)


def handle_streams_group_describe(
    context: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    """Describe groups, each with its own error if it has one."""
    check_protocol_enabled(context.services.config)
    return StreamsGroupDescribeResponse(
        groups=describe_each(
            context,
            "StreamsGroupDescribe",
            request,
            lambda machine, group_id: machine.streams.describe(group_id),
            _undescribed,
        )
    )


def _undescribed(
    group_id: str, code: ErrorCode, message: str | None
) -> StreamsGroupDescribeResponse.DescribedGroup:
    return StreamsGroupDescribeResponse.DescribedGroup(
        group_id=group_id, error_code=code, error_message=message
    )


def refuse_streams_group_describe(
    request: StreamsGroupDescribeRequest, code: ErrorCode, message: str | None
) -> StreamsGroupDescribeResponse:
    """Say the same error of every group asked for."""
    groups = [_undescribed(group_id, code, message) for group_id in request.group_ids]
    return StreamsGroupDescribeResponse(groups=groups)


APIS = (
    Api(
        key=StreamsGroupHeartbeatRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_streams_group_heartbeat,
        refuse=refuse_streams_group_heartbeat,
    ),
    Api(
        key=StreamsGroupDescribeRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_streams_group_describe,
        refuse=refuse_streams_group_describe,
    ),
)
