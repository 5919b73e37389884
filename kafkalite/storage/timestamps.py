"""From a time to an offset: what ListOffsets asks of a log.

Only whoever asks by time has a batch opened that was not opened when it came, and so may meet a
MalformedRecordsError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.storage.records import scan_records

if TYPE_CHECKING:
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.log import Log
    from kafkalite.storage.segment import Segment


class FoundOffset(NamedTuple):
    """A record found by its time; `timestamp` is its own, in milliseconds since the epoch."""

    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(log: Log, timestamp: int) -> FoundOffset | None:
    """Return the first record that is not older than `timestamp`, if there is one."""
    for segment in log.segments:
        if segment.max_timestamp < timestamp:
            continue
        for _, batch in segment.batches(segment.position_before_time(timestamp)):
            if batch.max_timestamp >= timestamp and batch.last_offset >= log.start_offset:
                found = _first_in_batch(batch, timestamp, log.start_offset)
                if found is not None:
                    return found
    return None


def offset_of_max_timestamp(log: Log) -> FoundOffset | None:
    """Return the first record that has the largest timestamp of the log (KIP-734), if any."""
    if not log.end_offset > log.start_offset:
        return None
    newest: Segment = max(log.segments, key=lambda segment: segment.max_timestamp)
    for _, batch in newest.batches(newest.locate(newest.max_timestamp_offset)):
        return _first_in_batch(batch, batch.max_timestamp, 0)
    return None


def _first_in_batch(batch: BatchView, timestamp: int, start_offset: int) -> FoundOffset | None:
    append_time = batch.max_timestamp if batch.is_log_append_time else None
    for record in scan_records(batch.body(), batch.record_count):
        offset = batch.base_offset + record.offset_delta
        own_time = (
            batch.base_timestamp + record.timestamp_delta if append_time is None else append_time
        )
        if own_time >= timestamp and offset >= start_offset:
            return FoundOffset(own_time, offset, batch.leader_epoch)
    return None
