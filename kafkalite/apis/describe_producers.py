"""DescribeProducers: who writes to a partition, and which transactions are open there (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api
from kafkalite.apis.repeats import Repeats
from kafkalite.metadata.topic_names import name_complaint
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext
    from kafkalite.partitions.table import HostedTopic
    from kafkalite.storage.producer_state import ProducerEntry

_NO_TRANSACTION = -1


def handle_describe_producers(
    context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Describe the producers of each partition that this node leads, or say why not."""
    repeats = Repeats()
    return DescribeProducersResponse(
        topics=[_describe_topic(context, topic, repeats) for topic in request.topics]
    )


def _describe_topic(
    context: RequestContext, asked: DescribeProducersRequest.TopicRequest, repeats: Repeats
) -> DescribeProducersResponse.TopicResponse:
    complaint = name_complaint(asked.name)
    topic = context.services.partitions.topic(asked.name)
    if complaint is not None:
        partitions = [
            _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION, complaint)
            for index in asked.partition_indexes
        ]
    elif topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [
            _refused(index, unknown, unknown.message) for index in asked.partition_indexes
        ]
    else:
        partitions = [
            _describe(context.node_id, topic, index, repeats) for index in asked.partition_indexes
        ]
    return DescribeProducersResponse.TopicResponse(name=asked.name, partitions=partitions)


def _describe(
    node_id: int, topic: HostedTopic, index: int, repeats: Repeats
) -> DescribeProducersResponse.PartitionResponse:
    try:
        partition = topic.partition(index)
        if partition is None:
            return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.admit(node_id)
        repeats.check(partition)
    except KafkaError as error:
        return _refused(index, error.code, error.message)
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


def _refused(
    index: int, code: ErrorCode, message: str | None = None
) -> DescribeProducersResponse.PartitionResponse:
    return DescribeProducersResponse.PartitionResponse(
        partition_index=index, error_code=code, error_message=message
    )


def refuse_describe_producers(
    request: DescribeProducersRequest, code: ErrorCode, message: str | None
) -> DescribeProducersResponse:
    """Say one error for every partition of a request."""
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=[_refused(index, code, message) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


APIS = (
    Api(
        key=DescribeProducersRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_describe_producers,
        refuse=refuse_describe_producers,
    ),
)
