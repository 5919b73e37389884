"""ListOffsets and OffsetForLeaderEpoch: where a log begins, ends, or was at some time or epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api, Eras
from kafkalite.partitions.partition import NOT_FOUND
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkalite.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext
    from kafkalite.partitions.partition import Partition
    from kafkalite.storage.timestamps import FoundOffset

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_CONSUMER = -1
_DEBUGGING_CONSUMER = -2
_READ_COMMITTED = 1
_NOT_TIERED = frozenset((LATEST_TIERED, EARLIEST_PENDING_UPLOAD))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsEra:
    """What a range of ListOffsets versions means, once its bytes are out of the way."""

    knows: frozenset[int]
    """The negative timestamps that have a meaning."""


def _era(*knows: int) -> ListOffsetsEra:
    return ListOffsetsEra(knows=frozenset(knows))


LIST_OFFSETS_ERAS = Eras(
    (0, _era(LATEST, EARLIEST)),
    (7, _era(LATEST, EARLIEST, MAX_TIMESTAMP)),  # KIP-734
    (8, _era(LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL)),  # KIP-405
    (9, _era(LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED)),  # KIP-1005
    (
        11,
        _era(
            LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD
        ),
    ),  # KIP-1023
)


def handle_list_offsets(
    context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    """Answer each partition's question, or say why not.

    A partition that is asked about twice is refused, once.
    """
    answers: dict[str, dict[int, ListOffsetsResponse.ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        rows = answers.setdefault(topic.name, {})
        for asked in topic.partitions:
            index = asked.partition_index
            rows[index] = (
                _answer(context, request, topic.name, asked)
                if index not in rows
                else _refused(index, ErrorCode.INVALID_REQUEST)
            )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(name=name, partitions=list(rows.values()))
            for name, rows in answers.items()
        ]
    )


def _answer(
    context: RequestContext,
    request: ListOffsetsRequest,
    topic_name: str,
    asked: ListOffsetsRequest.ListOffsetsPartition,
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    index = asked.partition_index
    if asked.timestamp < 0 and asked.timestamp not in context.era.knows:
        return _refused(index, ErrorCode.UNSUPPORTED_VERSION)
    topic = context.services.partitions.topic(topic_name)
    try:
        partition = None if topic is None else topic.partition(index)
        if partition is None:
            return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.admit(
            context.node_id,
            asked.current_leader_epoch,
            leader_only=request.replica_id != _DEBUGGING_CONSUMER,
        )
        is_committed = (
            request.replica_id == _CONSUMER and request.isolation_level == _READ_COMMITTED
        )
        found = _search(partition, asked.timestamp, is_committed=is_committed)
    except KafkaError as error:
        return _refused(index, error.code)
    except OSError:
        return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR)
    return ListOffsetsResponse.ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
        # What v0 asked for was a list, of which its clients ever wanted the first.
        old_style_offsets=[] if found is NOT_FOUND else [found.offset],
    )


def _search(partition: Partition, timestamp: int, *, is_committed: bool) -> FoundOffset:
    limit_offset = partition.limit_offset(committed=is_committed)
    if timestamp == LATEST:
        return partition.latest_offset(limit_offset)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.earliest_offset()
    if timestamp in _NOT_TIERED:
        return NOT_FOUND
    if timestamp == MAX_TIMESTAMP:
        return partition.offset_of_max_timestamp(limit_offset)
    return partition.offset_for_timestamp(timestamp, limit_offset)


def _refused(index: int, code: ErrorCode) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    return ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=index, error_code=code)


def refuse_list_offsets(
    request: ListOffsetsRequest,
    code: ErrorCode,
    message: str | None,  # noqa: ARG001 - there is no field for it
) -> ListOffsetsResponse:
    """Say one error for every partition of a request."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_refused(asked.partition_index, code) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def handle_offset_for_leader_epoch(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Say where each epoch asked for ended, for readers whose log may part from ours (KIP-320)."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _end_of_epoch(context, topic.topic, asked) for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _end_of_epoch(
    context: RequestContext,
    topic_name: str,
    asked: OffsetForLeaderEpochRequest.OffsetForLeaderPartition,
) -> OffsetForLeaderEpochResponse.EpochEndOffset:
    topic = context.services.partitions.topic(topic_name)
    try:
        partition = None if topic is None else topic.partition(asked.partition)
        if partition is None:
            return _no_epoch(asked.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.admit(context.node_id, asked.current_leader_epoch)
    except KafkaError as error:
        return _no_epoch(asked.partition, error.code)
    end = partition.end_of_epoch(asked.leader_epoch)
    return OffsetForLeaderEpochResponse.EpochEndOffset(
        partition=asked.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset
    )


def _no_epoch(index: int, code: ErrorCode) -> OffsetForLeaderEpochResponse.EpochEndOffset:
    return OffsetForLeaderEpochResponse.EpochEndOffset(partition=index, error_code=code)


def refuse_offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest,
    code: ErrorCode,
    message: str | None,  # noqa: ARG001 - there is no field for it
) -> OffsetForLeaderEpochResponse:
    """Say one error for every partition of a request."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_no_epoch(asked.partition, code) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


APIS = (
    Api(
        key=ListOffsetsRequest.API_KEY,
        versions=Versions(0, 11),
        handler=handle_list_offsets,
        refuse=refuse_list_offsets,
        eras=LIST_OFFSETS_ERAS,
    ),
    Api(
        key=OffsetForLeaderEpochRequest.API_KEY,
        versions=Versions(2, 4),
        handler=handle_offset_for_leader_epoch,
        refuse=refuse_offset_for_leader_epoch,
    ),
)
