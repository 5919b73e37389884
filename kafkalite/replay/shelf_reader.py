"""Fetch answered by offset, from all that a capture shows of each partition.

Without fetch sessions, so that every request says for itself what it wants. Where the capture shows
nothing more, a client waits as long as it said, and is told that it has reached the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from kafkalite.protocol.messages.fetch import FetchRequest
    from kafkalite.replay.library import Library, Shelf

_READ_COMMITTED: Final = 1
_NO_SESSION: Final = 0
_MS: Final = 1_000_000


def read_on(library: Library, request: FetchRequest) -> tuple[FetchResponse, int]:
    """Return the answer, and after how many nanoseconds, to whoever may be in a recorded session.

    Of which partitions that is, only its client knows: it is told to begin anew, and names them.
    """
    if request.session_id != _NO_SESSION and request.session_epoch > 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), 0
    response, wait_ms = read_shelves(library, request)
    return response, wait_ms * _MS


def read_shelves(library: Library, request: FetchRequest) -> tuple[FetchResponse, int]:
    """Return the answer, and for how many milliseconds it is to be held back."""
    response = FetchResponse(session_id=_NO_SESSION, responses=[])
    room = request.max_bytes
    has_news = not request.topics
    for topic in request.topics:
        name = library.topic_of(topic)
        rows: list[FetchResponse.PartitionData] = []
        response.responses.append(
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic or name or "", topic_id=topic.topic_id, partitions=rows
            )
        )
        for wanted in topic.partitions:
            row = FetchResponse.PartitionData(
                partition_index=wanted.partition, aborted_transactions=None, records=b""
            )
            rows.append(row)
            shelf = None
            if name is not None and wanted.partition < library.partitions.get(name, 0):
                shelf = library.shelf(name, wanted.partition)
            if shelf is None:
                row.error_code = (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID
                )
                row.high_watermark = -1
            else:
                _fill(row, shelf, wanted, request, min(wanted.partition_max_bytes, room))
                room -= len(row.records or b"")
            has_news = has_news or bool(row.records) or bool(row.error_code)
    return response, 0 if has_news else max(0, request.max_wait_ms)


def _fill(
    row: FetchResponse.PartitionData,
    shelf: Shelf,
    wanted: FetchRequest.FetchPartition,
    request: FetchRequest,
    room: int,
) -> None:
    """Say what lies on the shelf from the wanted offset on."""
    aborted, opened = shelf.transactions()
    stable = min((each.base_offset for each in opened.values()), default=shelf.end_offset)
    row.high_watermark = shelf.end_offset
    row.last_stable_offset = stable
    row.log_start_offset = shelf.start_offset or 0
    offset = wanted.fetch_offset
    if not row.log_start_offset <= offset <= shelf.end_offset:
        row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return
    is_committed = request.isolation_level == _READ_COMMITTED
    limit = stable if is_committed else shelf.end_offset
    found = shelf.read(offset, room) if room > 0 else []
    batches = [batch for batch in found if batch.base_offset < limit]
    row.records = b"".join(bytes(batch.data) for batch in batches)
    if is_committed:
        end_offset = batches[-1].last_offset + 1 if batches else offset
        row.aborted_transactions = [
            FetchResponse.AbortedTransaction(
                producer_id=each.producer_id, first_offset=each.first_offset
            )
            for each in aborted
            if each.last_offset >= offset and each.first_offset < end_offset
        ]
