"""Sparse indexes: Kafka's files, and searches compared with a linear search."""

from __future__ import annotations

import random
import struct

import pytest

from kafkalite.storage.index import OffsetIndex, TimeIndex
from kafkalite.testing.files import MemoryFiles

PATH = "data/file"


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.makedirs("data")
    return files


def offset_index(entries: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex()
    for entry in entries:
        index.append(*entry)
    return index


def time_index(entries: list[tuple[int, int]]) -> TimeIndex:
    index = TimeIndex()
    for entry in entries:
        index.append(*entry)
    return index


def test_the_offset_index_is_pairs_of_int32(files: MemoryFiles) -> None:
    offset_index([(3, 100), (2**31 - 1, 2**31 - 2)]).save(files, PATH)
    assert files.read(PATH) == struct.pack(">iiii", 3, 100, 2**31 - 1, 2**31 - 2)


def test_the_time_index_is_int64_and_int32(files: MemoryFiles) -> None:
    time_index([(1000, 3), (2**62, 9)]).save(files, PATH)
    assert files.read(PATH) == struct.pack(">qiqi", 1000, 3, 2**62, 9)


def test_entries_are_saved_once(files: MemoryFiles) -> None:
    offsets, times = offset_index([(1, 10)]), time_index([(5, 1)])
    for step in range(2):
        offsets.save(files, PATH)
        times.save(files, PATH + "t")
        offsets.append(5 + step, 20 + step)
        times.append(10 + step, 5 + step)
    offsets.save(files, PATH)
    times.save(files, PATH + "t")
    loaded = OffsetIndex.load(files.read(PATH), 100)
    assert loaded is not None
    assert loaded.entries == offsets.entries == [(1, 10), (5, 20), (6, 21)]
    times_loaded = TimeIndex.load(files.read(PATH + "t"))
    assert times_loaded is not None
    assert times_loaded.entries == times.entries == [(5, 1), (10, 5), (11, 6)]


def test_saving_replaces_a_file_of_an_earlier_run(files: MemoryFiles) -> None:
    offset_index([(1, 10), (2, 20), (3, 30)]).save(files, PATH)
    rebuilt = offset_index([(1, 11)])
    rebuilt.save(files, PATH)
    assert files.read(PATH) == struct.pack(">ii", 1, 11)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\0" * 7, id="half an entry"),
        pytest.param(struct.pack(">ii", 3, 100), id="beyond the log"),
        pytest.param(struct.pack(">ii", -3, 50), id="negative offset"),
        pytest.param(struct.pack(">ii", 3, -50), id="negative position"),
    ],
)
def test_invalid_offset_index_is_ignored(data: bytes) -> None:
    assert OffsetIndex.load(data, 100) is None


@pytest.mark.parametrize("data", [b"\0" * 11, struct.pack(">qi", -1, 5), struct.pack(">qi", 5, -1)])
def test_invalid_time_index_is_ignored(data: bytes) -> None:
    assert TimeIndex.load(data) is None


def test_time_index_skips_timestamps_that_do_not_increase() -> None:
    assert time_index([(-1, 0), (5, 1), (5, 2), (4, 3), (6, 4)]).entries == [(5, 1), (6, 4)]


@pytest.mark.parametrize("seed", range(20))
def test_searches_equal_a_linear_search(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - repeatable
    entries = sorted(rng.sample(range(200), rng.randrange(30)))
    positions = sorted(rng.sample(range(5000), len(entries)))
    index = offset_index(list(zip(entries, positions, strict=True)))
    for offset in range(-5, 205):
        below = [p for o, p in zip(entries, positions, strict=True) if o <= offset]
        assert index.position_before(offset) == max(below, default=0)
    for position in range(0, 5000, 37):
        below = [p for p in positions if p <= position]
        assert index.boundary_at_or_before(position) == max(below, default=0)
        beyond = [o for o, p in zip(entries, positions, strict=True) if p >= position]
        assert index.offset_at_or_after(position) == min(beyond, default=None)
    times = time_index(list(zip(positions, entries, strict=True)))
    for timestamp in range(0, 5000, 37):
        below = [o for t, o in zip(positions, entries, strict=True) if t < timestamp]
        assert times.offset_before(timestamp) == max(below, default=0)
