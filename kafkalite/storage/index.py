"""Sparse indexes of a segment: offset → position and timestamp → offset, in Kafka's files.

An entry stands for a batch every few kilobytes. Entries live in arrays and reach the disk when a
segment is flushed, rolled or closed: they say nothing the log does not say, so what a crash takes
is built again.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.ports.files import Files

_OFFSET_ENTRY_SIZE = 8
_TIME_ENTRY = struct.Struct(">qi")
TIME_ENTRY_SIZE = _TIME_ENTRY.size


class OffsetIndex:
    """Offset → position: the last offset of a batch, and where in the log the batch begins.

    Offsets count from the segment's base offset. An entry of the file is two big-endian int32.
    """

    __slots__ = ("_offsets", "_positions", "_saved")

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")
        self._saved = 0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """The entries: relative offset and position."""
        return list(zip(self._offsets, self._positions, strict=True))

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry, larger in both than the last."""
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def position_before(self, relative_offset: int) -> int:
        """Return a batch boundary at or before the batch that holds the offset."""
        slot = bisect_right(self._offsets, relative_offset)
        return self._positions[slot - 1] if slot else 0

    def boundary_at_or_before(self, position: int) -> int:
        """Return a batch boundary that is not beyond `position`."""
        slot = bisect_right(self._positions, position)
        return self._positions[slot - 1] if slot else 0

    def offset_at_or_after(self, position: int) -> int | None:
        """Return an offset of which the batch begins at `position` or later, if there is one."""
        slot = bisect_left(self._positions, position)
        return self._offsets[slot] if slot < len(self._offsets) else None

    def save(self, files: Files, path: str) -> None:
        """Make the file at `path` hold the entries; it need not exist yet."""
        file = files.open(path, create=True)
        if file.size != self._saved * _OFFSET_ENTRY_SIZE:
            file.truncate(self._saved * _OFFSET_ENTRY_SIZE)
        if self._saved < len(self._offsets):
            pending = array("i", bytes(8 * (len(self._offsets) - self._saved)))
            pending[0::2] = self._offsets[self._saved :]
            pending[1::2] = self._positions[self._saved :]
            if sys.byteorder == "little":
                pending.byteswap()
            file.append([pending.tobytes()])
            file.sync()
            self._saved = len(self._offsets)
        file.close()

    @classmethod
    def load(cls, data: bytes, log_size: int) -> OffsetIndex | None:
        """Return the index that a file holds, or None when it cannot belong to the log."""
        if len(data) % _OFFSET_ENTRY_SIZE:
            return None
        both = array("i", data)
        if sys.byteorder == "little":
            both.byteswap()
        index = cls()
        index._offsets = both[0::2]
        index._positions = both[1::2]
        index._saved = len(index._offsets)
        if index._saved and (index._offsets[-1] < 0 or not 0 <= index._positions[-1] < log_size):
            return None
        return index


class TimeIndex:
    """Timestamp → offset: the largest timestamp up to a batch, and that batch's last offset.

    Offsets count from the segment's base offset. An entry of the file is an int64 timestamp in
    milliseconds and an int32, big-endian.
    """

    __slots__ = ("_offsets", "_saved", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")
        self._saved = 0

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """The entries: timestamp and relative offset."""
        return list(zip(self._timestamps, self._offsets, strict=True))

    @property
    def last(self) -> tuple[int, int] | None:
        """The last entry."""
        return (self._timestamps[-1], self._offsets[-1]) if self._timestamps else None

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry, unless it would say nothing that the last one did not."""
        if timestamp > (self._timestamps[-1] if self._timestamps else -1):
            self._timestamps.append(timestamp)
            self._offsets.append(relative_offset)

    def offset_before(self, timestamp: int) -> int:
        """Return a relative offset before which every timestamp is smaller than `timestamp`."""
        slot = bisect_left(self._timestamps, timestamp)
        return self._offsets[slot - 1] if slot else 0

    def save(self, files: Files, path: str) -> None:
        """Make the file at `path` hold the entries; it need not exist yet."""
        file = files.open(path, create=True)
        if file.size != self._saved * _TIME_ENTRY.size:
            file.truncate(self._saved * _TIME_ENTRY.size)
        if self._saved < len(self._timestamps):
            pending = zip(
                self._timestamps[self._saved :], self._offsets[self._saved :], strict=True
            )
            file.append([b"".join(_TIME_ENTRY.pack(*entry) for entry in pending)])
            file.sync()
            self._saved = len(self._timestamps)
        file.close()

    @classmethod
    def load(cls, data: bytes) -> TimeIndex | None:
        """Return the index that a file holds, or None when it is damaged."""
        if len(data) % _TIME_ENTRY.size:
            return None
        index = cls()
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
        index._saved = len(index._timestamps)
        if index._saved and (index._offsets[-1] < 0 or index._timestamps[-1] < 0):
            return None
        return index
