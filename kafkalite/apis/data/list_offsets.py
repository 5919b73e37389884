"""ListOffsets and OffsetForLeaderEpoch: offsets by timestamp and by leader epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.gateway.api import Api, Eras
from kafkalite.gateway.refusals import report_refusal_of_topic
from kafkalite.partitions.incarnations import IncarnationCheck
from kafkalite.partitions.partition import NOT_FOUND
from kafkalite.ports.turns import items_in_steps
from kafkalite.protocol._generated.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafkalite.protocol._generated.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.replicas import ReplicaView
    from kafkalite.storage.timestamps import TimestampAndOffset

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_CONSUMER = -1
_DEBUGGING_CONSUMER = -2
_READ_COMMITTED = 1
_TIERED_STORAGE_TIMESTAMPS = frozenset((LATEST_TIERED, EARLIEST_PENDING_UPLOAD))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsEra:
    """Traits of a range of ListOffsets versions."""

    special_timestamps: frozenset[int]
    """The negative timestamps that have a meaning."""
    unavailable_code: ErrorCode = ErrorCode.OFFSET_NOT_AVAILABLE
    """The error if the leader is new and does not know yet which offset is the last."""
    lists_segments: bool = False
    """Whether the answer has the first offsets of segments, as before KIP-79."""


def _era(*special_timestamps: int) -> ListOffsetsEra:
    return ListOffsetsEra(special_timestamps=frozenset(special_timestamps))


_FIRST_ERA = replace(_era(LATEST, EARLIEST), unavailable_code=ErrorCode.LEADER_NOT_AVAILABLE)
LIST_OFFSETS_ERAS = Eras(
    (0, replace(_FIRST_ERA, lists_segments=True)),
    (1, _FIRST_ERA),
    (5, _era(LATEST, EARLIEST)),  # KIP-207
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


def handle_list_offsets(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Return the offset for each partition and timestamp, or an error.

    If a partition occurs twice, it has one result with INVALID_REQUEST.
    """
    node = call.node
    incarnations = (
        IncarnationCheck(
            node.id, "ListOffsets", partial(report_refusal_of_topic, call, "ListOffsets")
        )
        if node.config.uses_partition_epochs
        else None
    )
    answers: dict[str, dict[int, ListOffsetsResponse.ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        rows = answers.setdefault(topic.name, {})
        for partition in topic.partitions:
            index = partition.partition_index
            rows[index] = (
                _list_partition_offset(call, request, topic.name, partition, incarnations)
                if index not in rows
                else _partition_error(index, ErrorCode.INVALID_REQUEST)
            )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(name=name, partitions=list(rows.values()))
            for name, rows in items_in_steps(answers)
        ]
    )


