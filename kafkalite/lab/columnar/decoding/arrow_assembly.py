"""`Assembly`: builds Arrow columns from the buffers of a decode, mostly without a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.columnar.decoding.decode_plan import (
    AbsentColumn,
    BooleanColumn,
    BytesColumn,
    ListColumn,
    NumberColumn,
    OptionalColumn,
    StructColumn,
    UuidColumn,
)
from kafkalite.lab.columnar.decoding.decode_program import NO_BUFFER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafkalite.lab.columnar.arrays import Bytes, Ints
    from kafkalite.lab.columnar.decoding.column_buffers import ColumnMemory
    from kafkalite.lab.columnar.decoding.decode_plan import Column

_UUID_BYTES = 16
_MIN_NON_ASCII = 0x80
"""The lowest byte value that is not ASCII."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """Builds the columns of one decode."""

    memory: ColumnMemory

    def column(self, column: Column, level: int = 0) -> pa.Array:  # noqa: PLR0911 - a table
        """Build one column, for all instances of its level."""
        size = int(self.memory.sizes[level])
        match column:
            case NumberColumn():
                values = pa.py_buffer(self.memory.first_elements(column.buffer, size))
                return pa.Array.from_buffers(column.type, size, [None, values])
            case BooleanColumn():
                return pa.array(self.memory.first_elements(column.buffer, size).view(np.bool_))
            case UuidColumn():
                return uuid_array(self.memory.first_elements(column.buffer, size))
            case BytesColumn():
                return self._byte_values(column, size)
            case ListColumn():
                values = self.column(column.element, column.level)
                return self._variable_size(column, size, [], [values])
            case StructColumn():
                children = [self.column(each, level) for each in column.children]
                return struct_array(column.type, children, size)
            case OptionalColumn():
                return self._optional(column, size)
            case AbsentColumn():
                return pa.nulls(size, column.type)

    def _byte_values(self, column: BytesColumn, size: int) -> pa.Array:
        ends = self.memory.first_elements(column.ends, size + 1).view(np.int32)
        values = self.memory.first_elements(column.values, int(ends[-1]))
        return self._variable_size(column, size, [pa.py_buffer(values)], None)

    def _variable_size(
        self,
        column: BytesColumn | ListColumn,
        size: int,
        values: list[pa.Buffer],
        children: list[pa.Array] | None,
    ) -> pa.Array:
        """Build strings or lists, of which some may be null."""
        validity, nulls = None, 0
        if column.validity != NO_BUFFER:
            is_valid = self.memory.first_elements(column.validity, size).view(np.bool_)
            nulls = size - int(np.count_nonzero(is_valid))
            if nulls:
                validity = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
        ends = pa.py_buffer(self.memory.first_elements(column.ends, size + 1))
        buffers = [validity, ends, *values]
        return pa.Array.from_buffers(column.type, size, buffers, nulls, children=children)

    def _optional(self, column: OptionalColumn, size: int) -> pa.Array:
        # If a tag is repeated, its last field is used, as in the scalar codec.
        instance = self.memory.first_elements(column.instance, size).view(np.int32)
        is_present = instance >= 0
        default = pa.array([column.default], column.type)
        if not is_present.any():
            if column.default is None:
                return pa.nulls(size, column.type)
            return default.take(pa.array(np.zeros(size, np.int32)))
        values = self.column(column.column, column.level)
        if column.default is None:
            return values.take(pa.array(instance, mask=~is_present))
        indexes = np.where(is_present, instance, len(values))
        return pa.concat_arrays([values, default]).take(pa.array(indexes))


def rows_not_utf8(column: pa.BinaryArray) -> Ints:
    """Return the rows that are not UTF-8; only values with a non-ASCII byte are checked."""
    data, offsets = binary_parts(column)
    candidate_rows = np.searchsorted(offsets, np.flatnonzero(data >= _MIN_NON_ASCII), "right") - 1
    invalid_rows = [
        each for each in np.unique(candidate_rows).tolist() if not _is_utf8(column[each].as_py())
    ]
    return np.array(invalid_rows, dtype=np.int64)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def binary_parts(column: pa.Array) -> tuple[Bytes, Ints]:
    """Return the bytes of a binary column, and the offset of each row.

    There is one offset more than rows. Offsets count from the first byte returned.
    """
    offset_type = np.dtype(np.int64 if pa.types.is_large_binary(column.type) else np.int32)
    _, offsets_buffer, values_buffer = column.buffers()
    if not len(column) or offsets_buffer is None:
        return np.zeros(0, dtype=np.uint8), np.zeros(len(column) + 1, dtype=np.int64)
    offsets = np.frombuffer(
        offsets_buffer, offset_type, len(column) + 1, column.offset * offset_type.itemsize
    ).astype(np.int64)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    if values_buffer is None or not size:
        return np.zeros(0, dtype=np.uint8), offsets - first
    return np.frombuffer(values_buffer, np.uint8, size, first), offsets - first


def slice_array(data: Bytes, starts: Ints, stops: Ints) -> pa.BinaryArray:
    """Return slices of data at ascending, disjoint positions; null if stop is before start.

    An Arrow array over the data has gaps and slices as alternating values. Taking every second
    value copies the slices without a loop in Python.
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
    indexes = pa.array(odd, mask=is_null) if nulls else pa.array(odd)
    return pc.take(spans, indexes, boundscheck=False)


def uuid_array(values: NDArray[np.void]) -> pa.BinaryArray:
    """Build a column of 16-byte values."""
    offsets = np.arange(0, _UUID_BYTES * len(values) + 1, _UUID_BYTES, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values.copy())]
    return pa.BinaryArray.from_buffers(pa.binary(), len(values), buffers)


def list_array(
    data_type: pa.DataType, offsets: Ints, values: pa.Array, is_null: NDArray[np.bool_]
) -> pa.ListArray:
    """Build lists from consecutive values."""
    validity = None
    nulls = int(is_null.sum())
    if nulls:
        validity = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(data_type, len(is_null), buffers, nulls, children=[values])


def struct_array(data_type: pa.StructType, children: list[pa.Array], size: int) -> pa.StructArray:
    """Build structs without nulls."""
    return pa.Array.from_buffers(data_type, size, [None], 0, children=children)
