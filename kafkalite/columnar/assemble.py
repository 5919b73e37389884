"""From the notes of a walk to Arrow columns: every value is read here, all of a field in one go.

A walk meets the rows of arrays in waves; here they are put back in the order of their messages.
Strings are cut by Arrow itself, which wants them in ascending order: so they are, then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.columnar.notes import unaligned
from kafkalite.columnar.plan import (
    Absent,
    Flags,
    Lists,
    Number,
    PackedLists,
    Slices,
    Sometimes,
    Structs,
    Uuids,
)
from kafkalite.columnar.varints import ONE_BYTE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from kafkalite.columnar.notes import Bytes, Ints, Notes
    from kafkalite.columnar.plan import Column

_UUID_BYTES = 16


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Which instances of a level are wanted, and in which order; None is all, as they came."""

    chosen: Ints | None
    size: int
    rows: Callable[[], Ints]
    """The message that each belongs to."""

    def of(self, values: Ints) -> Ints:
        """Put what a slot kept in this order."""
        return values if self.chosen is None else values[self.chosen]


@dataclass(slots=True)
class Assembly:
    """Makes the columns of one walk; rows whose text is no UTF-8 are found on the way."""

    notes: Notes
    sizes: Mapping[int, int]
    """By the slot of a run, its size."""
    not_text: set[int] = field(default_factory=set)
    _runs: dict[int, NDArray[np.void]] = field(default_factory=dict)

    def column(self, column: Column, order: Order) -> pa.Array:  # noqa: PLR0911 - a table
        """Make one column of some instances of its level."""
        match column:
            case Number():
                return self._number(column, order)
            case Flags():
                return pa.array(self._fixed(column.slot, column.offset, "u1", order) != 0)
            case Uuids():
                return uuid_array(self._fixed(column.slot, column.offset, "V16", order))
            case Slices():
                starts = order.of(self.notes.slot(column.slot))
                stops = order.of(self.notes.slot(column.slot + 1))
                cut = slice_array(self.notes.data, starts, stops)
                return self._text(cut, order) if column.is_text else cut
            case Lists():
                return self._lists(column, order)
            case PackedLists():
                return self._packed(column, order)
            case Structs():
                children = [self.column(each, order) for each in column.children]
                return struct_array(column.type, children, order.size)
            case Sometimes():
                return self._sometimes(column, order)
            case Absent():
                return pa.nulls(order.size, column.type)

    def _fixed(self, slot: int, offset: int, code: str, order: Order) -> NDArray[Any]:
        """View a field of a run, whose bytes are fetched once for all of its fields."""
        run = self._runs.get(slot)
        if run is None:
            places = order.of(self.notes.slot(slot))
            run = self._runs[slot] = gathered(self.notes.data, places, self.sizes[slot])
        if not len(run):
            return np.empty(0, code)
        return np.ndarray(run.shape, code, run, offset, strides=run.strides)

    def _number(self, column: Number, order: Order) -> pa.Array:
        values = self._fixed(column.slot, column.offset, column.code, order)
        native = values.astype(column.type.to_pandas_dtype())
        return pa.Array.from_buffers(column.type, len(native), [None, pa.py_buffer(native)])

    def _text(self, cut: pa.Array, order: Order) -> pa.Array:
        text = as_text(cut)
        if text is not None:
            return text
        try:
            return cut.cast(pa.string())
        except pa.ArrowInvalid:
            # Whoever asked leaves these messages out and asks again.
            self.not_text.update(order.rows()[not_text(cut)].tolist())
            return pa.nulls(len(cut), pa.string())

    def _lists(self, column: Lists, order: Order) -> pa.Array:
        counts = order.of(self.notes.slot(column.slot))
        is_null = counts < 0
        counts = np.maximum(counts, 0)
        offsets = np.zeros(order.size + 1, dtype=np.int64)
        np.cumsum(counts, out=offsets[1:])
        inner = self._rows(column.level, order, counts, offsets)
        values = self.column(column.element, inner)
        return list_array(column.type, offsets, values, is_null)

    def _packed(self, column: PackedLists, order: Order) -> pa.Array:
        """Copy arrays whole, end to end: what is between two of their rows is nothing."""
        starts = order.of(self.notes.slot(column.slot))
        stops = order.of(self.notes.slot(column.slot + 1))
        is_null = stops < starts
        counts = np.where(is_null, 0, stops - starts) // column.size
        offsets = np.zeros(order.size + 1, dtype=np.int64)
        np.cumsum(counts, out=offsets[1:])
        _, _, values = slice_array(self.notes.data, starts, stops).buffers()
        size = int(offsets[-1])
        held = values if values is not None and size else b""
        self._runs[column.run] = np.frombuffer(held, f"V{column.size}", size)
        inner = Order(None, size, lambda: np.repeat(order.rows(), counts))
        return list_array(column.type, offsets, self.column(column.element, inner), is_null)

    def _rows(self, level: int, order: Order, counts: Ints, offsets: Ints) -> Order:
        """Find the order of an array level's instances: by message, then by rank."""
        size = int(offsets[-1])

        def rows() -> Ints:
            return np.repeat(order.rows(), counts)

        if order.chosen is None and self.notes.is_in_order(level):
            return Order(None, size, rows)
        parents = self.notes.parents(level)
        if order.chosen is None:
            place = offsets[parents] + self.notes.ranks(level)
            is_wanted = None
        else:
            places = np.full(int(parents.max(initial=-1)) + 1, -1)
            known = order.chosen < len(places)
            places[order.chosen[known]] = np.flatnonzero(known)
            place = places[parents]
            is_wanted = place >= 0
            place = offsets[place] + self.notes.ranks(level)
        numbers = np.arange(len(parents))
        if is_wanted is not None and not is_wanted.all():
            place, numbers = place[is_wanted], numbers[is_wanted]
        if len(place) == len(parents) and (place == numbers).all():
            return Order(None, size, rows)
        chosen = np.zeros(size, dtype=np.int64)
        chosen[place] = numbers
        return Order(chosen, size, rows)

    def _sometimes(self, column: Sometimes, order: Order) -> pa.Array:
        parents = self.notes.parents(column.level)
        instances = np.full(self.notes.size_above(column.level), -1)
        # Of a tag that was sent twice, the last counts, as with the scalar codec.
        instances[parents] = np.arange(len(parents))
        instances = order.of(instances)
        there = instances >= 0
        default = pa.array([column.default], column.type)
        if not there.any():
            return pa.nulls(order.size, column.type) if column.default is None else (
                default.take(pa.array(np.zeros(order.size, dtype=np.int32))))  # fmt: skip
        chosen = instances[there]
        inner = Order(chosen, len(chosen), lambda: order.rows()[there])
        values = self.column(column.column, inner)
        if there.all():
            return values
        at = np.where(there, np.cumsum(there) - 1, len(chosen))
        if column.default is None:
            return values.take(pa.array(at, mask=~there))
        return pa.concat_arrays([values, default]).take(pa.array(at))


def not_text(column: pa.BinaryArray) -> Ints:
    """Find the values that are no UTF-8: only those with a byte above ASCII can be."""
    data, offsets = binary_parts(column)
    suspects = np.searchsorted(offsets, np.flatnonzero(data >= ONE_BYTE), "right") - 1
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


def as_text(column: pa.BinaryArray) -> pa.StringArray | None:
    """Take bytes for text where all are ASCII, which is told fast; None where they are not."""
    validity, offsets, values = column.buffers()
    if values is not None and len(values):
        held = np.frombuffer(values, np.uint8)
        if held.max() >= ONE_BYTE:
            return None
    buffers = [validity, offsets, values]
    return pa.Array.from_buffers(
        pa.string(), len(column), buffers, column.null_count, column.offset
    )


def gathered(data: Bytes, at: Ints, size: int) -> NDArray[np.void]:
    """Copy so many bytes from each position; numpy is fast at that where it knows no type."""
    return unaligned(data, f"V{size}")[at] if len(at) else np.empty(0, f"V{size}")


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
