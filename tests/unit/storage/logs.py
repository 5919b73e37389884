"""Batches, logs and disks for the tests of storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.log_config import LogConfig
from kafkalite.storage.batch import NO_PRODUCER, BatchProducer, BatchView, build_batch
from kafkalite.storage.log import Log
from kafkalite.storage.record_format import NewRecord, Record
from kafkalite.testing.files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.ports.files import Files

DIRECTORY = "data/t-0"
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=150)
"""Segments of a handful of batches, and an index entry every other one."""


def batch(
    *values: bytes | None,
    keys: Sequence[bytes | None] | None = None,
    timestamp: int = 1000,
    attributes: int = 0,
    producer: BatchProducer = NO_PRODUCER,
) -> BatchView:
    """Return a batch of a record per value, a millisecond apart."""
    return BatchView(
        build_batch(
            [
                NewRecord(keys[index] if keys else b"k", value, timestamp + index)
                for index, value in enumerate(values)
            ],
            attributes=attributes,
            producer=producer,
        )
    )


def open_log(
    files: Files,
    config: LogConfig = SMALL,
    *,
    clean_shutdown: bool = False,
    may_have_lost_writes: bool = True,
    is_internal: bool = False,
) -> Log:
    """Return the log in DIRECTORY."""
    return Log.open(
        files,
        DIRECTORY,
        config,
        now_ms=0,
        clean_shutdown=clean_shutdown,
        may_have_lost_writes=may_have_lost_writes,
        is_internal=is_internal,
    )


def append(log: Log, *values: bytes | None, timestamp: int = 1000, epoch: int = 0) -> int:
    """Append a batch of these values and return its base offset."""
    info = log.append([batch(*values, timestamp=timestamp)], leader_epoch=epoch, now_ms=0)
    return info.base_offset


def filled_log(count: int, config: LogConfig = SMALL, files: Files | None = None) -> Log:
    """Return a log of `count` batches of two records, timestamps rising by ten from 1000."""
    log = open_log(files or MemoryFiles(), config)
    for number in range(count):
        append(log, b"value %d" % number, b"other", timestamp=1000 + 10 * number)
    return log


def records_of(log: Log) -> list[Record]:
    """Return every record that a consumer of the log can read."""
    records: list[Record] = []
    offset = log.start_offset
    while data := log.read(offset, max_bytes=300, limit_offset=log.end_offset, at_least_one=True):
        position = 0
        while position < len(data):
            view = BatchView(memoryview(data)[position:])
            complete_batch = BatchView(memoryview(data)[position : position + view.size])
            assert complete_batch.has_valid_crc()
            records += (record for record in complete_batch.records() if record.offset >= offset)
            offset = complete_batch.last_offset + 1
            position += complete_batch.size
    return records


def values_of(log: Log) -> list[bytes | None]:
    """Return the value of every record that a consumer of the log can read."""
    return [record.value for record in records_of(log)]
