"""Composition of responses to Fetch requests by offset, from each partition's recorded batches.

Responses open no fetch session, so every request names all its partitions. At the end of the
recorded batches a client gets an empty response after its `max_wait_ms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND
from kafkalite.protocol._generated.messages.fetch import FetchResponse
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkalite.lab.replay.standin.recorded_cluster import RecordedCluster, RecordedPartition
    from kafkalite.protocol._generated.messages.fetch import FetchRequest

_READ_COMMITTED: Final = 1
_NO_SESSION: Final = 0


def answer_fetch(
    recorded_cluster: RecordedCluster, request: FetchRequest
) -> tuple[FetchResponse, int]:
    """Return the response to a Fetch request, and its delay in nanoseconds.

    An incremental request of a recorded session does not name its partitions. It gets
    FETCH_SESSION_ID_NOT_FOUND, so that the client sends a full request.
    """
    if request.session_id != _NO_SESSION and request.session_epoch > 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), 0
    response, wait_ms = answer_full_fetch(recorded_cluster, request)
    return response, wait_ms * NANOSECONDS_PER_MILLISECOND


def answer_full_fetch(
    recorded_cluster: RecordedCluster, request: FetchRequest
) -> tuple[FetchResponse, int]:
    """Return the response to a full Fetch request, and its delay in milliseconds."""
    response = FetchResponse(session_id=_NO_SESSION, responses=[])
    remaining_bytes = request.max_bytes
    has_content = not request.topics
    for topic in request.topics:
        name = recorded_cluster.topic_name(topic)
        rows: list[FetchResponse.PartitionData] = []
        response.responses.append(
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic or name or "", topic_id=topic.topic_id, partitions=rows
            )
        )
        for requested in topic.partitions:
            row = FetchResponse.PartitionData(
                partition_index=requested.partition, aborted_transactions=None, records=b""
            )
            rows.append(row)
            partition = None
            if name is not None and requested.partition < recorded_cluster.partition_counts.get(
                name, 0
            ):
                partition = recorded_cluster.partition(name, requested.partition)
            if partition is None:
                row.error_code = (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID
                )
                row.high_watermark = -1
            else:
                _fill_row(
                    row,
                    partition,
                    requested,
                    request,
                    min(requested.partition_max_bytes, remaining_bytes),
                )
                remaining_bytes -= len(row.records or b"")
            has_content = has_content or bool(row.records) or bool(row.error_code)
    return response, 0 if has_content else max(0, request.max_wait_ms)


def _fill_row(
    row: FetchResponse.PartitionData,
    partition: RecordedPartition,
    requested: FetchRequest.FetchPartition,
    request: FetchRequest,
    remaining_bytes: int,
) -> None:
    """Fill a row of the response with the batches from the requested offset on."""
    aborted, open_transactions = partition.transactions()
    last_stable_offset = min(
        (batch.base_offset for batch in open_transactions.values()), default=partition.end_offset
    )
    row.high_watermark = partition.end_offset
    row.last_stable_offset = last_stable_offset
    row.log_start_offset = partition.start_offset or 0
    offset = requested.fetch_offset
    if not row.log_start_offset <= offset <= partition.end_offset:
        row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return
    reads_committed = request.isolation_level == _READ_COMMITTED
    limit_offset = last_stable_offset if reads_committed else partition.end_offset
    read_batches = partition.read(offset, remaining_bytes) if remaining_bytes > 0 else []
    batches = [batch for batch in read_batches if batch.base_offset < limit_offset]
    row.records = b"".join(bytes(batch.data) for batch in batches)
    if reads_committed:
        end_offset = batches[-1].last_offset + 1 if batches else offset
        row.aborted_transactions = [
            FetchResponse.AbortedTransaction(
                producer_id=transaction.producer_id, first_offset=transaction.first_offset
            )
            for transaction in aborted
            if transaction.last_offset >= offset and transaction.first_offset < end_offset
        ]
