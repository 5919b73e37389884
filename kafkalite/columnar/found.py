"""Frames found in a chunk, as columns over one buffer: what pairing and the tables work on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.columnar.arrays import Columns, Ints, none, sealed

if TYPE_CHECKING:
    from kafkalite.columnar.arrays import Bytes

EARLIER: Final = -1
"""In place of a packet: the frame is of an earlier chunk."""


@dataclass(frozen=True, slots=True)
class Found(Columns):
    """Frames, one row each; those of one direction of a connection in their order."""

    line: Ints = field(default_factory=none)
    """Index into the file's connections."""
    direction: Ints = field(default_factory=none)
    start: Ints = field(default_factory=none)
    """Where the frame begins in the buffer, behind its length."""
    size: Ints = field(default_factory=none)
    offset: Ints = field(default_factory=none)
    """Where in the file the packet stands that it begins in."""
    at_ns: Ints = field(default_factory=none)
    packet: Ints = field(default_factory=none)
    """Which packet of the chunk completed it."""


class Buffer:
    """A chunk's bytes, and behind them what had to be put together or kept."""

    __slots__ = ("_parts", "_room", "size")

    def __init__(self, data: Bytes, room: Bytes | None = None) -> None:
        """Begin with a chunk's bytes; where there is room behind them, no more is copied."""
        self._parts = [data]
        self._room = room
        self.size = len(data)

    def add(self, more: Bytes) -> int:
        """Add bytes; return where they are."""
        at, end = self.size, self.size + len(more)
        if self._room is not None and len(self._parts) == 1 and end <= len(self._room):
            self._room[at:end] = more
            self._parts = [self._room[:end]]
        elif len(more):
            self._parts.append(more)
        self.size = end
        return at

    def whole(self) -> Bytes:
        """Return all of it."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return sealed(self._parts[0])