def _list_partition_offset(
    call: Call,
    request: ListOffsetsRequest,
    topic_name: str,
    requested: ListOffsetsRequest.ListOffsetsPartition,
    incarnations: IncarnationCheck | None,
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    index = requested.partition_index
    if requested.timestamp < 0 and requested.timestamp not in call.era.special_timestamps:
        return _partition_error(index, ErrorCode.UNSUPPORTED_VERSION)
    topic = call.node.partitions.topic(topic_name)
    try:
        found_partition = None if topic is None else topic.partition(index)
        if found_partition is None:
            return _partition_error(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except KafkaError as error:
        return _partition_error(index, error.code)
    partition = found_partition.seen_by(call.node.id)
    try:
        answer = _search_partition(call, request, partition, requested, incarnations)
    except KafkaError as error:
        is_unavailable = error.code is ErrorCode.OFFSET_NOT_AVAILABLE
        code = call.era.unavailable_code if is_unavailable else error.code
        answer = _partition_error(index, code)
    if incarnations is not None:
        answer.incarnation_epoch = partition.incarnation_epoch
    return answer


def _search_partition(
    call: Call,
    request: ListOffsetsRequest,
    partition: Partition | ReplicaView,
    requested: ListOffsetsRequest.ListOffsetsPartition,
    incarnations: IncarnationCheck | None,
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    """Return the requested offset of a partition; raises KafkaError if this node must not."""
    leader_only = request.replica_id != _DEBUGGING_CONSUMER
    if incarnations is not None:
        incarnations.check(partition, requested.incarnation_epoch, leader_only=leader_only)
    partition.check_access(call.node.id, requested.current_leader_epoch, leader_only=leader_only)
    limit_offset = _limit_offset(request, partition)
    search = partial(_search, partition, requested.timestamp, limit_offset)
    try:
        if call.era.lists_segments:
            return ListOffsetsResponse.ListOffsetsPartitionResponse(
                partition_index=requested.partition_index,
                old_style_offsets=_segment_offsets(
                    partition, requested, limit_offset, call.node.clock.now_ms()
                ),
            )
        found = search()
    except OSError as error:
        code = partition.report_read_failure(error, search)
        return _partition_error(requested.partition_index, code)
    return ListOffsetsResponse.ListOffsetsPartitionResponse(
        partition_index=requested.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _segment_offsets(
    partition: Partition | ReplicaView,
    requested: ListOffsetsRequest.ListOffsetsPartition,
    limit_offset: int,
    now_ms: int,
) -> list[int]:
    """Return the first offsets of segments that were written before a time, the last ones first.

    The end of the log is one of them, as in UnifiedLog.legacyFetchOffsetsBefore.
    """
    log = partition.log
    rows = [(max(each.base_offset, log.start_offset), each.modified_ms()) for each in log.segments]
    if not rows or log.segments[-1].size:
        rows.append((log.end_offset, now_ms))
    if requested.timestamp == EARLIEST:
        del rows[1:]
    elif requested.timestamp != LATEST:
        while rows and rows[-1][1] > requested.timestamp:
            rows.pop()
    offsets = [offset for offset, _ in reversed(rows)][: max(0, requested.max_num_offsets)]
    if offsets and offsets[0] > limit_offset:
        return [limit_offset, *(offset for offset in offsets if offset <= limit_offset)]
    return offsets


def _limit_offset(request: ListOffsetsRequest, partition: Partition | ReplicaView) -> int:
    """Return the offset up to which the sender of a request can read."""
    if request.replica_id != _CONSUMER:
        return partition.end_offset
    return partition.limit_offset(committed=request.isolation_level == _READ_COMMITTED)


def _search(
    partition: Partition | ReplicaView, timestamp: int, limit_offset: int
) -> TimestampAndOffset:
    """Return the offset for a timestamp.

    Raises KafkaError OFFSET_NOT_AVAILABLE if the leader is new, and readable records that the
    previous leader had may be missing below `limit_offset` (KIP-207).
    """
    if timestamp == LATEST:
        _check_available(partition, limit_offset)
        return partition.latest_offset(limit_offset)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.earliest_offset()
    if timestamp in _TIERED_STORAGE_TIMESTAMPS:
        return NOT_FOUND
    if timestamp == MAX_TIMESTAMP:
        found = partition.offset_of_max_timestamp(limit_offset)
    else:
        found = partition.offset_for_timestamp(timestamp, limit_offset)
    if found is NOT_FOUND:
        _check_available(partition, limit_offset)
    return found


def _check_available(partition: Partition | ReplicaView, limit_offset: int) -> None:
    if partition.log.epochs.start_offset_for(partition.leader_epoch) > limit_offset:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)


def _partition_error(
    index: int, code: ErrorCode
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    return ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=index, error_code=code)


def handle_offset_for_leader_epoch(
    call: Call, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Return the end offset of each leader epoch, to detect diverging logs (KIP-320)."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end_of_epoch(call, topic.topic, each) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end_of_epoch(
    call: Call,
    topic_name: str,
    requested: OffsetForLeaderEpochRequest.OffsetForLeaderPartition,
) -> OffsetForLeaderEpochResponse.EpochEndOffset:
    topic = call.node.partitions.topic(topic_name)
    try:
        found_partition = None if topic is None else topic.partition(requested.partition)
        if found_partition is None:
            return _epoch_error(requested.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = found_partition.seen_by(call.node.id)
        partition.check_access(call.node.id, requested.current_leader_epoch)
    except KafkaError as error:
        return _epoch_error(requested.partition, error.code)
    end = partition.end_of_epoch(requested.leader_epoch)
    return OffsetForLeaderEpochResponse.EpochEndOffset(
        partition=requested.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset
    )


def _epoch_error(index: int, code: ErrorCode) -> OffsetForLeaderEpochResponse.EpochEndOffset:
    return OffsetForLeaderEpochResponse.EpochEndOffset(partition=index, error_code=code)


APIS = (
    Api(
        key=ListOffsetsRequest.API_KEY,
        versions=Versions(0, 11),
        handler=handle_list_offsets,
        eras=LIST_OFFSETS_ERAS,
    ),
    Api(
        key=OffsetForLeaderEpochRequest.API_KEY,
        versions=Versions(2, 4),
        handler=handle_offset_for_leader_epoch,
    ),
)
