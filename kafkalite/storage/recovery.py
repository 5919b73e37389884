"""Recovery of a log file after a crash: find the valid batches, and those after a damaged one.

The functions read only by the given `pread`. An incomplete write leaves a batch that is longer than
the file, has an impossible header or fails its CRC. Valid batches after it show that it is not the
last write, but damage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.storage.batch import HEADER_SIZE, LENGTH_END, MAGIC_2, PREFIX, BatchView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK_SIZE = 1 << 20
_INT32_MAX = 2**31 - 1
_MAGIC_POSITION = 16
_MAGIC_BYTE = bytes((MAGIC_2,))


def positioned_batches(
    pread: Callable[[int, int], bytes], start: int, end: int
) -> Iterator[tuple[int, BatchView]]:
    """Yield each complete batch between two positions with its position, without checking it.

    Stops at a batch that would exceed `end` or has an impossible length.
    """
    position = start
    while end - position >= HEADER_SIZE:
        chunk = memoryview(pread(min(_CHUNK_SIZE, end - position), position))
        size = chunk_position = 0
        while len(chunk) - chunk_position >= HEADER_SIZE:
            size = PREFIX.unpack_from(chunk, chunk_position)[1] + LENGTH_END
            if size < HEADER_SIZE or position + chunk_position + size > end:
                return
            if chunk_position + size > len(chunk):
                break
            batch = BatchView(chunk[chunk_position : chunk_position + size])
            yield position + chunk_position, batch
            chunk_position += size
        if chunk_position == 0:
            # Either one batch is longer than a chunk, or the file is shorter than expected.
            long_batch = pread(size, position)
            if len(long_batch) < max(size, HEADER_SIZE):
                return
            yield position, BatchView(long_batch)
            chunk_position = size
        position += chunk_position


def valid_batches(
    pread: Callable[[int, int], bytes], size: int, base_offset: int
) -> Iterator[tuple[int, BatchView]]:
    """Yield position and batch from the start of a segment to the first damaged batch."""
    next_offset = base_offset
    for position, batch in positioned_batches(pread, 0, size):
        if not _is_valid(batch, next_offset, base_offset):
            return
        yield position, batch
        next_offset = batch.last_offset + 1


def _is_valid(batch: BatchView, next_offset: int, base_offset: int) -> bool:
    return (
        batch.magic == MAGIC_2
        and batch.base_offset >= next_offset
        and batch.last_offset_delta >= 0
        and batch.last_offset - base_offset <= _INT32_MAX
        and batch.has_valid_crc()
    )


def end_offset_after_damage(
    pread: Callable[[int, int], bytes], start: int, size: int, next_offset: int
) -> int | None:
    """Return the offset after the valid batches that follow the damaged one at `start`.

    They need not follow it directly, because its length may be damaged. None if there are none.
    `next_offset` is the expected offset of the damaged batch.
    """
    end_offset = None
    position = _valid_batch_position(pread, start + 1, size, next_offset)
    if position is not None:
        for _, batch in positioned_batches(pread, position, size):
            if not _is_valid(batch, next_offset, next_offset):
                break
            end_offset = next_offset = batch.last_offset + 1
    return end_offset


def _valid_batch_position(
    pread: Callable[[int, int], bytes], start: int, size: int, next_offset: int
) -> int | None:
    """Return the first position from `start` on at which a valid batch begins, or None."""
    while size - start >= HEADER_SIZE:
        chunk = pread(min(_CHUNK_SIZE, size - start), start)
        magic = chunk.find(_MAGIC_BYTE, _MAGIC_POSITION)
        while magic >= 0:
            base_offset, length = PREFIX.unpack_from(chunk, magic - _MAGIC_POSITION)[:2]
            position, batch_size = start + magic - _MAGIC_POSITION, length + LENGTH_END
            if (
                next_offset <= base_offset <= next_offset + _INT32_MAX
                and HEADER_SIZE <= batch_size <= size - position
                and _is_valid(BatchView(pread(batch_size, position)), next_offset, next_offset)
            ):
                return position
            magic = chunk.find(_MAGIC_BYTE, magic + 1)
        start += max(1, len(chunk) - _MAGIC_POSITION)
    return None
