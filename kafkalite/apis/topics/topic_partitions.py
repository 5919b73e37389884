"""DescribeTopicPartitions (KIP-966): partitions in pages, with a cursor to continue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.authorized_operations import topic_operations
from kafkalite.gateway.api import Api
from kafkalite.gateway.refusals import report_refused_topics
from kafkalite.metadata.image import INTERNAL_TOPICS, NO_LEADER
from kafkalite.metadata.topic_names import invalid_name_reason
from kafkalite.ports.turns import in_steps
from kafkalite.protocol._generated.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call
    from kafkalite.metadata.image import PartitionImage, TopicImage


def handle_describe_topic_partitions(
    call: Call, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Describe partitions ordered by topic name, up to the requested and configured limit."""
    node = call.node
    topics = node.image.topics
    requested = {topic.name for topic in request.topics}
    names = sorted(requested or topics)
    first_index = 0
    if (cursor := request.cursor) is not None:
        _check_cursor(cursor, requested)
        names = [name for name in in_steps(names) if name >= cursor.topic_name]
    names, refused = _split_by_permission(call, names)
    if cursor is not None and names and names[0] == cursor.topic_name:
        first_index = cursor.partition_index
    limit = node.config.int("max.request.partition.size.limit")
    remaining = max(min(limit, request.response_partition_limit), 1)
    alive_node_ids = frozenset(endpoint.node_id for endpoint in node.known_endpoints(call.listener))
    response = DescribeTopicPartitionsResponse()
    for name in in_steps(names):
        if remaining == 0:
            response.next_cursor = _cursor(name, 0)
            break
        topic = topics.get(name)
        if topic is None:
            response.topics.append(_unknown_topic(call, name))
            continue
        end_index = min(first_index + remaining, len(topic.partitions))
        page = topic.partitions[first_index:end_index]
        response.topics.append(_topic(call, topic, page, alive_node_ids))
        if end_index < len(topic.partitions):
            response.next_cursor = _cursor(name, end_index)
            break
        remaining -= len(page)
        first_index = 0
    if requested:
        # All topics without a list of names are those that the client may describe.
        response.topics += map(_refused_topic, in_steps(refused))
        if refused:
            report_refused_topics(call, "DescribeTopicPartitions", Operation.DESCRIBE, refused)
    return response


def _split_by_permission(call: Call, names: list[str]) -> tuple[list[str], list[str]]:
    """Return the topics that the client may describe, and the others."""
    permissions = call.permissions
    if permissions is None:
        return names, []
    allowed = [
        name
        for name in in_steps(names)
        if permissions.allows(Operation.DESCRIBE, Resource.TOPIC, name)
    ]
    known = frozenset(allowed)
    return allowed, [name for name in in_steps(names) if name not in known]


def _refused_topic(
    name: str,
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name
    )


def _check_cursor(cursor: DescribeTopicPartitionsRequest.Cursor, requested: set[str]) -> None:
    if requested and cursor.topic_name not in requested:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "DescribeTopicPartitionsRequest topic list should contain the cursor topic: "
            f"{cursor.topic_name}",
        )
    if cursor.partition_index < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor!r}",
        )


def _cursor(name: str, index: int) -> DescribeTopicPartitionsResponse.Cursor:
    return DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=index)


def _unknown_topic(
    call: Call,
    name: str,
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(
        error_code=(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if invalid_name_reason(name) is None
            else ErrorCode.INVALID_TOPIC_EXCEPTION
        ),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=topic_operations(call, name),
    )


def _topic(
    call: Call, topic: TopicImage, page: tuple[PartitionImage, ...], alive_node_ids: frozenset[int]
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(partition, alive_node_ids) for partition in page],
        topic_authorized_operations=topic_operations(call, topic.name),
    )


def _partition(
    partition: PartitionImage, alive_node_ids: frozenset[int]
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition:
    has_leader = partition.leader in alive_node_ids
    return DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition(
        # As in Kafka, a partition without a leader is no error here.
        error_code=ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=[
            node_id for node_id in partition.replicas if node_id not in alive_node_ids
        ],
    )


APIS = (
    Api(
        key=DescribeTopicPartitionsRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_describe_topic_partitions,
        inline_bytes=0,
    ),
)
