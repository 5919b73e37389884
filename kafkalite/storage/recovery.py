"""Recovery of a log file after a crash: find the valid batches and their end.

The functions read only by the given `pread`. An incomplete write leaves a batch that is longer than
the file, has an impossible header or fails its CRC; all bytes after it are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.storage.batch import HEADER_SIZE, LENGTH_END, MAGIC_2, PREFIX, BatchView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK_SIZE = 1 << 20
_INT32_MAX = 2**31 - 1


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
        if not (
            batch.magic == MAGIC_2
            and batch.base_offset >= next_offset
            and batch.last_offset_delta >= 0
            and batch.last_offset - base_offset <= _INT32_MAX
            and batch.has_valid_crc()
        ):
            return
        yield position, batch
        next_offset = batch.last_offset + 1
