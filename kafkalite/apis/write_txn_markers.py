"""WriteTxnMarkers: partitions are told how a transaction ended.

Brokers say this to one another; here they share their partitions. Of clients, administrators do:
Admin's abortTransaction ends one that hangs, whose coordinator knows nothing of it any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from kafkalite.protocol.versions import Versions
from kafkalite.storage.marker import TransactionMarker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.apis.context import RequestContext
    from kafkalite.partitions.partition import Partition
    from kafkalite.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

Result = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

_NOT_READY = frozenset((
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
))  # fmt: skip
"""What a group coordinator says; whoever writes markers expects NOT_LEADER_OR_FOLLOWER instead."""


def handle_write_txn_markers(
    context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """End transactions on the partitions named, each for itself.

    What is said of a producer and a partition that are named twice is what became of the last, and
    of a producer without partitions nothing is said. KafkaError UNKNOWN_SERVER_ERROR at a marker of
    a producer that cannot be: Kafka stumbles there, and answers so for those before and after it.
    """
    codes: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    try:
        for one in request.markers:
            marker = TransactionMarker(
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                coordinator_epoch=one.coordinator_epoch,
                is_commit=one.transaction_result,
                transaction_version=one.transaction_version,
            )
            for topic in one.topics:
                for index in topic.partition_indexes:
                    of_producer = codes.setdefault(one.producer_id, {})
                    of_topic = of_producer.setdefault(topic.name, {})
                    of_topic[index] = _write(context, topic.name, index, marker)
    finally:
        context.services.partitions.announce()
    return WriteTxnMarkersResponse(
        markers=[_result(producer_id, of_producer) for producer_id, of_producer in codes.items()]
    )


def _write(context: RequestContext, topic: str, index: int, marker: TransactionMarker) -> ErrorCode:
    services = context.services
    try:
        partition = _hosted(context, topic, index)
    except KafkaError as error:
        return error.code
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        if topic == OFFSETS_TOPIC:
            # Group coordinators stumble each for itself.
            return ErrorCode.UNKNOWN_SERVER_ERROR
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        if topic == OFFSETS_TOPIC:
            services.groups.end_transaction(index, marker)
        else:
            partition.append_marker(marker, services.clock.now_ms())
    except KafkaError as error:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _NOT_READY else error.code
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _hosted(context: RequestContext, topic: str, index: int) -> Partition:
    """Return a partition that this node leads.

    KafkaError UNKNOWN_TOPIC_OR_PARTITION where it has none such, NOT_LEADER_OR_FOLLOWER where it
    follows another.
    """
    services = context.services
    hosted = services.partitions.topic(topic)
    image = services.metadata.image.partition(topic, index)
    partition = None if hosted is None else hosted.partition(index)
    if partition is None or image is None or context.node_id not in image.replicas:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if image.leader != context.node_id:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return partition


def _result(producer_id: int, codes: Mapping[str, Mapping[int, ErrorCode]]) -> Result:
    return Result(
        producer_id=producer_id,
        topics=[
            TopicResult(
                name=topic,
                partitions=[
                    PartitionResult(partition_index=index, error_code=code)
                    for index, code in own.items()
                ],
            )
            for topic, own in codes.items()
        ],
    )


def refuse_write_txn_markers(
    request: WriteTxnMarkersRequest, code: ErrorCode, message: str | None
) -> WriteTxnMarkersResponse:
    """Say an error of every partition; there is no field for a message."""
    del message
    codes: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for one in request.markers:
        of_producer = codes.setdefault(one.producer_id, {})
        for topic in one.topics:
            of_producer.setdefault(topic.name, {}).update(
                dict.fromkeys(topic.partition_indexes, code)
            )
    return WriteTxnMarkersResponse(
        markers=[_result(producer_id, own) for producer_id, own in codes.items()]
    )


APIS = (
    Api(
        key=27,
        versions=Versions(1, 2),
        handler=handle_write_txn_markers,
        refuse=refuse_write_txn_markers,
    ),
)
