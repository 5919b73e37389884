"""Ranges of a buffer → Arrow columns of bytes, without one Python object a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from kafkalite.columnar.arrays import Bytes, Ints, Mask

_INT32_MAX: Final = (1 << 31) - 1


def _ascending(values: Ints) -> Ints:
    return np.argsort(values, kind="stable")


class Ranges:
    """Ranges of one buffer, none of which overlaps another, to be taken in any order."""

    __slots__ = ("_array", "_slots")

    def __init__(self, data: Bytes, starts: Ints, sizes: Ints, hint: Ints | None = None) -> None:
        # What lies between two ranges is an element too: those of odd number are the ranges.
        order: Ints | None = None
        if len(starts) > 1 and (starts[1:] < starts[:-1]).any():
            # Often the frames of an order of their own, which a hint tells, are nearly ascending.
            order = _ascending(starts) if hint is None else hint
            ordered = starts[order]
            if hint is not None and (ordered[1:] < ordered[:-1]).any():
                order = hint[_ascending(ordered)]
                ordered = starts[order]
            starts, sizes = ordered, sizes[order]
        is_large = len(data) > _INT32_MAX
        offsets = np.zeros(2 * len(starts) + 1, np.int64 if is_large else np.int32)
        offsets[1::2] = starts
        offsets[2::2] = starts + sizes
        kind = pa.large_binary() if is_large else pa.binary()
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        self._array = pa.Array.from_buffers(kind, 2 * len(starts), buffers)
        self._slots = np.arange(1, 2 * len(starts), 2)
        if order is not None:
            self._slots[order] = self._slots.copy()

    def take(self, rows: Ints, is_null: Mask | None = None) -> Any:  # noqa: ANN401 - an Arrow array
        """Return ranges as a column of bytes; null where the mask says so."""
        if is_null is not None and is_null.any():
            if not len(self._slots):
                return pa.nulls(len(rows), pa.binary())
            slots = pa.array(self._slots[np.where(is_null, 0, rows)], mask=is_null)
        else:
            slots = pa.array(self._slots[rows])
        return self._array.take(slots).cast(pa.binary())
