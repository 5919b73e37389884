"""Known offsets: an answer to any ListOffsets request, from what a capture tells of each partition.

Clients ask for the ends of one partition or of many at once, of those that they happen to read.
Where a log begins, ends or was at some time does not depend on that: each partition answers what it
was told to last, and what nobody asked of it by what the capture shows of its records.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.apis.list_offsets import EARLIEST, EARLIEST_LOCAL, LATEST, MAX_TIMESTAMP
from kafkalite.capture.messages import parse_request, parse_response
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.messages.list_offsets import ListOffsetsResponse
from kafkalite.replay.library import PartitionId
from kafkalite.storage.records import MalformedRecordsError

if TYPE_CHECKING:
    from typing import Any

    from kafkalite.capture.model import Exchange
    from kafkalite.protocol.messages.list_offsets import ListOffsetsRequest
    from kafkalite.replay.library import Library, Shelf
    from kafkalite.storage.batch import BatchView

LIST_OFFSETS = 2
_READ_COMMITTED = 1
_NO_ERROR = 0


class _Found(NamedTuple):
    """A place in a log, as answers have it."""

    timestamp: int
    offset: int
    leader_epoch: int


_NOT_FOUND = _Found(-1, -1, -1)


class KnownOffsets:
    """Where partitions began, ended or were at some time, as it was told last."""

    def __init__(self) -> None:
        self._told: defaultdict[PartitionId, dict[tuple[int, int], _Found]] = defaultdict(dict)
        """Partition → the timestamp asked for, and the isolation level → what was told."""

    def take(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        if exchange.api_key != LIST_OFFSETS or exchange.response is None:
            return
        try:
            request: Any = parse_request(exchange)
            response: Any = parse_response(exchange)
        except ProtocolViolation:
            return
        asked = {
            PartitionId(topic.name, row.partition_index): row.timestamp
            for topic in request.topics
            for row in topic.partitions
        }
        for topic in response.topics:
            for row in topic.partitions:
                place = PartitionId(topic.name, row.partition_index)
                if row.error_code == _NO_ERROR and place in asked:
                    # The oldest clients are told a list, of which they want the first.
                    offset = (row.old_style_offsets or [row.offset])[0]
                    found = _Found(row.timestamp, offset, row.leader_epoch)
                    self._told[place][asked[place], request.isolation_level] = found

    def answer(self, request: ListOffsetsRequest, library: Library) -> ListOffsetsResponse | None:
        """Return an answer to any request; None where it asks for a partition nobody told of."""
        response = ListOffsetsResponse()
        for topic in request.topics:
            told = ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name)
            response.topics.append(told)
            for asked in topic.partitions:
                place = PartitionId(topic.name, asked.partition_index)
                is_there = 0 <= place.partition < library.partitions.get(topic.name, 0)
                if not is_there and place not in self._told:
                    return None
                row = ListOffsetsResponse.ListOffsetsPartitionResponse(
                    partition_index=place.partition
                )
                told.partitions.append(row)
                try:
                    found = self._find(place, asked.timestamp, request.isolation_level, library)
                except MalformedRecordsError:
                    row.error_code = ErrorCode.INVALID_RECORD
                    continue
                row.timestamp, row.offset, row.leader_epoch = found
                row.old_style_offsets = [] if found == _NOT_FOUND else [found.offset]
        return response

    def _find(
        self, place: PartitionId, timestamp: int, isolation_level: int, library: Library
    ) -> _Found:
        told = self._told.get(place, {})
        # One who reads otherwise is told the same, but for the end while a transaction is open.
        for level in (isolation_level, 1 - isolation_level):
            if (timestamp, level) in told:
                return told[timestamp, level]
        shelf = library.shelf(*place)
        return _on_shelf(shelf, timestamp, is_committed=isolation_level == _READ_COMMITTED)


def _on_shelf(shelf: Shelf, timestamp: int, *, is_committed: bool) -> _Found:
    """Return what the records that a capture shows tell; MalformedRecordsError."""
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _NOT_FOUND._replace(offset=shelf.start_offset or 0)
    if timestamp == LATEST:
        _, opened = shelf.transactions() if is_committed else ((), {})
        end = min((each.base_offset for each in opened.values()), default=shelf.end_offset)
        return _NOT_FOUND._replace(offset=end)
    if timestamp == MAX_TIMESTAMP:
        timestamp = max((batch.max_timestamp for batch in shelf.batches), default=-1)
    for batch in shelf.batches if timestamp >= 0 else ():
        if batch.max_timestamp >= timestamp:
            return _first_in(batch, timestamp)
    return _NOT_FOUND


def _first_in(batch: BatchView, timestamp: int) -> _Found:
    for record in batch.records():
        if record.timestamp >= timestamp:
            return _Found(record.timestamp, record.offset, batch.leader_epoch)
    return _NOT_FOUND
