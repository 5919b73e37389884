"""Search by timestamp, for ListOffsets.

The searches decompress batches whose records were not checked when they were produced, so they may
raise MalformedRecordsError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.storage.record_format import scan_records

if TYPE_CHECKING:
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.log import Log
    from kafkalite.storage.segment import Segment


class TimestampAndOffset(NamedTuple):
    """A record found by timestamp; the timestamp is in milliseconds since the Unix epoch."""

    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(log: Log, timestamp: int) -> TimestampAndOffset | None:
    """Return the first record with at least this timestamp, or None."""
    for segment in log.segments:
        if segment.max_timestamp < timestamp:
            continue
        for _, batch in segment.batches(segment.position_before_time(timestamp)):
            if batch.max_timestamp >= timestamp and batch.last_offset >= log.start_offset:
                found = _first_in_batch(batch, timestamp, log.start_offset)
                if found is not None:
                    return found
    return None


def offset_of_max_timestamp(log: Log) -> TimestampAndOffset | None:
    """Return the first record with the largest timestamp of the log (KIP-734), or None."""
    if not log.end_offset > log.start_offset:
        return None
    newest: Segment = max(log.segments, key=lambda segment: segment.max_timestamp)
    for _, batch in newest.batches(newest.locate(newest.max_timestamp_offset)):
        return _first_in_batch(batch, batch.max_timestamp, 0)
    return None


def _first_in_batch(
    batch: BatchView, timestamp: int, start_offset: int
) -> TimestampAndOffset | None:
    append_time = batch.max_timestamp if batch.is_log_append_time else None
    for record in scan_records(batch.body(), batch.record_count):
        offset = batch.base_offset + record.offset_delta
        record_timestamp = (
            batch.base_timestamp + record.timestamp_delta if append_time is None else append_time
        )
        if record_timestamp >= timestamp and offset >= start_offset:
            return TimestampAndOffset(record_timestamp, offset, batch.leader_epoch)
    return None
