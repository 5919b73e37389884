"""DescribeLogDirs and AlterReplicaLogDirs: partitions in the log directory (KIP-113, KIP-827).

A node has one log directory, so a replica can only be moved to where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.gateway.api import Api
from kafkalite.ports.turns import in_steps
from kafkalite.protocol._generated.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from kafkalite.protocol._generated.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition

_MAX_TOPIC_AND_INDEX_LENGTH = 214
"""Length of a topic's name and an index with which the name of a moved directory, 41 characters
longer in Kafka, still has at most 255 characters."""


def handle_describe_log_dirs(
    call: Call, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Return the sizes of the node's replicas: those in the request, or all.

    All nodes share one data directory with one log per partition, so each node reports the logs of
    its replicas. Partitions without a replica on this node are omitted.
    """
    table = call.node.partitions
    requested: dict[str, set[int]] | None = None
    if request.topics is not None:
        requested = {}
        for topic in request.topics:
            requested.setdefault(topic.topic, set()).update(topic.partitions)
    topics = []
    for hosted in table.topics():
        if requested is not None and hosted.name not in requested:
            continue
        replicas = [
            _partition(partition)
            for partition in hosted.partitions
            if call.node.id in partition.replicas
            and (requested is None or partition.index in requested[hosted.name])
        ]
        if replicas:
            topics.append(
                DescribeLogDirsResponse.DescribeLogDirsTopic(name=hosted.name, partitions=replicas)
            )
    space = table.disk_space
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResponse.DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=table.directory,
                topics=topics,
                total_bytes=space.total_bytes,
                usable_bytes=space.usable_bytes,
            )
        ]
    )


def _partition(partition: Partition) -> DescribeLogDirsResponse.DescribeLogDirsPartition:
    # As in Kafka, the lag is that behind the high watermark that the node knows, which is 0 for all
    # replicas of brokers.
    return DescribeLogDirsResponse.DescribeLogDirsPartition(
        partition_index=partition.index,
        partition_size=partition.log.size_bytes,
        offset_lag=0,
        is_future_key=False,
    )


def handle_alter_replica_log_dirs(
    call: Call, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Return for each partition whether its replica on this node is in the requested directory.

    If a partition is requested several times, the last directory counts, as in Kafka.
    """
    paths: dict[str, dict[int, str]] = {}
    for requested in request.dirs:
        for topic in requested.topics:
            paths.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, requested.path))
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult(
                        partition_index=index,
                        error_code=_move_replica(call.node, name, index, path),
                    )
                    for index, path in in_steps(path_by_index.items())
                ],
            )
            for name, path_by_index in in_steps(paths.items())
        ]
    )


def _move_replica(node: Node, topic: str, index: int, path: str) -> ErrorCode:
    """Return the result of moving a replica to a directory, as ReplicaManager in Kafka."""
    if len(topic) + len(str(index)) > _MAX_TOPIC_AND_INDEX_LENGTH:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path != node.partitions.directory:
        return ErrorCode.LOG_DIR_NOT_FOUND
    image = node.image.partition(topic, index)
    hosted = node.partitions.topic(topic)
    if image is None or hosted is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if node.id not in image.replicas:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    try:
        hosted.partition(index)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def refuse_alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest,
    code: ErrorCode,
    message: str | None,  # noqa: ARG001 - there is no field for it
) -> AlterReplicaLogDirsResponse:
    """Return the response with one error for every partition."""
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=code
                    )
                    for index in topic.partitions
                ],
            )
            for requested in request.dirs
            for topic in requested.topics
        ]
    )


APIS = (
    Api(
        key=DescribeLogDirsRequest.API_KEY,
        other_pausing_lists=frozenset(("topics", "partitions")),
        versions=Versions(1, 5),
        handler=handle_describe_log_dirs,
        inline_bytes=0,
    ),
    Api(
        key=AlterReplicaLogDirsRequest.API_KEY,
        other_pausing_lists=frozenset(("dirs", "topics", "partitions")),
        versions=Versions(1, 2),
        handler=handle_alter_replica_log_dirs,
        inline_bytes=0,
        refusal=refuse_alter_replica_log_dirs,
    ),
)
