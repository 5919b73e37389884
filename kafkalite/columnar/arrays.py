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
    return sealed(np.frombuffer(data, np.uint8))


def sealed(data: Bytes) -> Bytes:
    """Return bytes so that nobody can write to them: kernels are compiled for such alone."""
    data = data.view()
    data.flags.writeable = False
    return data


def _reader(kind: str) -> Callable[[Bytes, Ints], Ints]:
    dtype = np.dtype(kind)
    size = dtype.itemsize

    def read(data: Bytes, at: Ints) -> Ints:
        if not len(at):
            return NONE
        numbers: NDArray[Any] = np.ndarray((len(data) - size + 1,), dtype, data, strides=(1,))
        return numbers[at].astype(np.int64)

    return read


u32be: Final = _reader(">u4")
u32le: Final = _reader("<u4")


def unaligned(data: Bytes, code: str) -> NDArray[Any]:
    """View data as numbers of some type, one beginning at every byte."""
    dtype = np.dtype(code)
    count = max(0, len(data) - dtype.itemsize + 1)
    return np.ndarray((count,), dtype, data, strides=(1,))


def where(mask: Mask) -> Ints:
    """Return the positions at which a mask is set."""
    return np.flatnonzero(mask)


def none() -> Ints:
    """Return no numbers: what a column begins with."""
    return NONE


class Room:
    """Memory for the numbers of one chunk after another: what was taken last is taken again.

    A page that is new costs the system more than all that is done with its numbers here.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = NONE

    def take(self, rows: int, columns: int) -> Ints:
        """Return room for so many, in which anything may stand."""
        if len(self._held) < rows * columns:
            self._held = np.empty(rows * columns, np.int64)
        return self._held[: rows * columns].reshape(rows, columns)


_RADIX: Final = 1 << 16


def grouped(keys: Ints) -> Ints:
    """Return the order that brings equal keys together, and keeps them in their order."""
    if len(keys) and int(keys.max()) < _RADIX:
        return np.argsort(keys.astype(np.uint16), kind="stable")  # sixteen bits: a radix sort
    return np.argsort(keys, kind="stable")


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
