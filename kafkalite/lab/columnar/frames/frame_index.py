"""The frames of a chunk as columns of positions in one buffer, for pairing and the tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.lab.columnar.arrays import Columns, Ints, empty_ints, read_only

if TYPE_CHECKING:
    from kafkalite.lab.columnar.arrays import Bytes

EARLIER_CHUNK: Final = -1
"""Value of `FrameIndex.packet` for a frame that an earlier chunk completed."""
UNKNOWN_SEQ: Final = -1
"""Represents an unknown sequence number in `FrameIndex.request_seq`."""


@dataclass(frozen=True, slots=True)
class FrameIndex(Columns):
    """Frames, one row each; the frames of one direction of a connection are in order."""

    connection_index: Ints = field(default_factory=empty_ints)
    """Index into the file's connections."""
    direction: Ints = field(default_factory=empty_ints)
    start: Ints = field(default_factory=empty_ints)
    """Start of the frame in the buffer, after its length."""
    size: Ints = field(default_factory=empty_ints)
    offset: Ints = field(default_factory=empty_ints)
    """File offset of the packet in which the frame begins."""
    at_ns: Ints = field(default_factory=empty_ints)
    request_seq: Ints = field(default_factory=empty_ints)
    """As in `capture.model.Frame`, UNKNOWN_SEQ if it is unknown."""
    packet: Ints = field(default_factory=empty_ints)
    """Index, in the chunk, of the packet that completed the frame."""


class FrameBuffer:
    """A chunk's bytes, followed by frames of earlier chunks and assembled frames."""

    __slots__ = ("_memory", "_parts", "size")

    def __init__(self, data: Bytes, memory: Bytes | None = None) -> None:
        """Begin with the bytes of a chunk; `memory` begins with them, is longer and is writable."""
        self._parts = [data]
        self._memory = memory
        self.size = len(data)

    def add(self, new_bytes: Bytes) -> int:
        """Append bytes; return their position."""
        position, end = self.size, self.size + len(new_bytes)
        if self._memory is not None and len(self._parts) == 1 and end <= len(self._memory):
            self._memory[position:end] = new_bytes
            self._parts = [self._memory[:end]]
        elif len(new_bytes):
            self._parts.append(new_bytes)
        self.size = end
        return position

    def all_bytes(self) -> Bytes:
        """Return all bytes."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return read_only(self._parts[0])
