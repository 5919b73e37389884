"""DescribeLogDirs: what partitions weigh on disk, and how much room is left (KIP-113, KIP-827)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api
from kafkalite.ports.space import disk_space
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext
    from kafkalite.partitions.partition import Partition


def handle_describe_log_dirs(
    context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Tell what the asked node's replicas weigh; all of them when none are named.

    All nodes keep their data in one directory and every partition has one log there, so each node
    tells of the logs that it has replicas of. Partitions that it has none of are left out.
    """
    table = context.services.partitions
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {}
        for asked in request.topics:
            wanted.setdefault(asked.topic, set()).update(asked.partitions)
    topics = []
    for hosted in table.topics():
        if wanted is not None and hosted.name not in wanted:
            continue
        here = [
            _partition(partition)
            for partition in hosted.partitions
            if context.node_id in partition.replicas
            and (wanted is None or partition.index in wanted[hosted.name])
        ]
        if here:
            topics.append(
                DescribeLogDirsResponse.DescribeLogDirsTopic(name=hosted.name, partitions=here)
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
    # One log stands for all replicas, so none of them ever lags.
    return DescribeLogDirsResponse.DescribeLogDirsPartition(
        partition_index=partition.index,
        partition_size=partition.log.size_bytes,
        offset_lag=0,
        is_future_key=False,
    )


def refuse_describe_log_dirs(
    request: DescribeLogDirsRequest,  # noqa: ARG001 - the answer is the same for all
    code: ErrorCode,
    message: str | None,  # noqa: ARG001 - there is no field for it
) -> DescribeLogDirsResponse:
    """Say one error for the whole request."""
    return DescribeLogDirsResponse(error_code=code)


APIS = (
    Api(
        key=DescribeLogDirsRequest.API_KEY,
        versions=Versions(1, 5),
        handler=handle_describe_log_dirs,
        refuse=refuse_describe_log_dirs,
    ),
)
