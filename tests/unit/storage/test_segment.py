"""A segment: finding a batch by its offset, and bytes that went bad."""

from __future__ import annotations

import pytest

from kafkalite.storage.segment import DamagedLogError, segment_name
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import SMALL, append, filled_log, open_log

LARGE = SMALL._replace(segment_bytes=1_000_000)


def test_names_have_twenty_digits() -> None:
    assert segment_name(2**40, ".log") == "00000001099511627776.log"


@pytest.mark.parametrize("interval", [0, 150, 4096, 10**9])
def test_every_offset_is_found_with_any_index(interval: int) -> None:
    files = MemoryFiles()
    config = LARGE._replace(index_interval_bytes=interval)
    log = filled_log(600, config, files)
    starts = {view.base_offset: position for position, view in log.segments[0].batches(0)}
    for again in (log, open_log(files, config)):
        segment = again.segments[0]
        for offset in range(1200):
            assert segment.locate(offset) == starts[offset // 2 * 2]
        assert segment.locate(1200) == segment.size


def test_an_index_has_an_entry_every_so_many_bytes() -> None:
    log = filled_log(600, LARGE)
    log.segments[0].seal()
    content = log.files.read(log.segments[0].path(".index"))
    batch_size = log.segments[0].size // 600
    assert abs(len(content) // 8 - 600 // (150 // batch_size + 1)) <= 60


def test_reading_where_bytes_went_bad_is_told_and_not_guessed() -> None:
    files = MemoryFiles()
    log = filled_log(10, LARGE, files)
    log.close()
    segment = open_log(files, LARGE, clean_shutdown=True).segments[0]
    file = files.open(segment.path(".log"))
    file.truncate(file.size - 10)
    with pytest.raises(DamagedLogError):
        segment.read(0, file.size + 10, 10**6, at_least_one=True)
    with pytest.raises(DamagedLogError):
        segment.read(file.size, file.size + 10, 5, at_least_one=True)


def test_zeros_are_no_batches() -> None:
    files = MemoryFiles()
    log = filled_log(3, LARGE, files)
    log.roll(0)
    append(log, b"v")
    log.close()
    path = log.segments[0].path(".log")
    files.open(path).append([bytes(100)])
    segment = open_log(files, LARGE, clean_shutdown=True).segments[0]
    with pytest.raises(DamagedLogError):
        segment.locate(7)


@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, 48])
def test_a_batch_with_an_impossible_length_holds_nobody_up(length: int) -> None:
    """By a length of -12 the next batch would be the same one, for ever."""
    files = MemoryFiles()
    sparse = LARGE._replace(index_interval_bytes=1_000_000)
    log = filled_log(40, sparse, files)
    log.roll(0)
    append(log, b"v")
    log.close()
    file = files.open(log.segments[0].path(".log"))
    content = bytearray(file.pread(file.size, 0))
    content[8:12] = length.to_bytes(4, "big", signed=True)
    file.truncate(0)
    file.append([content])
    segment = open_log(files, sparse, clean_shutdown=True).segments[0]
    for read in (
        lambda: segment.locate(2),
        lambda: segment.read(0, segment.size, 300, at_least_one=False),
        lambda: segment.read(0, segment.size, 5, at_least_one=True),
    ):
        with pytest.raises(DamagedLogError):
            read()


def test_where_recent_batches_stand_is_remembered_within_bounds() -> None:
    log = open_log(MemoryFiles(), LARGE)
    for _ in range(1000):
        append(log, b"v")
    assert len(log.segments[0]._recent) <= 256
    assert log.segments[0].locate(3) > 0
