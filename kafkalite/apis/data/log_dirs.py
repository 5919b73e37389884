"""DescribeLogDirs and AlterReplicaLogDirs: the log directories of a node, and its replicas in them.

KIP-113 has the moves of replicas, KIP-827 the sizes of file systems, KIP-1066 cordoned directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.gateway.api import Api
from kafkalite.metadata.features import FIRST_WITH_CORDONED_DIRECTORIES, METADATA_VERSION
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
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition

_MAX_TOPIC_AND_INDEX_LENGTH = 214
"""Length of a topic's name and an index with which the name of a moved directory, 41 characters
longer in Kafka, still has at most 255 characters."""


def handle_describe_log_dirs(
    call: Call, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Return the node's directories, with the sizes of its replicas: those in the request, or all.

    All nodes share one data directory with one log per partition, so each node reports the logs of
    its replicas. Partitions without a replica on this node are omitted.
    """
    node = call.node
    directories = node.cluster.log_directories
    paths = directories.paths(node.id)
    requested: dict[str, set[int]] | None = None
    if request.topics is not None:
        requested = {}
        for topic in request.topics:
            requested.setdefault(topic.topic, set()).update(topic.partitions)
    topics: dict[str, list[DescribeLogDirsResponse.DescribeLogDirsTopic]]
    topics = {path: [] for path in paths}
    for hosted in node.partitions.topics():
        if requested is not None and hosted.name not in requested:
            continue
        replicas = [
            partition
            for partition in hosted.partitions
            if node.id in partition.replicas
            and (requested is None or partition.index in requested[hosted.name])
        ]
        for path, rows in _rows(node, paths, replicas).items():
            topics[path].append(
                DescribeLogDirsResponse.DescribeLogDirsTopic(name=hosted.name, partitions=rows)
            )
    level = node.image.features.get(METADATA_VERSION, 0)
    cordoned = directories.cordoned(node.id) if level >= FIRST_WITH_CORDONED_DIRECTORIES else ()
    space = node.partitions.disk_space
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResponse.DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=path,
                topics=topics[path],
                total_bytes=space.total_bytes,
                usable_bytes=space.usable_bytes,
                is_cordoned=path in cordoned,
            )
            for path in paths
        ]
        + _offline_rows(directories.offline(node.id))
    )


def _offline_rows(paths: Iterable[str]) -> list[DescribeLogDirsResponse.DescribeLogDirsResult]:
    row = DescribeLogDirsResponse.DescribeLogDirsResult
    return [row(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path) for path in paths]


def _rows(
    node: Node, paths: Sequence[str], replicas: Iterable[Partition]
) -> Mapping[str, list[DescribeLogDirsResponse.DescribeLogDirsPartition]]:
    """Return rows of replicas of one topic by their directories; future replicas have their own."""
    rows: dict[str, list[DescribeLogDirsResponse.DescribeLogDirsPartition]] = {}
    for partition in replicas:
        path = paths[0] if len(paths) == 1 else _path(node, partition)
        # As in Kafka, the lag is that behind the high watermark that the node knows, which is 0 for
        # all replicas of brokers.
        rows.setdefault(path, []).append(
            DescribeLogDirsResponse.DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.size_bytes,
                offset_lag=0,
                is_future_key=False,
            )
        )
        if len(paths) > 1:
            future = node.cluster.log_directories.moves.future(node.id, partition)
            if future is not None:
                rows.setdefault(future.path, []).append(
                    DescribeLogDirsResponse.DescribeLogDirsPartition(
                        partition_index=partition.index,
                        partition_size=future.size_bytes,
                        offset_lag=partition.log.end_offset - future.end_offset,
                        is_future_key=True,
                    )
                )
    return rows


def _path(node: Node, partition: Partition) -> str:
    """Return the directory of a node's replica."""
    cluster = node.cluster
    image = cluster.metadata.image.partition(partition.topic_name, partition.index)
    directories = cluster.log_directories
    return directories.paths(node.id)[0] if image is None else directories.path_of(node.id, image)


def handle_alter_replica_log_dirs(
    call: Call, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Move the replicas on this node to the requested directories; return the result of each.

    If a partition is requested several times, the last directory counts, as in Kafka.
    """
    paths: dict[str, dict[int, str]] = {}
    for requested in request.dirs:
        for topic in requested.topics:
            paths.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, requested.path))
    response = AlterReplicaLogDirsResponse(
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
    if len(call.node.cluster.log_directories.paths(call.node.id)) > 1:
        call.node.cluster.log_directories.moves.save()
    return response


def _move_replica(node: Node, topic: str, index: int, path: str) -> ErrorCode:
    """Move a replica to a directory and return the result, as ReplicaManager in Kafka.

    A replica that the node does not have is in this directory when the node gets it.
    """
    directories = node.cluster.log_directories
    if len(topic) + len(str(index)) > _MAX_TOPIC_AND_INDEX_LENGTH:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path in directories.offline(node.id):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if path not in directories.paths(node.id):
        return ErrorCode.LOG_DIR_NOT_FOUND
    if path in directories.cordoned(node.id):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    try:
        partition = _replica(node, topic, index)
    except KafkaError as error:
        if error.code != ErrorCode.KAFKA_STORAGE_ERROR:
            directories.prefer(node.id, topic, index, path)
        return error.code
    _move(node, partition, path)
    return ErrorCode.NONE


def _replica(node: Node, topic: str, index: int) -> Partition:
    """Return a partition that the node has a replica of; raises KafkaError."""
    image = node.image.partition(topic, index)
    hosted = node.partitions.topic(topic)
    if image is not None and hosted is not None:
        if node.id not in image.replicas:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
        partition = hosted.partition(index)
        if partition is not None:
            return partition
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _move(node: Node, partition: Partition, path: str) -> None:
    """Move a replica that the node has, unless it is in the directory or moves there already."""
    if len(node.cluster.log_directories.paths(node.id)) == 1:
        return
    moves = node.cluster.log_directories.moves
    future = moves.future(node.id, partition)
    if future is not None and future.path == path:
        return
    moves.cancel(node.id, partition)
    if _path(node, partition) != path:
        moves.begin(node.id, partition, path)


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
