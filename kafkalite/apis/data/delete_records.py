"""DeleteRecords: deletes the records before an offset (KIP-107)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.gateway.api import Api
from kafkalite.partitions.partition import TO_HIGH_WATERMARK
from kafkalite.partitions.replication_wait import DeletedRecords, ReplicationWait
from kafkalite.ports.turns import in_steps, items_in_steps
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition

_NO_WATERMARK = -1


def handle_delete_records(
    call: Call, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Waiting[DeleteRecordsResponse]:
    """Delete the records before each offset, and return the new start of each log.

    As in Kafka, the answer waits until all replicas on running nodes have deleted the records, at
    most `timeout_ms`. Without any time, no follower of Kafka deletes records before the answer. If
    a partition occurs twice, the last offset counts.
    """
    unreplicated: list[DeletedRecords] = []
    topics: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = topics.setdefault(topic.name, {})
        for partition in topic.partitions:
            offsets[partition.partition_index] = partition.offset
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(
                name=name,
                partitions=[
                    _delete(
                        call,
                        name,
                        index,
                        offset,
                        unreplicated,
                        has_no_time=request.timeout_ms <= 0,
                    )
                    for index, offset in items_in_steps(offsets)
                ],
            )
            for name, offsets in items_in_steps(topics)
        ]
    )
    try:
        # Deleted records must not reappear after a crash.
        call.node.partitions.checkpoint()
    except OSError:
        # The records are no longer readable, but a crash may undo the deletion. On this error the
        # client retries, and the next checkpoint covers both attempts.
        _refuse_successes(response)
        return response
    if not unreplicated:
        return response
    node = call.node
    wait = ReplicationWait(node.partitions, unreplicated, lambda: waiting.resolve(response))
    waiting: Waiting[DeleteRecordsResponse] = Waiting(on_abandon=wait.abandon)
    wait.start(node.clock, node.clock.now_ms() + request.timeout_ms)
    return waiting


def _refuse_successes(response: DeleteRecordsResponse) -> None:
    """Replace the successful results by KAFKA_STORAGE_ERROR."""
    for topic in in_steps(response.topics):
        topic.partitions = [
            answer
            if answer.error_code
            else _partition_error(answer.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)
            for answer in in_steps(topic.partitions)
        ]


def _delete(
    call: Call,
    topic_name: str,
    index: int,
    offset: int,
    unreplicated: list[DeletedRecords],
    *,
    has_no_time: bool,
) -> DeleteRecordsResponse.DeleteRecordsPartitionResult:
    """Delete records, and return the result; add it to `unreplicated` if replicas still have them.

    An `unreplicated` result changes until the end of the wait.
    """
    topic = call.node.partitions.topic(topic_name)
    try:
        partition = None if topic is None else topic.partition(index)
        if partition is None:
            return _partition_error(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.is_internal:
            return _partition_error(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        led = partition.seen_by(call.node.id)
        led.check_access(call.node.id)
        low_watermark = led.low_watermark(call.node.image.brokers)
        start_offset = led.delete_records(offset)
    except KafkaError as error:
        return _partition_error(index, error.code)
    except OSError:
        return _partition_error(index, ErrorCode.KAFKA_STORAGE_ERROR)
    result = DeleteRecordsResponse.DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=start_offset
    )
    if has_no_time and low_watermark < start_offset and _has_live_follower(call.node, partition):
        result.error_code = ErrorCode.REQUEST_TIMED_OUT
        result.low_watermark = low_watermark
    elif partition.views:
        required = start_offset if offset == TO_HIGH_WATERMARK else offset
        _await_replicas(call, partition, required, result, unreplicated)
    return result


def _has_live_follower(node: Node, partition: Partition) -> bool:
    """Return whether another node that is not fenced has a replica."""
    brokers = node.image.brokers
    return any(
        node_id != node.id and node_id in brokers and not brokers[node_id].is_fenced
        for node_id in partition.replicas
    )


def _await_replicas(
    call: Call,
    partition: Partition,
    offset: int,
    result: DeleteRecordsResponse.DeleteRecordsPartitionResult,
    unreplicated: list[DeletedRecords],
) -> None:
    node = call.node

    def low_watermark() -> int:
        return partition.seen_by(node.id).low_watermark(node.image.brokers)

    def set_result(code: ErrorCode, low_watermark: int | None) -> None:
        result.error_code = code
        if low_watermark is not None:
            result.low_watermark = low_watermark

    result.low_watermark = low_watermark()
    if result.low_watermark < offset:
        unreplicated.append(
            DeletedRecords(
                partition,
                node.id,
                offset,
                partition.seen_by(node.id).leader_epoch,
                low_watermark,
                set_result,
            )
        )


def _partition_error(
    index: int, code: ErrorCode
) -> DeleteRecordsResponse.DeleteRecordsPartitionResult:
    return DeleteRecordsResponse.DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=_NO_WATERMARK, error_code=code
    )


APIS = (
    Api(
        key=DeleteRecordsRequest.API_KEY,
        versions=Versions(0, 2),
        handler=handle_delete_records,
    ),
)
