"""The frames of a chunk as columns of positions in one buffer, for pairing and the tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.traffic.columnar.arrays import Columns, Ints, none, sealed

if TYPE_CHECKING:
    from kafkalite.traffic.columnar.arrays import Bytes

EARLIER: Final = -1
"""Value of `FrameIndex.packet` for a frame of an earlier chunk."""


@dataclass(frozen=True, slots=True)
class FrameIndex(Columns):
    """Frames, one row each; the frames of one direction of a connection are in order."""

    connection_index: Ints = field(default_factory=none)
    """Index into the file's connections."""
    direction: Ints = field(default_factory=none)
    start: Ints = field(default_factory=none)
    """Start of the frame in the buffer, after its length."""
    size: Ints = field(default_factory=none)
    offset: Ints = field(default_factory=none)
    """File offset of the packet in which it begins."""
    at_ns: Ints = field(default_factory=none)
    packet: Ints = field(default_factory=none)
    """Index of the packet in the chunk that completed it."""


class Buffer:
    """A chunk's bytes, followed by frames of earlier chunks and assembled frames."""

    __slots__ = ("_memory", "_parts", "size")

    def __init__(self, data: Bytes, memory: Bytes | None = None) -> None:
        """Begin with a chunk's bytes; `memory` is memory that begins with them and is longer."""
        self._parts = [data]
        self._memory = memory
        self.size = len(data)

    def add(self, more: Bytes) -> int:
        """Append bytes; return their position."""
        at, end = self.size, self.size + len(more)
        if self._memory is not None and len(self._parts) == 1 and end <= len(self._memory):
            self._memory[at:end] = more
            self._parts = [self._memory[:end]]
        elif len(more):
            self._parts.append(more)
        self.size = end
        return at

    def whole(self) -> Bytes:
        """Return all bytes."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return sealed(self._parts[0])
