"""Valid batches, and the end of a log after a crash."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from kafkalite.storage.recovery import (
    end_offset_after_damage,
    positioned_batches,
    valid_batches,
)
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import batch

if TYPE_CHECKING:
    from kafkalite.ports.memory_files import InMemoryFile


def file_of(content: bytes) -> InMemoryFile:
    files = MemoryFiles()
    files.makedirs("d")
    file = files.open("d/f", create=True)
    file.append([content])
    return file


def segment(count: int, base_offset: int = 100) -> tuple[bytes, list[int]]:
    """Return the bytes of `count` batches of two records, and the end of each batch."""
    content, ends = b"", []
    for number in range(count):
        view = batch(b"value %d" % number, b"x" * 40 * number)
        content += view.prefix(base_offset + 2 * number, 0) + bytes(view.data)[16:]
        ends.append(len(content))
    return content, ends


def valid_positions(content: bytes, base_offset: int = 100) -> list[tuple[int, int]]:
    file = file_of(content)
    batches = valid_batches(file.pread, file.size, base_offset)
    return [(position, view.base_offset) for position, view in batches]


def test_complete_segment_is_valid() -> None:
    content, ends = segment(5)
    assert valid_positions(content) == list(zip([0, *ends], range(100, 110, 2), strict=False))
    assert valid_positions(b"") == []


def test_incomplete_tail_is_not_valid() -> None:
    content, ends = segment(4)
    for end in range(len(content)):
        whole = sum(each <= end for each in ends)
        assert len(valid_positions(content[:end])) == whole
        assert len(valid_positions(content[:end] + b"\xff" * 500)) == whole


@pytest.mark.parametrize("seed", range(200))
def test_batches_after_a_flipped_bit_are_not_valid(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - repeatable
    content, ends = segment(4)
    position = rng.randrange(len(content))
    damaged = bytearray(content)
    damaged[position] ^= 1 << rng.randrange(8)
    which = sum(end <= position for end in ends)
    start = 0 if which == 0 else ends[which - 1]
    seen = valid_positions(bytes(damaged))
    assert seen[:which] == valid_positions(content)[:which]
    # Base offset and leader epoch are outside of the CRC: a larger offset cannot be recognised as
    # damage.
    if position - start not in range(8) and position - start not in range(12, 16):
        assert len(seen) == which


def test_decreasing_offsets_are_not_valid() -> None:
    content, ends = segment(3)
    assert len(valid_positions(content + content[: ends[0]])) == 3
    assert valid_positions(content, base_offset=101) == []


def test_batches_longer_than_a_chunk_are_read_whole() -> None:
    views = [batch(b"a" * size) for size in (10, 1 << 20, 3 << 20, 10)]
    content = b"".join(bytes(view.data) for view in views)
    file = file_of(content)
    placed = list(positioned_batches(file.pread, 0, file.size))
    assert [len(view.data) for _, view in placed] == [len(view.data) for view in views]
    assert [position for position, _ in placed] == [
        sum(len(view.data) for view in views[:count]) for count in range(4)
    ]


def test_file_shorter_than_its_size_ends_early() -> None:
    content, ends = segment(3)
    file = file_of(content)
    assert len(list(positioned_batches(file.pread, 0, len(content) + 1000))) == 3
    assert len(list(positioned_batches(file.pread, ends[1], len(content)))) == 1
    assert list(positioned_batches(lambda _size, _position: b"", 0, 1000)) == []


@pytest.mark.parametrize("seed", range(60))
def test_batches_after_a_damaged_one_are_found(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - repeatable
    content, ends = segment(4)
    starts = [0, *ends]
    which = rng.randrange(4)
    start, next_offset = starts[which], 100 + 2 * which
    at = rng.randrange(start, ends[which])
    damaged = bytearray(content)
    damaged[at : at + rng.randrange(1, 5)] = rng.randbytes(4)
    pread = file_of(bytes(damaged)).pread
    expected = None if which == 3 else 108
    assert end_offset_after_damage(pread, start, len(damaged), next_offset) == expected


@pytest.mark.parametrize("tail", [b"", b"\0" * 9000, b"\2" * 9000, b"\xde\xad" * 50])
def test_an_incomplete_write_is_followed_by_no_batch(tail: bytes) -> None:
    content, ends = segment(4)
    for end in range(ends[2], len(content) if not tail else ends[2] + 1):
        pread = file_of(content[:end] + tail).pread
        assert end_offset_after_damage(pread, ends[2], end + len(tail), 106) is None


def test_earlier_batches_are_not_later_ones() -> None:
    """A file may have old bytes after its end, such as after a restored copy."""
    content, ends = segment(4)
    pread = file_of(content[: ends[2]] + b"\0" * 100 + content[: ends[1]]).pread
    assert end_offset_after_damage(pread, ends[2], 10_000, 106) is None


def test_a_batch_across_two_chunks_is_found() -> None:
    content, _ = segment(2, 7)
    for offset in range((1 << 20) - 20, (1 << 20) + 3):
        pread = file_of(bytes(offset) + content).pread
        assert end_offset_after_damage(pread, 0, offset + len(content), 7) == 11
