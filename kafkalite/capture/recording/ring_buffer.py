"""A ring buffer in shared memory, through which a broker passes bytes to the writer process.

One process writes, the other reads. Neither waits for a lock, and a record needs no system call.
Written records can be read even if the writing process was killed. The counters only grow, and each
is written by one process.
"""

from __future__ import annotations

import mmap
import os
from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.capture.formats.pcapng import Buffer

RING_BYTES: Final = 32 * 1024 * 1024
MAX_RECORD_BYTES: Final = RING_BYTES // 8
"""Maximum size of a record; longer data is split."""

WAKE_BYTES: Final = RING_BYTES // 8
"""Number of bytes after which the reader is woken, because it may sleep."""

_CONTROL_BYTES: Final = 4096
_HEAD_INDEX, _TAIL_INDEX = 0, 8
"""Indexes of the counters in the control page, in 64-bit numbers. Each has its own cache line."""

_RECORD_HEADER: Final = Struct("=IBxxxIxxxxq")
"""Record header: size of the data, kind, connection number, time."""
_RECORD_HEADER_BYTES: Final = _RECORD_HEADER.size
_ROUNDING_BYTES: Final = _RECORD_HEADER_BYTES + 7
_pack_into = _RECORD_HEADER.pack_into
_unpack_from = _RECORD_HEADER.unpack_from
_pack_skip_into = Struct("=IB").pack_into
_SKIP: Final = 255
"""Record kind of padding at the end of the ring, before a record that did not fit there."""


class Room(Enum):
    """Whether a record fits."""

    NONE = 0
    AVAILABLE = 1
    WAKE = 2
    """Available, and the reader is to be woken."""


Record = tuple[int, int, int, "Buffer"]
"""One record: kind, connection number, time, data."""

MIN_VIEW_BYTES: Final = 4096
"""Minimum size of data that is returned as a view of the ring, without a copy."""


def new_memory(size: int = RING_BYTES) -> int:
    """Return a file descriptor of shared memory; the last process to close it frees the memory."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("kafkalite-capture")
    else:
        import tempfile  # noqa: PLC0415 - only needed without memfd_create

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, _CONTROL_BYTES + size)
    return fd


class RingBuffer:
    """One end of a ring buffer, for reading or writing."""

    __slots__ = (
        "_counters",
        "_head",
        "_limit",
        "_mask",
        "_memory",
        "_tail",
        "_view",
        "_wake_position",
        "size",
    )  # fmt: skip

    def __init__(self, fd: int) -> None:
        # The pages are mapped in advance: a page fault costs more than copying a record.
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self._memory = mmap.mmap(fd, 0, flags)
        self.size = len(self._memory) - _CONTROL_BYTES
        self._mask = self.size - 1
        self._view = memoryview(self._memory)
        self._counters = self._view[:_CONTROL_BYTES].cast("Q")
        self._head = self._counters[_HEAD_INDEX]
        self._tail = self._counters[_TAIL_INDEX]
        self._wake_position = 0
        self._limit = 0
        """Position up to which `put` may write; above it, `make_room` must be called first."""

    def put(self, kind: int, number: int, at_ns: int, data: Buffer) -> bool:
        """Add a record; return False if `make_room` must be called first."""
        size = len(data)
        head = self._head
        offset = head & self._mask
        new_head = head + (size + _ROUNDING_BYTES & -8)
        if new_head > self._limit or offset + new_head - head > self.size:
            return False
        position = _CONTROL_BYTES + offset
        memory = self._memory
        _pack_into(memory, position, size, kind, number, at_ns)
        position += _RECORD_HEADER_BYTES
        memory[position : position + size] = data
        # This makes the record visible to the reader.
        self._counters[_HEAD_INDEX] = self._head = new_head
        return True

    def make_room(self, size: int) -> Room:
        """Prepare the next `put` of `size` bytes, if there is room."""
        needed_bytes = size + _ROUNDING_BYTES & -8
        bytes_to_end = self.size - (self._head & self._mask)
        skipped_bytes = bytes_to_end if needed_bytes > bytes_to_end else 0
        self._tail = self._counters[_TAIL_INDEX]
        if self._head + skipped_bytes + needed_bytes - self._tail > self.size:
            return Room.NONE
        if skipped_bytes:
            offset = self._head & self._mask
            _pack_skip_into(self._memory, _CONTROL_BYTES + offset, skipped_bytes, _SKIP)
            self._counters[_HEAD_INDEX] = self._head = self._head + skipped_bytes
        is_wake_due = self._head + needed_bytes > self._wake_position
        if is_wake_due:
            self._wake_position = self._head + WAKE_BYTES
        self._limit = min(
            self._tail + self.size, max(self._wake_position, self._head + needed_bytes)
        )
        return Room.WAKE if is_wake_due else Room.AVAILABLE

    def reject_writes(self) -> None:
        """Reject all records until `make_room` succeeds again."""
        self._limit = 0

    def is_half_free(self) -> bool:
        """Whether at least half of the ring is free."""
        self._tail = self._counters[_TAIL_INDEX]
        return self._head - self._tail <= self.size // 2

    @property
    def head(self) -> int:
        """Total number of bytes written."""
        return self._counters[_HEAD_INDEX]

    def read(self, head: int) -> Iterator[Record]:
        """Yield the records before `head`; their bytes stay valid until `free`."""
        memory, view, mask = self._memory, self._view, self._mask
        tail = self._tail
        while tail < head:
            offset = tail & mask
            position = _CONTROL_BYTES + offset
            if memory[position + 4] == _SKIP:
                tail += self.size - offset
                continue
            size, kind, number, at_ns = _unpack_from(memory, position)
            position += _RECORD_HEADER_BYTES
            source = memory if size < MIN_VIEW_BYTES else view
            tail += (size + _RECORD_HEADER_BYTES + 7) & ~7
            self._tail = tail
            yield kind, number, at_ns, source[position : position + size]

    def free(self) -> None:
        """Release the space of the records that were read; views of them become invalid."""
        self._counters[_TAIL_INDEX] = self._tail

    def clear(self) -> None:
        """Drop all records, after the reading process has ended."""
        self._counters[_TAIL_INDEX] = self._counters[_HEAD_INDEX]

    def close(self) -> None:
        """Release the memory."""
        self._counters.release()
        self._view.release()
        self._memory.close()
