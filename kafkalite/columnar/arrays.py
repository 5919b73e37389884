"""Numbers out of bytes, a column at a time: the arrays that everything here is made of.

A gather through a strided view reads numbers that stand at any position in one call; whoever
gathers has made sure that every position lies within the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

NONE: Final[Ints] = np.empty(0, np.int64)
"""No positions at all."""


def view(data: bytes | bytearray | memoryview) -> Bytes:
    """Return bytes as an array, without a copy."""
    return np.frombuffer(data, np.uint8)


def _reader(kind: str) -> Callable[[Bytes, Ints], Ints]:
    dtype = np.dtype(kind)
    size = dtype.itemsize

    def read(data: Bytes, at: Ints) -> Ints:
        if not len(at):
            return NONE
        numbers: NDArray[Any] = np.ndarray((len(data) - size + 1,), dtype, data, strides=(1,))
        return numbers[at].astype(np.int64)

    return read


u8: Final = _reader("u1")
u16be: Final = _reader(">u2")
u16le: Final = _reader("<u2")
i16be: Final = _reader(">i2")
u32be: Final = _reader(">u4")
u32le: Final = _reader("<u4")
i32be: Final = _reader(">i4")
u64be: Final = _reader(">i8")
"""Eight bytes as they are, told apart from others only: the sign means nothing."""


class Windows:
    """A few bytes from each of many positions on: gathered once, read at several places."""

    __slots__ = ("_rows", "_width")

    def __init__(self, data: Bytes, at: Ints, width: int) -> None:
        if len(at) and int(at.max()) + width > len(data):
            # What is read behind the end is nothing, and asked for by nobody.
            data = np.concatenate([data, np.zeros(width, np.uint8)])
        size = max(len(data) - width + 1, 0)
        every: NDArray[Any] = np.ndarray((size,), f"V{width}", data, strides=(1,))
        self._rows = every[at]
        self._width = width

    def read(self, kind: str, offset: int) -> Ints:
        """Return the numbers of a kind that stand so far from the positions."""
        if not len(self._rows):
            return NONE
        strides = (self._width,)
        numbers: NDArray[Any] = np.ndarray(
            self._rows.shape, kind, self._rows, offset=offset, strides=strides
        )
        return numbers.astype(np.int64)


def where(mask: Mask) -> Ints:
    """Return the positions at which a mask is set."""
    return np.flatnonzero(mask)


def ranges(starts: Ints, counts: Ints) -> Ints:
    """Return start, start + 1, … for each start, as many as its count says, one after another."""
    total = int(counts.sum())
    firsts = np.cumsum(counts) - counts
    return np.repeat(starts - firsts, counts) + np.arange(total, dtype=np.int64)


def none() -> Ints:
    """Return no numbers: what a column begins with."""
    return NONE


class Columns:
    """What a dataclass of columns can do: each of its fields holds one value a row."""

    __slots__: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(getattr(self, self.__slots__[0]))

    def picked(self, rows: Ints | Mask) -> Self:
        """Return some of the rows."""
        return type(self)(**{name: getattr(self, name)[rows] for name in self.__slots__})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several parts, one behind the other."""
        some = [each for each in parts if len(each)]
        if len(some) <= 1:
            return some[0] if some else cls()
        return cls(
            **{
                name: np.concatenate([getattr(part, name) for part in some])
                for name in cls.__slots__
            }
        )
