"""WriteTxnMarkers: writes transaction markers, which end transactions, to partitions.

Transaction coordinators send it to partition leaders. Administrators send it too:
Admin.abortTransaction ends a hanging transaction that its coordinator no longer knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.gateway.api import Api
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.turns import in_steps
from kafkalite.protocol._generated.messages.write_txn_markers import WriteTxnMarkersResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions
from kafkalite.storage.transaction_marker import TransactionMarker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.gateway.call import Call
    from kafkalite.protocol._generated.messages.write_txn_markers import WriteTxnMarkersRequest

Result = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

_COORDINATOR_ERRORS = frozenset((
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
))  # fmt: skip
"""Errors of a group coordinator; WriteTxnMarkers answers NOT_LEADER_OR_FOLLOWER instead."""


def handle_write_txn_markers(
    call: Call, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Write markers to partitions; each succeeds or fails on its own.

    If a producer and partition occur twice, the last result is returned. Producers without
    partitions are omitted. Raises KafkaError UNKNOWN_SERVER_ERROR for a negative producer id or
    epoch. Kafka then fails with an internal exception, also for the other markers.
    """
    codes: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    try:
        for requested in in_steps(request.markers):
            marker = TransactionMarker(
                producer_id=requested.producer_id,
                producer_epoch=requested.producer_epoch,
                coordinator_epoch=requested.coordinator_epoch,
                is_commit=requested.transaction_result,
                transaction_version=requested.transaction_version,
            )
            for topic in in_steps(requested.topics):
                for index in in_steps(topic.partition_indexes):
                    producer_codes = codes.setdefault(requested.producer_id, {})
                    topic_codes = producer_codes.setdefault(topic.name, {})
                    topic_codes[index] = _write(call, topic.name, index, marker)
    finally:
        call.node.partitions.announce()
    return WriteTxnMarkersResponse(
        markers=[
            _result(producer_id, producer_codes) for producer_id, producer_codes in codes.items()
        ]
    )


def _write(call: Call, topic: str, index: int, marker: TransactionMarker) -> ErrorCode:
    node = call.node
    try:
        partition = node.partition(topic, index)
    except KafkaError as error:
        return error.code
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        if topic == OFFSETS_TOPIC:
            # Kafka fails with an internal exception here, but for this partition only.
            return ErrorCode.UNKNOWN_SERVER_ERROR
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        if topic == OFFSETS_TOPIC:
            node.groups.end_transaction(index, marker)
        else:
            partition.append_marker(marker, node.clock.now_ms())
    except KafkaError as error:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _COORDINATOR_ERRORS else error.code
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _result(producer_id: int, codes: Mapping[str, Mapping[int, ErrorCode]]) -> Result:
    return Result(
        producer_id=producer_id,
        topics=[
            TopicResult(
                name=topic,
                partitions=[
                    PartitionResult(partition_index=index, error_code=code)
                    for index, code in topic_codes.items()
                ],
            )
            for topic, topic_codes in codes.items()
        ],
    )


def refuse_write_txn_markers(
    request: WriteTxnMarkersRequest, code: ErrorCode, message: str | None
) -> WriteTxnMarkersResponse:
    """Return the response with one error for every partition; there is no field for a message."""
    del message
    codes: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for requested in in_steps(request.markers):
        producer_codes = codes.setdefault(requested.producer_id, {})
        for topic in in_steps(requested.topics):
            producer_codes.setdefault(topic.name, {}).update(
                dict.fromkeys(topic.partition_indexes, code)
            )
    return WriteTxnMarkersResponse(
        markers=[_result(producer_id, topic_codes) for producer_id, topic_codes in codes.items()]
    )


APIS = (
    Api(
        key=ApiKey.WRITE_TXN_MARKERS,
        versions=Versions(1, 2),
        handler=handle_write_txn_markers,
        refuse=refuse_write_txn_markers,
    ),
)
