"""DescribeProducers: the active producers and open transactions of partitions (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.duplicates import DuplicateLimit
from kafkalite.gateway.api import Api
from kafkalite.metadata.topic_names import invalid_name_reason
from kafkalite.protocol._generated.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call
    from kafkalite.partitions.table import HostedTopic
    from kafkalite.storage.producer_state import ProducerEntry

_NO_TRANSACTION = -1


def handle_describe_producers(
    call: Call, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Describe the producers of each partition with a replica on this node."""
    duplicate_limit = DuplicateLimit()
    return DescribeProducersResponse(
        topics=[_describe_topic(call, topic, duplicate_limit) for topic in request.topics]
    )


def _describe_topic(
    call: Call, requested: DescribeProducersRequest.TopicRequest, duplicate_limit: DuplicateLimit
) -> DescribeProducersResponse.TopicResponse:
    reason = invalid_name_reason(requested.name)
    topic = call.node.partitions.topic(requested.name)
    if reason is not None:
        partitions = [
            _partition_error(index, ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
            for index in requested.partition_indexes
        ]
    elif topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [
            _partition_error(index, code, code.message) for index in requested.partition_indexes
        ]
    else:
        partitions = [
            _describe(call.node.id, topic, index, duplicate_limit)
            for index in requested.partition_indexes
        ]
    return DescribeProducersResponse.TopicResponse(name=requested.name, partitions=partitions)


def _describe(
    node_id: int, topic: HostedTopic, index: int, duplicate_limit: DuplicateLimit
) -> DescribeProducersResponse.PartitionResponse:
    try:
        partition = topic.partition(index)
        if partition is None:
            return _partition_error(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.check_access(node_id, leader_only=False)
        duplicate_limit.check(partition)
    except KafkaError as error:
        return _partition_error(index, error.code, error.message)
    return DescribeProducersResponse.PartitionResponse(
        partition_index=index,
        active_producers=[_state(entry) for entry in partition.log.producers.entries],
    )


def _state(entry: ProducerEntry) -> DescribeProducersResponse.ProducerState:
    first_offset = entry.transaction_first_offset
    return DescribeProducersResponse.ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=_NO_TRANSACTION if first_offset is None else first_offset,
    )


def _partition_error(
    index: int, code: ErrorCode, message: str | None = None
) -> DescribeProducersResponse.PartitionResponse:
    return DescribeProducersResponse.PartitionResponse(
        partition_index=index, error_code=code, error_message=message
    )


APIS = (
    Api(
        key=DescribeProducersRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_describe_producers,
        inline_bytes=0,
    ),
)
