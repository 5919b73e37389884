"""From what a walk wrote to Arrow columns, without a copy but for what has to be put in places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.columnar.plan import (
    Absent,
    Flags,
    Lists,
    Number,
    Slices,
    Sometimes,
    Structs,
    Uuids,
)
from kafkalite.columnar.program import UNKEPT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafkalite.columnar.arrays import Bytes, Ints
    from kafkalite.columnar.memory import Memory
    from kafkalite.columnar.plan import Column

_UUID_BYTES = 16
_ASCII = 0x80
"""Bytes below are."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """Makes the columns of one walk."""

    memory: Memory

    def column(self, column: Column, level: int = 0) -> pa.Array:  # noqa: PLR0911 - a table
        """Make one column of all instances of its level."""
        size = int(self.memory.sizes[level])
        match column:
            case Number():
                held = pa.py_buffer(self.memory.part(column.buffer, size))
                return pa.Array.from_buffers(column.type, size, [None, held])
            case Flags():
                return pa.array(self.memory.part(column.buffer, size).view(np.bool_))
            case Uuids():
                return uuid_array(self.memory.part(column.buffer, size))
            case Slices():
                return self._slices(column, size)
            case Lists():
                values = self.column(column.element, column.level)
                return self._held(column, size, [], [values])
            case Structs():
                children = [self.column(each, level) for each in column.children]
                return struct_array(column.type, children, size)
            case Sometimes():
                return self._sometimes(column, size)
            case Absent():
                return pa.nulls(size, column.type)

    def _slices(self, column: Slices, size: int) -> pa.Array:
        ends = self.memory.part(column.ends, size + 1).view(np.int32)
        values = self.memory.part(column.held, int(ends[-1]))
        return self._held(column, size, [pa.py_buffer(values)], None)

    def _held(
        self,
        column: Slices | Lists,
        size: int,
        values: list[pa.Buffer],
        children: list[pa.Array] | None,
    ) -> pa.Array:
        """Make strings or lists, of which some may be null."""
        validity, nulls = None, 0
        if column.marks != UNKEPT:
            marks = self.memory.part(column.marks, size).view(np.bool_)
            nulls = size - int(np.count_nonzero(marks))
            if nulls:
                validity = pa.py_buffer(np.packbits(marks, bitorder="little"))
        ends = pa.py_buffer(self.memory.part(column.ends, size + 1))
        buffers = [validity, ends, *values]
        return pa.Array.from_buffers(column.type, size, buffers, nulls, children=children)

    def _sometimes(self, column: Sometimes, size: int) -> pa.Array:
        # Of a tag that was sent twice, the last counts, as with the scalar codec.
        which = self.memory.part(column.which, size).view(np.int32)
        is_there = which >= 0
        default = pa.array([column.default], column.type)
        if not is_there.any():
            if column.default is None:
                return pa.nulls(size, column.type)
            return default.take(pa.array(np.zeros(size, np.int32)))
        values = self.column(column.column, column.level)
        if column.default is None:
            return values.take(pa.array(which, mask=~is_there))
        places = np.where(is_there, which, len(values))
        return pa.concat_arrays([values, default]).take(pa.array(places))


def not_text(column: pa.BinaryArray) -> Ints:
    """Find the values that are no UTF-8: only those with a byte above ASCII can be."""
    data, offsets = binary_parts(column)
    suspects = np.searchsorted(offsets, np.flatnonzero(data >= _ASCII), "right") - 1
    wrong = [each for each in np.unique(suspects).tolist() if not _is_text(column[each].as_py())]
    return np.array(wrong, dtype=np.int64)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def binary_parts(column: pa.Array) -> tuple[Bytes, Ints]:
    """Return the bytes that a binary column lies in, and where each of its rows begins.

    One offset more than rows; they count from the first of the bytes returned.
    """
    code = np.dtype(np.int64 if pa.types.is_large_binary(column.type) else np.int32)
    _, offsets_buffer, values_buffer = column.buffers()
    if not len(column) or offsets_buffer is None:
        return np.zeros(0, dtype=np.uint8), np.zeros(len(column) + 1, dtype=np.int64)
    offsets = np.frombuffer(
        offsets_buffer, code, len(column) + 1, column.offset * code.itemsize
    ).astype(np.int64)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    if values_buffer is None or not size:
        return np.zeros(0, dtype=np.uint8), offsets - first
    return np.frombuffer(values_buffer, np.uint8, size, first), offsets - first


def slice_array(data: Bytes, starts: Ints, stops: Ints) -> pa.BinaryArray:
    """Cut data at ascending places that do not overlap; null where the stop is before the start.

    Arrow copies them: between every two of them its offsets span what is left out.
    """
    size = len(starts)
    is_null = stops < starts
    nulls = np.count_nonzero(is_null)
    if nulls == size:
        return pa.nulls(size, pa.binary())
    offsets = np.empty(2 * size + 1, dtype=np.int32)
    offsets[0] = 0
    offsets[1::2] = starts
    offsets[2::2] = np.maximum(stops, starts) if nulls else stops
    spans = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * size, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    odd = np.arange(1, 2 * size, 2, dtype=np.int32)
    places = pa.array(odd, mask=is_null) if nulls else pa.array(odd)
    return pc.take(spans, places, boundscheck=False)


def uuid_array(values: NDArray[np.void]) -> pa.BinaryArray:
    """Make a column of values of sixteen bytes."""
    offsets = np.arange(0, _UUID_BYTES * len(values) + 1, _UUID_BYTES, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values.copy())]
    return pa.BinaryArray.from_buffers(pa.binary(), len(values), buffers)


def list_array(
    kind: pa.DataType, offsets: Ints, values: pa.Array, is_null: NDArray[np.bool_]
) -> pa.ListArray:
    """Make lists of values that stand one after the other."""
    validity = None
    nulls = int(is_null.sum())
    if nulls:
        validity = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(kind, len(is_null), buffers, nulls, children=[values])


def struct_array(kind: pa.StructType, children: list[pa.Array], size: int) -> pa.StructArray:
    """Make structs that are all there."""
    return pa.Array.from_buffers(kind, size, [None], 0, children=children)
