"""DescribeLogDirs: the size of partitions on disk, and the free space (KIP-113, KIP-827)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.gateway.api import Api
from kafkalite.ports.files import disk_space
from kafkalite.ports.turns import in_steps
from kafkalite.protocol._generated.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition


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
        for topic in in_steps(request.topics):
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
    space = disk_space(table.directory)
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
    # One log represents all replicas, so no replica lags.
    return DescribeLogDirsResponse.DescribeLogDirsPartition(
        partition_index=partition.index,
        partition_size=partition.log.size_bytes,
        offset_lag=0,
        is_future_key=False,
    )


def refuse_describe_log_dirs(
    request: DescribeLogDirsRequest,  # noqa: ARG001 - the response does not depend on it
    code: ErrorCode,
    message: str | None,  # noqa: ARG001 - there is no field for it
) -> DescribeLogDirsResponse:
    """Return the response with one error for the whole request."""
    return DescribeLogDirsResponse(error_code=code)


APIS = (
    Api(
        key=DescribeLogDirsRequest.API_KEY,
        versions=Versions(1, 5),
        handler=handle_describe_log_dirs,
        inline_bytes=0,
        refuse=refuse_describe_log_dirs,
    ),
)
