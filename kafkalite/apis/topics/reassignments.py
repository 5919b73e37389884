"""AlterPartitionReassignments and ListPartitionReassignments: moving replicas (KIP-455).

The controller decides. Added replicas on running nodes have the whole log at once, so most
reassignments are complete when the response is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.timeouts import check_timeout
from kafkalite.gateway.api import Api
from kafkalite.metadata.reassignment import RequestedReassignment, is_reassigned
from kafkalite.ports.turns import chunks, in_steps
from kafkalite.protocol._generated.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kafkalite.protocol._generated.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.gateway.call import Call
    from kafkalite.metadata.image import PartitionImage, TopicImage
    from kafkalite.protocol.errors import KafkaError

MAX_PARTITIONS_PER_REASSIGNMENT = 500
"""Maximum number of partitions per decision of the controller."""


def handle_alter_partition_reassignments(
    call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin, change or cancel reassignments; each partition succeeds or fails on its own."""
    if not request.topics:
        # Kafka's response has no null here.
        return AlterPartitionReassignmentsResponse(error_message="")
    check_timeout(request.timeout_ms)
    responses = [
        AlterPartitionReassignmentsResponse.ReassignableTopicResponse(name=topic.name)
        for topic in request.topics
    ]
    requested = [
        (
            response,
            RequestedReassignment(
                topic.name,
                partition.partition_index,
                None if partition.replicas is None else tuple(partition.replicas),
            ),
        )
        for topic, response in zip(request.topics, responses, strict=True)
        for partition in topic.partitions
    ]
    for batch in chunks(requested, MAX_PARTITIONS_PER_REASSIGNMENT):
        errors = call.node.cluster.metadata.alter_reassignments(
            [reassignment for _, reassignment in batch],
            may_change_replication_factor=request.allow_replication_factor_change,
        )
        for (response, reassignment), error in zip(batch, errors, strict=True):
            response.partitions.append(_partition_response(reassignment.partition, error))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


def _partition_response(
    index: int, error: KafkaError | None
) -> AlterPartitionReassignmentsResponse.ReassignablePartitionResponse:
    return AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )


def handle_list_partition_reassignments(
    call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the reassignments in progress: those of the requested partitions, or all."""
    image = call.node.cluster.metadata.image
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = []
    if request.topics is None:
        for topic in in_steps(image.topics.values()):
            _add_reassignments(topics, topic, topic.partitions)
    else:
        for requested in request.topics:
            found = image.topics.get(requested.name)
            if found is not None:
                partitions = [
                    found.partitions[index]
                    for index in requested.partition_indexes
                    if 0 <= index < len(found.partitions)
                ]
                _add_reassignments(topics, found, partitions)
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _add_reassignments(
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment],
    topic: TopicImage,
    partitions: Iterable[PartitionImage],
) -> None:
    """Add the topic to `topics`, if one of these partitions of it is reassigned."""
    ongoing = [
        ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
            partition_index=partition.index,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding),
            removing_replicas=list(partition.removing),
        )
        for partition in partitions
        if is_reassigned(partition)
    ]
    if ongoing:
        topics.append(
            ListPartitionReassignmentsResponse.OngoingTopicReassignment(
                name=topic.name, partitions=ongoing
            )
        )


APIS = (
    Api(
        key=AlterPartitionReassignmentsRequest.API_KEY,
        versions=Versions(0, 1),
        handler=handle_alter_partition_reassignments,
        inline_bytes=0,
    ),
    Api(
        key=ListPartitionReassignmentsRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_list_partition_reassignments,
        inline_bytes=0,
    ),
)
