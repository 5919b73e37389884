"""Sparse indexes of a segment: offset → position and timestamp → offset, in Kafka's files.

There is an entry every few kilobytes of batches. Entries are held in arrays and written when a
segment is flushed, rolled or closed. They can be built again from the log, so losing them in a
crash does no harm.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.ports.files import File, Files

_OFFSET_ENTRY_SIZE = 8
_TIME_ENTRY = struct.Struct(">qi")
TIME_ENTRY_SIZE = _TIME_ENTRY.size


def _save(files: Files, path: str, pending: bytes, saved_bytes: int) -> None:
    """Write `pending` after the first `saved_bytes` of a file, and truncate the rest."""
    if not saved_bytes:
        files.write(path, pending)
        return
    file = files.open(path, create=True)
    try:
        if file.size != saved_bytes:
            file.truncate(saved_bytes)
        if pending:
            file.append([pending])
    finally:
        file.close()


class OffsetIndex:
    """Offset → position: the last offset of a batch, and the batch's position in the log.

    Offsets are relative to the segment's base offset. An entry on disk is two big-endian int32.
    """

    __slots__ = ("_offsets", "_positions", "_saved_count")

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")
        self._saved_count = 0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """The entries: relative offset and position."""
        return list(zip(self._offsets, self._positions, strict=True))

    def copy(self) -> OffsetIndex:
        """Return the same index, which changes on its own."""
        copy = OffsetIndex()
        copy._offsets, copy._positions = self._offsets[:], self._positions[:]
        copy._saved_count = self._saved_count
        return copy

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry; both values must be larger than the last."""
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def position_before(self, relative_offset: int) -> int:
        """Return a batch boundary at or before the batch that contains the offset."""
        slot = bisect_right(self._offsets, relative_offset)
        return self._positions[slot - 1] if slot else 0

    def boundary_at_or_before(self, position: int) -> int:
        """Return a batch boundary at or before `position`."""
        slot = bisect_right(self._positions, position)
        return self._positions[slot - 1] if slot else 0

    def offset_at_or_after(self, position: int) -> int | None:
        """Return an offset whose batch begins at `position` or later, or None."""
        slot = bisect_left(self._positions, position)
        return self._offsets[slot] if slot < len(self._offsets) else None

    def truncate(self, log_size: int) -> None:
        """Remove the entries from the position `log_size` on; `save` then writes a new file."""
        count = bisect_left(self._positions, log_size)
        del self._offsets[count:], self._positions[count:]
        self._saved_count = 0

    def save(self, files: Files, path: str) -> None:
        """Write the entries to the file at `path`, without a sync; it need not exist yet."""
        pending = array("i", bytes(8 * (len(self._offsets) - self._saved_count)))
        pending[0::2] = self._offsets[self._saved_count :]
        pending[1::2] = self._positions[self._saved_count :]
        if sys.byteorder == "little":
            pending.byteswap()
        _save(files, path, pending.tobytes(), self._saved_count * _OFFSET_ENTRY_SIZE)
        self._saved_count = len(self._offsets)

    @classmethod
    def load(cls, data: bytes, log_size: int) -> OffsetIndex | None:
        """Return the index in a file, or None if it cannot belong to the log."""
        if len(data) % _OFFSET_ENTRY_SIZE:
            return None
        values = array("i", data)
        if sys.byteorder == "little":
            values.byteswap()
        index = cls()
        index._offsets = values[0::2]
        index._positions = values[1::2]
        index._saved_count = len(index._offsets)
        if index._saved_count and (
            index._offsets[-1] < 0 or not 0 <= index._positions[-1] < log_size
        ):
            return None
        return index


def last_position(file: File) -> int:
    """Return the position in the last entry of an offset index's file, 0 if it has none."""
    size = file.size - file.size % _OFFSET_ENTRY_SIZE
    entry = file.pread(_OFFSET_ENTRY_SIZE, size - _OFFSET_ENTRY_SIZE) if size else b""
    return int.from_bytes(entry[4:8])


class TimeIndex:
    """Timestamp → offset: the largest timestamp up to a batch, and that batch's last offset.

    Offsets are relative to the segment's base offset. An entry on disk is an int64 timestamp in
    milliseconds and an int32, big-endian.
    """

    __slots__ = ("_offsets", "_saved_count", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")
        self._saved_count = 0

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

    def copy(self) -> TimeIndex:
        """Return the same index, which changes on its own."""
        copy = TimeIndex()
        copy._timestamps, copy._offsets = self._timestamps[:], self._offsets[:]
        copy._saved_count = self._saved_count
        return copy

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry, unless the last one has the same or a later timestamp."""
        if timestamp > (self._timestamps[-1] if self._timestamps else -1):
            self._timestamps.append(timestamp)
            self._offsets.append(relative_offset)

    def offset_before(self, timestamp: int) -> int:
        """Return a relative offset; all timestamps before it are smaller than `timestamp`."""
        slot = bisect_left(self._timestamps, timestamp)
        return self._offsets[slot - 1] if slot else 0

    def truncate(self, relative_offset: int) -> None:
        """Remove the entries from `relative_offset` on; `save` then writes a new file."""
        count = bisect_left(self._offsets, relative_offset)
        del self._timestamps[count:], self._offsets[count:]
        self._saved_count = 0

    def save(self, files: Files, path: str) -> None:
        """Write the entries to the file at `path`, without a sync; it need not exist yet."""
        pending = zip(
            self._timestamps[self._saved_count :], self._offsets[self._saved_count :], strict=True
        )
        content = b"".join(_TIME_ENTRY.pack(*entry) for entry in pending)
        _save(files, path, content, self._saved_count * _TIME_ENTRY.size)
        self._saved_count = len(self._timestamps)

    @classmethod
    def load(cls, data: bytes) -> TimeIndex | None:
        """Return the index in a file, or None if it is damaged."""
        if len(data) % _TIME_ENTRY.size:
            return None
        index = cls()
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
        index._saved_count = len(index._timestamps)
        if index._saved_count and (index._offsets[-1] < 0 or index._timestamps[-1] < 0):
            return None
        # A loss of power during a write leaves zeros in the last entry.
        if index._saved_count > 1 and index._timestamps[-1] <= index._timestamps[-2]:
            return None
        return index
