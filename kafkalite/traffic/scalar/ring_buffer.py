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

    from kafkalite.traffic.formats.pcapng import Buffer

RING_BYTES: Final = 32 * 1024 * 1024
MAX_RECORD_BYTES: Final = RING_BYTES // 8
"""Maximum size of a record; longer data is split."""

WAKE_BYTES: Final = RING_BYTES // 8
"""Number of bytes after which the reader is woken, because it may sleep."""

_CONTROL_BYTES: Final = 4096
_HEAD, _TAIL = 0, 8
"""Offsets of the counters, in words; each is in its own cache line."""

_RECORD: Final = Struct("=IBxxxIxxxxq")
"""The header of a record: size of the data, kind, connection, time."""
_RECORD_BYTES: Final = _RECORD.size
_ROUNDING_BYTES: Final = _RECORD_BYTES + 7
_pack_into = _RECORD.pack_into
_unpack_from = _RECORD.unpack_from
_pack_skip_into = Struct("=IB").pack_into
_SKIP: Final = 255
"""The kind of the padding at the end of the ring, where the next record did not fit."""


class Room(Enum):
    """Whether a record fits."""

    NONE = 0
    AVAILABLE = 1
    WAKE = 2
    """Available, and the reader is to be woken."""


Record = tuple[int, int, int, "Buffer"]
"""One record: kind, connection, time, data."""

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
        "_head",
        "_limit",
        "_mask",
        "_memory",
        "_tail",
        "_view",
        "_wake_at",
        "_words",
        "size",
    )  # fmt: skip

    def __init__(self, fd: int) -> None:
        # The pages are mapped in advance: a page fault costs more than copying a record.
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self._memory = mmap.mmap(fd, 0, flags)
        self.size = len(self._memory) - _CONTROL_BYTES
        self._mask = self.size - 1
        self._view = memoryview(self._memory)
        self._words = self._view[:_CONTROL_BYTES].cast("Q")
        self._head = self._words[_HEAD]
        self._tail = self._words[_TAIL]
        self._wake_at = 0
        self._limit = 0
        """Position up to which `put` needs no check."""

    def put(self, kind: int, number: int, at_ns: int, data: Buffer) -> bool:
        """Add a record; return False if `make_room` must be called first."""
        size = len(data)
        head = self._head
        offset = head & self._mask
        after = head + (size + _ROUNDING_BYTES & -8)
        if after > self._limit or offset + after - head > self.size:
            return False
        position = _CONTROL_BYTES + offset
        memory = self._memory
        _pack_into(memory, position, size, kind, number, at_ns)
        position += _RECORD_BYTES
        memory[position : position + size] = data
        # This makes the record visible to the reader.
        self._words[_HEAD] = self._head = after
        return True

    def make_room(self, size: int) -> Room:
        """Prepare the next `put` of `size` bytes, if there is room."""
        needed = size + _ROUNDING_BYTES & -8
        bytes_to_end = self.size - (self._head & self._mask)
        skipped = bytes_to_end if needed > bytes_to_end else 0
        self._tail = self._words[_TAIL]
        if self._head + skipped + needed - self._tail > self.size:
            return Room.NONE
        if skipped:
            offset = self._head & self._mask
            _pack_skip_into(self._memory, _CONTROL_BYTES + offset, skipped, _SKIP)
            self._words[_HEAD] = self._head = self._head + skipped
        is_wake_due = self._head + needed > self._wake_at
        if is_wake_due:
            self._wake_at = self._head + WAKE_BYTES
        self._limit = min(self._tail + self.size, max(self._wake_at, self._head + needed))
        return Room.WAKE if is_wake_due else Room.AVAILABLE

    def reject_writes(self) -> None:
        """Reject all records until `make_room` succeeds again."""
        self._limit = 0

    def is_half_free(self) -> bool:
        """Whether at least half of the ring is free."""
        self._tail = self._words[_TAIL]
        return self._head - self._tail <= self.size // 2

    @property
    def head(self) -> int:
        """Total number of bytes written."""
        return self._words[_HEAD]

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
            position += _RECORD_BYTES
            source = memory if size < MIN_VIEW_BYTES else view
            tail += (size + _RECORD_BYTES + 7) & ~7
            self._tail = tail
            yield kind, number, at_ns, source[position : position + size]

    def free(self) -> None:
        """Release the space of all records taken; views of them become invalid."""
        self._words[_TAIL] = self._tail

    def clear(self) -> None:
        """Drop all records, after the reading process has ended."""
        self._words[_TAIL] = self._words[_HEAD]

    def close(self) -> None:
        """Release the memory."""
        self._words.release()
        self._view.release()
        self._memory.close()
