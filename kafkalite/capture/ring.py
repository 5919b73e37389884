"""A ring of shared memory, by which a broker hands bytes to the process that writes them down.

One process puts, the other takes; neither ever waits for a lock, and no system call is made for a
record. What was put is there for the taker even when the putter was killed. The counters only grow,
and each has one writer.
"""

from __future__ import annotations

import mmap
import os
from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.capture.pcapng import Buffer

RING_BYTES: Final = 32 * 1024 * 1024
MAX_RECORD_BYTES: Final = RING_BYTES // 8
"""What one record can carry at most; more goes into several."""

ROUSE_BYTES: Final = RING_BYTES // 8
"""After so much the taker is to be roused, should it rest."""

_CONTROL_BYTES: Final = 4096
_HEAD, _TAIL = 0, 8
"""Where the counters are, in words: each in a cache line of its own."""

_RECORD: Final = Struct("=IBxxxIxxxxq")
"""Bytes of data, kind, connection, time."""
_RECORD_BYTES: Final = _RECORD.size
_ROUNDED: Final = _RECORD_BYTES + 7
_pack_into = _RECORD.pack_into
_unpack_from = _RECORD.unpack_from
_skip_into = Struct("=IB").pack_into
_SKIP: Final = 255
"""The kind of what fills the ring up to its end, where the next record did not fit."""


class Room(Enum):
    """Whether a record can be put."""

    NONE = 0
    THERE = 1
    ROUSE = 2
    """There is, and much has been put since the taker was last to be roused."""


Record = tuple[int, int, int, "Buffer"]
"""What one process tells the other: kind, connection, time, data."""

VIEWED_BYTES: Final = 4096
"""From here on data is not copied out of the ring: it is looked at where it is."""


def new_memory(size: int = RING_BYTES) -> int:
    """Return the descriptor of memory for a ring, which goes with the last process that has it."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("kafkalite-capture")
    else:
        import tempfile  # noqa: PLC0415 - where there is no other memory to share

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, _CONTROL_BYTES + size)
    return fd


class Ring:
    """One end of a ring, of either kind."""

    __slots__ = ("_head", "_limit", "_mask", "_memory", "_rouse_at", "_tail", "_view", "_words",
                 "size")  # fmt: skip

    def __init__(self, fd: int) -> None:
        # Pages are had beforehand: a first touch costs a connection more than its bytes do.
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self._memory = mmap.mmap(fd, 0, flags)
        self.size = len(self._memory) - _CONTROL_BYTES
        self._mask = self.size - 1
        self._view = memoryview(self._memory)
        self._words = self._view[:_CONTROL_BYTES].cast("Q")
        self._head = self._words[_HEAD]
        self._tail = self._words[_TAIL]
        self._rouse_at = 0
        self._limit = 0
        """Up to here nothing needs to be thought of before something is put."""

    def put(self, kind: int, number: int, at_ns: int, data: Buffer) -> bool:
        """Add a record; False, and nothing was done, where `make_room` is to be asked first."""
        size = len(data)
        head = self._head
        offset = head & self._mask
        after = head + (size + _ROUNDED & -8)
        if after > self._limit or offset + after - head > self.size:
            return False
        position = _CONTROL_BYTES + offset
        memory = self._memory
        _pack_into(memory, position, size, kind, number, at_ns)
        position += _RECORD_BYTES
        memory[position : position + size] = data
        # Only now does the other process see it.
        self._words[_HEAD] = self._head = after
        return True

    def make_room(self, size: int) -> Room:
        """Let the next `put` of so many bytes succeed, if there is room."""
        needed = size + _ROUNDED & -8
        rest = self.size - (self._head & self._mask)
        skipped = rest if needed > rest else 0
        self._tail = self._words[_TAIL]
        if self._head + skipped + needed - self._tail > self.size:
            return Room.NONE
        if skipped:
            offset = self._head & self._mask
            _skip_into(self._memory, _CONTROL_BYTES + offset, skipped, _SKIP)
            self._words[_HEAD] = self._head = self._head + skipped
        is_due = self._head + needed > self._rouse_at
        if is_due:
            self._rouse_at = self._head + ROUSE_BYTES
        self._limit = min(self._tail + self.size, max(self._rouse_at, self._head + needed))
        return Room.ROUSE if is_due else Room.THERE

    def shut(self) -> None:
        """Let nothing be put until room is made again."""
        self._limit = 0

    def has_half(self) -> bool:
        """Whether at least half of the ring is free."""
        self._tail = self._words[_TAIL]
        return self._head - self._tail <= self.size // 2

    @property
    def head(self) -> int:
        """How much was ever put."""
        return self._words[_HEAD]

    def take(self, head: int) -> Iterator[Record]:
        """Take what was put before `head` was that; all of it stays where it is until `free`."""
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
            source = memory if size < VIEWED_BYTES else view
            tail += (size + _RECORD_BYTES + 7) & ~7
            self._tail = tail
            yield kind, number, at_ns, source[position : position + size]

    def free(self) -> None:
        """Let the places of all that was taken be used again; nothing may look at them any more."""
        self._words[_TAIL] = self._tail

    def forget(self) -> None:
        """Drop what was put, in place of a taker that is no more."""
        self._words[_TAIL] = self._words[_HEAD]

    def close(self) -> None:
        """Let the memory go."""
        self._words.release()
        self._view.release()
        self._memory.close()
