"""Bytes → the batches that can be believed: where a log ends after a crash.

Pure but for the `pread` it is given. A write that was cut short leaves a batch that is too long
for the file, has an impossible head or fails its CRC; whatever stands behind it is not believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.storage.batch import FIRST, HEAD_SIZE, LENGTH_END, BatchView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK_SIZE = 1 << 20
_MAGIC_2 = 2
_INT32_MAX = 2**31 - 1


def placed_batches(
    pread: Callable[[int, int], bytes], start: int, end: int
) -> Iterator[tuple[int, BatchView]]:
    """Yield each whole batch between two positions and where it stands, unchecked.

    Stops where a batch would reach beyond `end` or has a length that no batch can have.
    """
    position = start
    while end - position >= HEAD_SIZE:
        chunk = memoryview(pread(min(_CHUNK_SIZE, end - position), position))
        size = at = 0
        while len(chunk) - at >= HEAD_SIZE:
            size = FIRST.unpack_from(chunk, at)[1] + LENGTH_END
            if size < HEAD_SIZE or position + at + size > end:
                return
            if at + size > len(chunk):
                break
            yield position + at, BatchView(chunk[at : at + size])
            at += size
        if at == 0:
            # Either one batch is longer than a chunk, or the file is shorter than it said.
            whole = pread(size, position)
            if len(whole) < max(size, HEAD_SIZE):
                return
            yield position, BatchView(whole)
            at = size
        position += at


def believable_batches(
    pread: Callable[[int, int], bytes], size: int, base_offset: int
) -> Iterator[tuple[int, BatchView]]:
    """Yield position and batch from the start of a segment up to the first that is damaged."""
    next_offset = base_offset
    for position, batch in placed_batches(pread, 0, size):
        if not (
            batch.magic == _MAGIC_2
            and batch.base_offset >= next_offset
            and batch.last_offset_delta >= 0
            and batch.last_offset - base_offset <= _INT32_MAX
            and batch.has_valid_crc()
        ):
            return
        yield position, batch
        next_offset = batch.last_offset + 1
