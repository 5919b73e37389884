"""`ColumnMemory`: the buffers of all columns of a decode, in one block of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kafkalite.lab.columnar.decoding.decode_program import END_BYTES
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafkalite.lab.columnar.arrays import Bytes, Ints
    from kafkalite.lab.columnar.decoding.decode_program import Program

_CAPACITY_FACTOR, _MIN_CAPACITY = 1.25, 1 << 10
"""Initial capacity: the size that the previous messages needed, times a factor, plus a minimum."""
_WORD_BYTES, _CACHE_LINE_BYTES = 8, 64


class Buffers(NamedTuple):
    """The memory as kernels access it."""

    bases: Ints
    """Index of each buffer's first element, in elements of its width."""
    sizes: Ints
    """Number of elements per counter."""
    capacities: Ints
    """Capacity per counter."""
    u8: Bytes
    """All memory as numbers of 1, 2, 4 and 8 bytes."""
    i16: NDArray[np.int16]
    i32: NDArray[np.int32]
    i64: Ints


class ColumnMemory:
    """The buffers that a program fills, in one block of memory."""

    __slots__ = ("_bases", "_program", "_words", "capacities", "sizes")

    def __init__(self, program: Program, messages: int, size: int) -> None:
        """Allocate memory for messages of `size` bytes in total.

        The capacities are estimated from the previous decode.
        """
        self._program = program
        self.sizes = np.zeros(program.counters, np.int64)
        """Number of elements per counter."""
        self.capacities = (program.elements_per_byte * (_CAPACITY_FACTOR * size)).astype(
            np.int64
        ) + _MIN_CAPACITY
        """Capacity per counter."""
        self.capacities[0] = messages
        self._allocate()

    def _allocate(self) -> None:
        buffers = self._program.buffers
        # Buffers of end positions have one more element: they begin with 0, the first start.
        cache_lines = [
            -(-(int(self.capacities[counter]) + 1) * width // _CACHE_LINE_BYTES)
            for counter, width in buffers
        ]
        start_bytes = np.cumsum([0, *cache_lines]) * _CACHE_LINE_BYTES
        self._words = np.empty(int(start_bytes[-1]) // _WORD_BYTES, np.int64)
        widths = np.array([width for _, width in buffers], np.int64)
        self._bases = start_bytes[:-1] // widths
        self._words.view("i4")[self._bases[widths == END_BYTES]] = 0

    def grow(self, counter: int, needed: int) -> None:
        """Increase a counter's capacity to at least `needed`."""
        counts = [int(self.sizes[counter]) + 1 for counter, _ in self._program.buffers]
        old_values = [self.first_elements(buffer, count) for buffer, count in enumerate(counts)]
        self.capacities[counter] = max(2 * int(self.capacities[counter]), needed)
        self._allocate()
        for buffer, values in enumerate(old_values):
            self.first_elements(buffer, len(values))[:] = values

    def first_elements(self, buffer: int, count: int) -> NDArray[np.void]:
        """Return the first elements of a buffer."""
        width = self._program.buffers[buffer].width
        first = int(self._bases[buffer])
        return self._words.view(f"V{width}")[first : first + count]

    def buffers(self) -> Buffers:
        """Return the memory as kernels access it."""
        words: Any = self._words
        return Buffers(
            self._bases, self.sizes, self.capacities,
            words.view("u1"), words.view("i2"), words.view("i4"), words,
        )  # fmt: skip
