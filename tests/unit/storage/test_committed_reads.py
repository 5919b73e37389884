"""Readable bytes and aborted transactions for readers of committed records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    ControlKind,
    ControlMarker,
    build_control_batch,
)
from kafkalite.storage.committed_reads import aborted_in_read, readable_bytes
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import SMALL, batch, filled_log, open_log

if TYPE_CHECKING:
    from kafkalite.storage.log import Log


def log_of_aborted(interval: int, count: int = 30) -> Log:
    """Return a log of transactions of one record, each followed by the marker that aborts it."""
    log = open_log(MemoryFiles(), SMALL._replace(index_interval_bytes=interval))
    for number in range(count):
        view = batch(b"t", attributes=TRANSACTIONAL, producer=BatchProducer(1, 0, number))
        log.append([view], leader_epoch=0, now_ms=0)
        marker = ControlMarker(ControlKind.ABORT, 0)
        data = build_control_batch(marker, producer_id=1, producer_epoch=0, now_ms=1000)
        log.append([BatchView(data)], leader_epoch=0, now_ms=0)
    return log


def test_readable_bytes_equal_the_size_of_one_read() -> None:
    log = filled_log(40)
    bounds = [segment.base_offset for segment in log.segments[1:]]
    assert len(bounds) > 2
    for offset in range(0, log.end_offset, 2):
        for limit in range(offset + 2, log.end_offset + 1, 2):
            size = readable_bytes(log, offset, limit)
            read = log.read(offset, max_bytes=10**6, limit_offset=limit, at_least_one=True)
            if any(offset < bound < limit for bound in bounds):
                assert size is None
            else:
                assert size == len(read)
    assert readable_bytes(log, log.end_offset, log.end_offset) == 0


@pytest.mark.parametrize("interval", [0, 150, 10**9])
def test_aborted_transactions_of_a_read_are_returned(interval: int) -> None:
    log = log_of_aborted(interval)
    for offset in range(log.end_offset):
        for max_bytes in (1, 200, 10**6):
            read = log.read(
                offset, max_bytes=max_bytes, limit_offset=log.end_offset, at_least_one=True
            )
            last = _batches(read)[-1].last_offset
            returned = aborted_in_read(log, offset, len(read))
            every = log.aborted_transactions(offset, last + 1)
            assert returned[: len(every)] == every
            within = [one for one in returned if one.first_offset <= _next_entry(log, offset, last)]
            assert returned == within


def test_no_aborted_transactions_at_the_end_of_the_log() -> None:
    log = log_of_aborted(0)
    assert aborted_in_read(log, log.end_offset, 0) == []


def _batches(data: bytes) -> list[BatchView]:
    found, position = [], 0
    while position < len(data):
        view = BatchView(memoryview(data)[position:])
        found.append(view)
        position += view.size
    return found


def _next_entry(log: Log, offset: int, last_offset: int) -> int:
    """Return the offset that no search in the index can exceed."""
    segment = log.segments[log.segment_index(offset)]
    entries = [
        segment.base_offset + relative
        for relative in (segment.offset_at_or_after(position) for position, _ in segment.batches(0))
        if relative is not None
    ]
    ends = [one.base_offset for one in log.segments[1:]] + [log.end_offset]
    return min(end for end in entries + ends if end > last_offset)
