"""Search of offsets by timestamp, compared with a linear search."""

from __future__ import annotations

import random

import pytest

from kafkalite.storage.timestamps import (
    TimestampAndOffset,
    offset_for_timestamp,
    offset_of_max_timestamp,
)
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import append, batch, open_log, records_of


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("reopened", [False, True])
def test_first_record_with_at_least_the_timestamp_is_returned(seed: int, reopened: bool) -> None:  # noqa: FBT001
    rng = random.Random(seed)  # noqa: S311 - repeatable
    files = MemoryFiles()
    log = open_log(files)
    for number in range(40):
        timestamp = max(0, 100 * number + rng.randrange(-1000, 1000))
        append(log, *[b"v"] * rng.randrange(1, 4), timestamp=timestamp, epoch=number // 10)
    if reopened:
        log.close()
        log = open_log(files, clean_shutdown=True)
    if seed % 2:
        log.delete_before(rng.randrange(log.end_offset))
    records = records_of(log)
    for timestamp in range(0, 6000, 73):
        later = [record for record in records if record.timestamp >= timestamp]
        found = offset_for_timestamp(log, timestamp)
        if not later:
            assert found is None
            continue
        epoch = log.epochs.epoch_for(later[0].offset)
        assert found == TimestampAndOffset(later[0].timestamp, later[0].offset, epoch)
    newest = max(records, key=lambda record: record.timestamp)
    found = offset_of_max_timestamp(log)
    assert found is not None
    if not seed % 2:
        assert (found.timestamp, found.offset) == (newest.timestamp, newest.offset)


def test_empty_log_has_no_timestamps() -> None:
    log = open_log(MemoryFiles())
    assert offset_for_timestamp(log, 0) is None
    assert offset_of_max_timestamp(log) is None
    append(log, b"v")
    log.delete_before(1)
    assert offset_of_max_timestamp(log) is None
    assert offset_for_timestamp(log, 0) is None


def test_records_without_timestamps_are_not_found() -> None:
    log = open_log(MemoryFiles())
    log.append([batch(b"v", timestamp=-1)], leader_epoch=0, now_ms=0)
    assert offset_for_timestamp(log, 0) is None
