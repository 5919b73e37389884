"""Types and functions for arrays of bytes and numbers.

Numbers at any positions are read in one call: the positions index a strided view that has a number
at every byte. The caller checks that every position is within the bytes.
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

EMPTY_INTS: Final[Ints] = np.empty(0, np.int64)
"""An empty array of numbers."""


def byte_array(data: bytes | bytearray | memoryview) -> Bytes:
    """Return bytes as a read-only array, without a copy."""
    return read_only(np.frombuffer(data, np.uint8))


def read_only(data: Bytes) -> Bytes:
    """Return a read-only view, because kernels are compiled for read-only bytes only."""
    data = data.view()
    data.flags.writeable = False
    return data


def _reader(kind: str) -> Callable[[Bytes, Ints], Ints]:
    dtype = np.dtype(kind)
    size = dtype.itemsize

    def read(data: Bytes, positions: Ints) -> Ints:
        if not len(positions):
            return EMPTY_INTS
        numbers: NDArray[Any] = np.ndarray((len(data) - size + 1,), dtype, data, strides=(1,))
        return numbers[positions].astype(np.int64)

    return read


read_uint32_be: Final = _reader(">u4")
read_uint32_le: Final = _reader("<u4")


def unaligned_view(data: Bytes, code: str) -> NDArray[Any]:
    """Return a view of data as numbers of a type, with one number at every byte."""
    dtype = np.dtype(code)
    count = max(0, len(data) - dtype.itemsize + 1)
    return np.ndarray((count,), dtype, data, strides=(1,))


def true_indexes(mask: Mask) -> Ints:
    """Return the indexes at which a mask is True."""
    return np.flatnonzero(mask)


def empty_ints() -> Ints:
    """Return an empty array of numbers, as a default value of a column."""
    return EMPTY_INTS


class ReusableArray:
    """Memory for the numbers of a chunk, reused for the next chunk.

    Getting new memory pages from the system takes longer than processing the numbers.
    """

    __slots__ = ("_memory",)

    def __init__(self) -> None:
        self._memory = EMPTY_INTS

    def allocate(self, rows: int, columns: int) -> Ints:
        """Return an uninitialised array; it shares memory with the previous one."""
        if len(self._memory) < rows * columns:
            self._memory = np.empty(rows * columns, np.int64)
        return self._memory[: rows * columns].reshape(rows, columns)


_RADIX_SORT_LIMIT: Final = 1 << 16


def stable_order(keys: Ints) -> Ints:
    """Return the indexes that sort the keys; rows with equal keys stay in order."""
    if len(keys) and int(keys.max()) < _RADIX_SORT_LIMIT:
        return np.argsort(keys.astype(np.uint16), kind="stable")  # 16 bits: numpy uses a radix sort
    return np.argsort(keys, kind="stable")


class Columns:
    """Base of dataclasses of columns; each field has one value per row."""

    __slots__: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(getattr(self, self.__slots__[0]))

    def select(self, rows: Ints | Mask) -> Self:
        """Return a selection of the rows."""
        return type(self)(**{name: getattr(self, name)[rows] for name in self.__slots__})

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several parts in one object."""
        non_empty = [each for each in parts if len(each)]
        if len(non_empty) <= 1:
            return non_empty[0] if non_empty else cls()
        return cls(
            **{
                name: np.concatenate([getattr(part, name) for part in non_empty])
                for name in cls.__slots__
            }
        )
