"""A segment: finding a batch by its offset, and damaged bytes."""

from __future__ import annotations

import pytest

from kafkalite.storage.segment import DamagedLogError, Segment, segment_name
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import SMALL, append, filled_log, open_log

LARGE = SMALL._replace(segment_bytes=1_000_000)


def test_names_have_twenty_digits() -> None:
    assert segment_name(2**40, ".log") == "00000001099511627776.log"


@pytest.mark.parametrize("interval", [0, 150, 4096, 10**9])
def test_every_offset_is_located_with_any_index_interval(interval: int) -> None:
    files = MemoryFiles()
    config = LARGE._replace(index_interval_bytes=interval)
    log = filled_log(600, config, files)
    starts = {view.base_offset: position for position, view in log.segments[0].batches(0)}
    for again in (log, open_log(files, config)):
        segment = again.segments[0]
        for offset in range(1200):
            assert segment.locate(offset) == starts[offset // 2 * 2]
        assert segment.locate(1200) == segment.size


def test_index_has_an_entry_every_interval_bytes() -> None:
    log = filled_log(600, LARGE)
    log.segments[0].seal()
    content = log.files.read(log.segments[0].path(".index"))
    batch_size = log.segments[0].size // 600
    assert abs(len(content) // 8 - 600 // (150 // batch_size + 1)) <= 60


def test_read_of_damaged_bytes_raises_damaged_log_error() -> None:
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
def test_impossible_length_raises_instead_of_looping(length: int) -> None:
    """With a length of -12 the next batch would be the same one, forever."""
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


def test_positions_of_recent_batches_are_limited() -> None:
    log = open_log(MemoryFiles(), LARGE)
    for _ in range(1000):
        append(log, b"v")
    assert len(log.segments[0]._recent_positions) <= 256
    assert log.segments[0].locate(3) > 0


def damaged(length: bytes, batch: int = 3) -> Segment:
    """Return a segment of ten equal batches, one of them with another length field."""
    files = MemoryFiles()
    sparse = LARGE._replace(index_interval_bytes=1_000_000)
    log = filled_log(10, sparse, files)
    log.roll(0)
    append(log, b"v")
    log.close()
    segment = log.segments[0]
    file = files.open(segment.path(".log"))
    content = bytearray(file.pread(file.size, 0))
    at = batch * len(content) // 10
    content[at + 8 : at + 12] = length
    file.truncate(0)
    file.append([content])
    return open_log(files, sparse, clean_shutdown=True).segments[0]


@pytest.mark.parametrize("length", [b"\x7f\xff\xff\xff", b"\x80\0\0\0", bytes(4), b"\0\0\0\5"])
def test_a_read_ends_before_a_damaged_batch_and_fails_at_it(length: bytes) -> None:
    segment = damaged(length)
    size = segment.size // 10
    at = 3 * size
    for max_bytes in (size + 1, 2 * size, 3 * size - 1):
        assert len(segment.read(size, segment.size, max_bytes, at_least_one=True)) <= 2 * size
        assert len(segment.read(2 * size, segment.size, max_bytes, at_least_one=True)) == size
    for max_bytes in (1, size, 10**6):
        with pytest.raises(DamagedLogError) as refused:
            segment.read(at, segment.size, max_bytes, at_least_one=True)
        assert refused.value.strerror == f"the batch at position {at} (offset 6) is damaged"
    for offset in (8, 12, 18):
        with pytest.raises(DamagedLogError):
            segment.locate(offset)
    with pytest.raises(DamagedLogError) as refusal:
        list(segment.batches(0))
    assert refusal.value.strerror == refused.value.strerror
    assert refusal.value.filename == segment.path(".log")
