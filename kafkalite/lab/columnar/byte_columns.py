"""Arrow columns of bytes and text, built from ranges of a buffer without a loop in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafkalite.lab.columnar.kernels import interpreted_as, kernel

if TYPE_CHECKING:
    from kafkalite.lab.columnar.arrays import Bytes, Ints, Mask


def bytes_column(
    data: Bytes, starts: Ints, sizes: Ints, is_null: Mask | None = None
) -> pa.BinaryArray:
    """Return ranges of data as a column of bytes; a value is null if its mask is True."""
    return _column(pa.binary(), data, starts, sizes, is_null)


def text_column(
    data: Bytes, starts: Ints, sizes: Ints, is_null: Mask | None = None
) -> pa.StringArray:
    """Return ranges of data as a column of text; they must be valid UTF-8."""
    return _column(pa.string(), data, starts, sizes, is_null)


def concatenate_ranges(data: Bytes, starts: Ints, sizes: Ints) -> Bytes:
    """Return ranges of data, concatenated."""
    out = np.empty(int(sizes.sum()), np.uint8)
    if not copy_ranges(data, starts, sizes, out):
        raise IndexError("a range exceeds its data")
    return out


def _column(kind: pa.DataType, data: Bytes, starts: Ints, sizes: Ints, is_null: Mask | None) -> Any:  # noqa: ANN401 - an Arrow array
    validity = None
    if is_null is not None and is_null.any():
        sizes = np.where(is_null, 0, sizes)
        starts = np.where(is_null, 0, starts)
        validity = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    values = concatenate_ranges(data, starts, sizes)
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, len(sizes), buffers)


@kernel
def copy_ranges(data: Bytes, starts: Ints, sizes: Ints, out: Bytes) -> bool:
    """Copy ranges; return False if one exceeds the data or the output."""
    out_position = 0
    for row in range(len(starts)):
        start, size = starts[row], sizes[row]
        if start < 0 or size < 0 or start + size > len(data) or out_position + size > len(out):
            return False
        for index in range(size):
            out[np.uint64(out_position + index)] = data[np.uint64(start + index)]
        out_position += size
    return True


@interpreted_as(copy_ranges)
def _copy_ranges(data: Bytes, starts: Ints, sizes: Ints, out: Bytes) -> bool:
    used = 0
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        if start < 0 or size < 0 or start + size > len(data) or used + size > len(out):
            return False
        out[used : used + size] = data[start : start + size]
        used += size
    return True
