"""Which batches are believed, and where a log ends after a crash."""

from __future__ import annotations

import random

import pytest

from kafkalite.storage.recovery import believable_batches, placed_batches
from kafkalite.testing.files import MemoryFile, MemoryFiles
from tests.unit.storage.logs import batch


def file_of(content: bytes) -> MemoryFile:
    files = MemoryFiles()
    files.makedirs("d")
    file = files.open("d/f", create=True)
    file.append([content])
    return file


def segment(count: int, base_offset: int = 100) -> tuple[bytes, list[int]]:
    """Return the bytes of `count` batches of two records, and where each one ends."""
    content, ends = b"", []
    for number in range(count):
        view = batch(b"value %d" % number, b"x" * 40 * number)
        content += view.first(base_offset + 2 * number, 0) + bytes(view.data)[16:]
        ends.append(len(content))
    return content, ends


def believed(content: bytes, base_offset: int = 100) -> list[tuple[int, int]]:
    file = file_of(content)
    batches = believable_batches(file.pread, file.size, base_offset)
    return [(position, view.base_offset) for position, view in batches]


def test_all_of_a_whole_segment_is_believed() -> None:
    content, ends = segment(5)
    assert believed(content) == list(zip([0, *ends], range(100, 110, 2), strict=False))
    assert believed(b"") == []


def test_a_torn_tail_is_not_believed() -> None:
    content, ends = segment(4)
    for end in range(len(content)):
        whole = sum(each <= end for each in ends)
        assert len(believed(content[:end])) == whole
        assert len(believed(content[:end] + b"\xff" * 500)) == whole


@pytest.mark.parametrize("seed", range(200))
def test_nothing_behind_a_flipped_bit_is_believed(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - repeatable
    content, ends = segment(4)
    position = rng.randrange(len(content))
    damaged = bytearray(content)
    damaged[position] ^= 1 << rng.randrange(8)
    which = sum(end <= position for end in ends)
    start = 0 if which == 0 else ends[which - 1]
    seen = believed(bytes(damaged))
    assert seen[:which] == believed(content)[:which]
    # Base offset and leader epoch lie outside of the CRC: an offset that goes up is no damage to
    # whoever cannot know what was meant.
    if position - start not in range(8) and position - start not in range(12, 16):
        assert len(seen) == which


def test_offsets_that_go_back_are_not_believed() -> None:
    content, ends = segment(3)
    assert len(believed(content + content[: ends[0]])) == 3
    assert believed(content, base_offset=101) == []


def test_batches_longer_than_a_chunk_are_read_whole() -> None:
    views = [batch(b"a" * size) for size in (10, 1 << 20, 3 << 20, 10)]
    content = b"".join(bytes(view.data) for view in views)
    file = file_of(content)
    placed = list(placed_batches(file.pread, 0, file.size))
    assert [len(view.data) for _, view in placed] == [len(view.data) for view in views]
    assert [position for position, _ in placed] == [
        sum(len(view.data) for view in views[:count]) for count in range(4)
    ]


def test_a_file_that_is_shorter_than_it_said_ends_early() -> None:
    content, ends = segment(3)
    file = file_of(content)
    assert len(list(placed_batches(file.pread, 0, len(content) + 1000))) == 3
    assert len(list(placed_batches(file.pread, ends[1], len(content)))) == 1
    assert list(placed_batches(lambda _size, _position: b"", 0, 1000)) == []
