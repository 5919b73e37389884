"""Unit tests of Arrow columns built from buffers: slices, uuids, lists and structs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kafkalite.lab.columnar.decoding.arrow_assembly import (
    list_array,
    slice_array,
    struct_array,
    uuid_array,
)

DATA = np.frombuffer(bytes(range(65, 65 + 26)), np.uint8)


def test_slice_with_stop_before_start_is_null() -> None:
    column = slice_array(DATA, np.array([0, 4, 5, 20]), np.array([3, 4, 4, 26]))

    assert column.to_pylist() == [b"ABC", b"", None, b"UVWXYZ"]


def test_slices_of_empty_data_are_empty() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert slice_array(DATA[:0], none, none).to_pylist() == []


def test_uuid_column_has_16_byte_values() -> None:
    column = uuid_array(np.frombuffer(bytes(range(32)), "V16"))

    assert column.to_pylist() == [bytes(range(16)), bytes(range(16, 32))]


def test_list_column_has_empty_and_null_lists() -> None:
    kind = pa.list_(pa.field("element", pa.int64()))
    offsets, is_null = np.array([0, 2, 2, 2, 3]), np.array([False, False, True, False])

    made = list_array(kind, offsets, pa.array([1, 2, 3]), is_null)

    assert made.to_pylist() == [[1, 2], [], None, [3]]


def test_struct_column_has_no_null_structs() -> None:
    kind = pa.struct([pa.field("a", pa.int64())])
    assert struct_array(kind, [pa.array([1, None])], 2).to_pylist() == [{"a": 1}, {"a": None}]
