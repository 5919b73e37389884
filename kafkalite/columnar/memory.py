"""What a walk over messages fills: the buffers of columns, in one piece of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafkalite.columnar.program import END_WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafkalite.columnar.arrays import Bytes, Ints
    from kafkalite.columnar.program import Program

_SPARE, _LEAST_ROOM = 1.25, 1 << 10
"""How much more room there is at first than is used usually."""
_WORD, _LINE = 8, 64


class Buffers(NamedTuple):
    """The memory as kernels have it."""

    bases: Ints
    """Where each buffer begins, counted in its things."""
    sizes: Ints
    """How much there is of what is counted."""
    rooms: Ints
    """For how much there is room."""
    n1: Bytes
    """All of it as numbers of one byte, of two, of four and of eight."""
    n2: NDArray[np.int16]
    n4: NDArray[np.int32]
    n8: Ints


class Memory:
    """The buffers that a program fills, in one piece of memory."""

    __slots__ = ("_bases", "_program", "_words", "rooms", "sizes")

    def __init__(self, program: Program, messages: int, size: int) -> None:
        """Make room for messages of so many bytes, as they usually are."""
        self._program = program
        self.sizes = np.zeros(program.stores, np.int64)
        """How much there is of what is counted."""
        self.rooms = (program.usual * (_SPARE * size)).astype(np.int64) + _LEAST_ROOM
        """For how much there is room."""
        self.rooms[0] = messages
        self._take()

    def _take(self) -> None:
        buffers = self._program.buffers
        # Room for one more: where things end, there stands first where the first one begins.
        lines = [-(-(int(self.rooms[store]) + 1) * width // _LINE) for store, width in buffers]
        firsts = np.cumsum([0, *lines]) * _LINE
        self._words = np.empty(int(firsts[-1]) // _WORD, np.int64)
        widths = np.array([width for _, width in buffers], np.int64)
        self._bases = firsts[:-1] // widths
        self._words.view("i4")[self._bases[widths == END_WIDTH]] = 0

    def grow(self, store: int, need: int) -> None:
        """Make room for so much of something, and for more."""
        counts = [int(self.sizes[store]) + 1 for store, _ in self._program.buffers]
        before = [self.part(buffer, count) for buffer, count in enumerate(counts)]
        self.rooms[store] = max(2 * int(self.rooms[store]), need)
        self._take()
        for buffer, held in enumerate(before):
            self.part(buffer, len(held))[:] = held

    def part(self, buffer: int, count: int) -> NDArray[np.void]:
        """Return the first things of a buffer."""
        width = self._program.buffers[buffer].width
        first = int(self._bases[buffer])
        return self._words.view(f"V{width}")[first : first + count]

    def buffers(self) -> Buffers:
        """Return what a kernel writes to."""
        words: Any = self._words
        return Buffers(
            self._bases, self.sizes, self.rooms,
            words.view("u1"), words.view("i2"), words.view("i4"), words,
        )  # fmt: skip
