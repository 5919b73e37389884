"""Composition of responses to ListOffsets requests from the recorded offsets of each partition.

Requests of different clients name different partitions. The start and end offsets of a partition do
not depend on the request, so each partition gets its last recorded result. A timestamp that
was not requested in the recording is looked up in the recorded batches.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kafkalite.apis.data.list_offsets import EARLIEST, EARLIEST_LOCAL, LATEST, MAX_TIMESTAMP
from kafkalite.capture.reading.messages import parse_request, parse_response
from kafkalite.lab.replay.standin.recorded_cluster import PartitionId
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.storage.record_format import MalformedRecordsError

if TYPE_CHECKING:
    from typing import Any

    from kafkalite.capture.model import Exchange
    from kafkalite.lab.replay.standin.recorded_cluster import RecordedCluster, RecordedPartition
    from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
    from kafkalite.storage.batch import BatchView

LIST_OFFSETS = ApiKey.LIST_OFFSETS
_READ_COMMITTED = 1
_NO_ERROR = 0


class _OffsetResult(NamedTuple):
    """The ListOffsets result for one partition."""

    timestamp: int
    offset: int
    leader_epoch: int


_NOT_FOUND = _OffsetResult(-1, -1, -1)


class RecordedOffsets:
    """The last recorded ListOffsets results of each partition."""

    def __init__(self) -> None:
        self._recorded: defaultdict[PartitionId, dict[tuple[int, int], _OffsetResult]] = (
            defaultdict(dict)
        )
        """Partition → (requested timestamp, isolation level) → result."""

    def learn(self, exchange: Exchange) -> None:
        """Learn offsets from one recorded exchange."""
        if exchange.api_key != LIST_OFFSETS or exchange.response is None:
            return
        try:
            request: Any = parse_request(exchange)
            response: Any = parse_response(exchange)
        except ProtocolViolation:
            return
        requested = {
            PartitionId(topic.name, row.partition_index): row.timestamp
            for topic in request.topics
            for row in topic.partitions
        }
        for topic in response.topics:
            for row in topic.partitions:
                partition_id = PartitionId(topic.name, row.partition_index)
                if row.error_code == _NO_ERROR and partition_id in requested:
                    # Responses of version 0 have a list of offsets instead.
                    offset = (row.old_style_offsets or [row.offset])[0]
                    result = _OffsetResult(row.timestamp, offset, row.leader_epoch)
                    self._recorded[partition_id][
                        requested[partition_id], request.isolation_level
                    ] = result

    def answer(
        self, request: ListOffsetsRequest, recorded_cluster: RecordedCluster
    ) -> ListOffsetsResponse | None:
        """Return a response to a request; None if it names an unknown partition."""
        response = ListOffsetsResponse()
        for topic in request.topics:
            topic_response = ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name)
            response.topics.append(topic_response)
            for requested in topic.partitions:
                partition_id = PartitionId(topic.name, requested.partition_index)
                is_known = (
                    0
                    <= partition_id.partition
                    < recorded_cluster.partition_counts.get(topic.name, 0)
                )
                if not is_known and partition_id not in self._recorded:
                    return None
                row = ListOffsetsResponse.ListOffsetsPartitionResponse(
                    partition_index=partition_id.partition
                )
                topic_response.partitions.append(row)
                try:
                    result = self._find_offset(
                        partition_id, requested.timestamp, request.isolation_level, recorded_cluster
                    )
                except MalformedRecordsError:
                    row.error_code = ErrorCode.INVALID_RECORD
                    continue
                row.timestamp, row.offset, row.leader_epoch = result
                row.old_style_offsets = [] if result == _NOT_FOUND else [result.offset]
        return response

    def _find_offset(
        self,
        partition_id: PartitionId,
        timestamp: int,
        isolation_level: int,
        recorded_cluster: RecordedCluster,
    ) -> _OffsetResult:
        recorded = self._recorded.get(partition_id, {})
        # Both isolation levels give the same result unless a transaction is open.
        for level in (isolation_level, 1 - isolation_level):
            if (timestamp, level) in recorded:
                return recorded[timestamp, level]
        partition = recorded_cluster.partition(*partition_id)
        return _find_in_records(
            partition, timestamp, reads_committed=isolation_level == _READ_COMMITTED
        )


def _find_in_records(
    partition: RecordedPartition, timestamp: int, *, reads_committed: bool
) -> _OffsetResult:
    """Look a timestamp up in the recorded batches; raises MalformedRecordsError."""
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _NOT_FOUND._replace(offset=partition.start_offset or 0)
    if timestamp == LATEST:
        _, open_transactions = partition.transactions() if reads_committed else ((), {})
        end = min(
            (batch.base_offset for batch in open_transactions.values()),
            default=partition.end_offset,
        )
        return _NOT_FOUND._replace(offset=end)
    if timestamp == MAX_TIMESTAMP:
        timestamp = max((batch.max_timestamp for batch in partition.batches), default=-1)
    for batch in partition.batches if timestamp >= 0 else ():
        if batch.max_timestamp >= timestamp:
            return _first_record_at_or_after(batch, timestamp)
    return _NOT_FOUND


def _first_record_at_or_after(batch: BatchView, timestamp: int) -> _OffsetResult:
    for record in batch.records():
        if record.timestamp >= timestamp:
            return _OffsetResult(record.timestamp, record.offset, batch.leader_epoch)
    return _NOT_FOUND
