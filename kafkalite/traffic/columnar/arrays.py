"""Types and functions for arrays of bytes and numbers.

Numbers at any positions are read in one call: a strided view with a number at every byte is indexed
by the positions. The caller checks that every position is within the bytes.
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
"""An empty array of numbers."""


def view(data: bytes | bytearray | memoryview) -> Bytes:
    """Return bytes as an array, without a copy."""
    return sealed(np.frombuffer(data, np.uint8))


def sealed(data: Bytes) -> Bytes:
    """Return a read-only view, because kernels are compiled for read-only bytes only."""
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
    """View data as numbers of a type, one beginning at every byte."""
    dtype = np.dtype(code)
    count = max(0, len(data) - dtype.itemsize + 1)
    return np.ndarray((count,), dtype, data, strides=(1,))


def where(mask: Mask) -> Ints:
    """Return the positions at which a mask is set."""
    return np.flatnonzero(mask)


def none() -> Ints:
    """Return an empty column."""
    return NONE


class ReusableArray:
    """Memory for the numbers of a chunk, reused for the next chunk.

    Getting new memory pages from the system takes longer than processing the numbers.
    """

    __slots__ = ("_memory",)

    def __init__(self) -> None:
        self._memory = NONE

    def take(self, rows: int, columns: int) -> Ints:
        """Return an uninitialised array; it shares memory with the previous one."""
        if len(self._memory) < rows * columns:
            self._memory = np.empty(rows * columns, np.int64)
        return self._memory[: rows * columns].reshape(rows, columns)


_RADIX: Final = 1 << 16


def grouped(keys: Ints) -> Ints:
    """Return a stable order that groups equal keys."""
    if len(keys) and int(keys.max()) < _RADIX:
        return np.argsort(keys.astype(np.uint16), kind="stable")  # 16 bits: numpy uses a radix sort
    return np.argsort(keys, kind="stable")


class Columns:
    """Base of dataclasses of columns; each field has one value per row."""

    __slots__: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(getattr(self, self.__slots__[0]))

    def picked(self, rows: Ints | Mask) -> Self:
        """Return a selection of the rows."""
        return type(self)(**{name: getattr(self, name)[rows] for name in self.__slots__})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several parts, concatenated."""
        some = [each for each in parts if len(each)]
        if len(some) <= 1:
            return some[0] if some else cls()
        return cls(
            **{
                name: np.concatenate([getattr(part, name) for part in some])
                for name in cls.__slots__
            }
        )
