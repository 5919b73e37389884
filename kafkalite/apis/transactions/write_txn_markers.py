"""WriteTxnMarkers: writes transaction markers, which end transactions, to partitions.

Transaction coordinators send it to partition leaders. Administrators send it too:
Admin.abortTransaction ends a hanging transaction that its coordinator no longer knows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafkalite.gateway.api import Api
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.partitions.replication_wait import AppendedBatch, ReplicationWait
from kafkalite.ports.turns import items_in_steps
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.write_txn_markers import WriteTxnMarkersResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions
from kafkalite.storage.transaction_marker import TransactionMarker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition
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
) -> WriteTxnMarkersResponse | Waiting[WriteTxnMarkersResponse]:
    """Write markers to partitions; each succeeds or fails on its own.

    As in Kafka, the answer waits until all in-sync replicas have the markers, for at most
    `request.timeout.ms`. If a producer and partition occur twice, the last result is returned.
    Producers without partitions are omitted. Raises KafkaError UNKNOWN_SERVER_ERROR for a negative
    producer id or epoch. Kafka then fails with an internal exception, also for the other markers.
    """
    results = _Results(call)
    try:
        for requested in request.markers:
            marker = TransactionMarker(
                producer_id=requested.producer_id,
                producer_epoch=requested.producer_epoch,
                coordinator_epoch=requested.coordinator_epoch,
                is_commit=requested.transaction_result,
                transaction_version=requested.transaction_version,
            )
            for topic in requested.topics:
                for index in topic.partition_indexes:
                    results.write(topic.name, index, marker)
    finally:
        call.node.partitions.announce()
    if not results.unreplicated:
        return results.response()
    node = call.node
    wait = ReplicationWait(
        node.partitions, results.unreplicated, lambda: waiting.resolve(results.response())
    )
    waiting: Waiting[WriteTxnMarkersResponse] = Waiting(on_abandon=wait.abandon)
    wait.start(node.clock, node.clock.now_ms() + node.config.int("request.timeout.ms"))
    return waiting


class _Results:
    """Writes the markers of one request, and stores their results."""

    __slots__ = ("_call", "_codes", "unreplicated")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._codes: dict[int, dict[str, dict[int, ErrorCode]]] = {}
        self.unreplicated: list[AppendedBatch] = []
        """Markers that not all in-sync replicas have."""

    def write(self, topic: str, index: int, marker: TransactionMarker) -> None:
        """Write a marker to a partition, and store the result.

        Raises KafkaError for a marker that fails the whole request.
        """
        node = self._call.node
        codes = self._codes.setdefault(marker.producer_id, {}).setdefault(topic, {})
        try:
            partition = node.partition(topic, index)
        except KafkaError as error:
            codes[index] = error.code
            return
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            if topic != OFFSETS_TOPIC:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            # Kafka fails with an internal exception here, but for this partition only.
            codes[index] = ErrorCode.UNKNOWN_SERVER_ERROR
            return
        try:
            end_offset = _append(node, partition, marker)
        except KafkaError as error:
            codes[index] = error.code
        except OSError:
            codes[index] = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            codes[index] = ErrorCode.NONE
            if partition.high_watermark < end_offset:
                set_error = partial(codes.__setitem__, index)
                epoch = partition.leader_epoch
                self.unreplicated.append(
                    AppendedBatch(partition, node.id, end_offset, epoch, set_error)
                )

    def response(self) -> WriteTxnMarkersResponse:
        """Return the response with the present results."""
        return WriteTxnMarkersResponse(
            markers=[
                _result(producer_id, topic_codes)
                for producer_id, topic_codes in items_in_steps(self._codes)
            ]
        )


def _append(node: Node, partition: Partition, marker: TransactionMarker) -> int:
    """Append a marker, and return the end offset; raises KafkaError and OSError."""
    if partition.topic_name != OFFSETS_TOPIC:
        return partition.append_marker(marker, node.clock.now_ms())
    try:
        return node.groups.end_transaction(partition.index, marker)
    except KafkaError as error:
        if error.code in _COORDINATOR_ERRORS:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from error
        raise


def _result(producer_id: int, codes: Mapping[str, Mapping[int, ErrorCode]]) -> Result:
    return Result(
        producer_id=producer_id,
        topics=[
            TopicResult(
                name=topic,
                partitions=[
                    PartitionResult(partition_index=index, error_code=code)
                    for index, code in items_in_steps(topic_codes)
                ],
            )
            for topic, topic_codes in items_in_steps(codes)
        ],
    )


def refuse_write_txn_markers(
    request: WriteTxnMarkersRequest, code: ErrorCode, message: str | None
) -> WriteTxnMarkersResponse:
    """Return the response with one error for every partition; there is no field for a message."""
    del message
    codes: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for requested in request.markers:
        producer_codes = codes.setdefault(requested.producer_id, {})
        for topic in requested.topics:
            producer_codes.setdefault(topic.name, {}).update(
                dict.fromkeys(topic.partition_indexes, code)
            )
    return WriteTxnMarkersResponse(
        markers=[
            _result(producer_id, topic_codes) for producer_id, topic_codes in items_in_steps(codes)
        ]
    )


APIS = (
    Api(
        key=ApiKey.WRITE_TXN_MARKERS,
        versions=Versions(1, 2),
        handler=handle_write_txn_markers,
        refusal=refuse_write_txn_markers,
    ),
)
