"""Unit tests of record fields; an invalid record affects only its batch."""

from __future__ import annotations

import numpy as np
import pytest

from kafkalite.lab.columnar.records import record_fields
from kafkalite.lab.columnar.records.record_fields import (
    Bodies,
    RecordReader,
    find_records,
    header_lists,
    read_signed_varints,
)
from kafkalite.storage.record_format import NewRecord, encode_records, encode_varint

BODY = encode_records([NewRecord(b"k", b"v", 0), NewRecord(None, bytes(100), 0, (("h", b"1"),))], 0)


def bodies(*parts: bytes) -> Bodies:
    stops = np.cumsum([len(part) for part in parts])
    starts = stops - [len(part) for part in parts]
    return Bodies(np.frombuffer(b"".join(parts), np.uint8), starts, stops)


@pytest.mark.parametrize("min_columnar_rows", [0, 16])
def test_batch_that_is_not_filled_is_invalid(
    min_columnar_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_fields, "_MIN_COLUMNAR_ROWS", min_columnar_rows)
    batch_bodies = bodies(BODY, BODY + b"\x00", BODY, BODY[:-1], b"", BODY)

    positions = find_records(batch_bodies, np.array([2, 2, 1, 2, 0, 2]))

    assert positions.is_invalid.tolist() == [False, True, True, True, False, False]
    assert positions.batch.tolist() == [0, 0, 5, 5]
    assert (positions.stops[1::2] == batch_bodies.ends[[0, 5]]).all()


def test_headers_are_returned_as_lists() -> None:
    batch_bodies = bodies(BODY)
    positions = find_records(batch_bodies, np.array([2]))
    reader = RecordReader(batch_bodies.data, positions.starts + 1, positions.stops)
    for _ in range(2):
        reader.read_varints()
    key, _ = reader.read_bytes(), reader.read_bytes()

    lists, invalid = header_lists(batch_bodies.data, reader.read_headers(), np.array([True, True]))

    assert (key[1] - key[0]).tolist() == [1, -1]
    assert lists.to_pylist() == [[], [{"key": "h", "value": b"1"}]]
    assert invalid.tolist() == []
    assert not reader.is_invalid.any()


def test_varints_of_up_to_64_bits_are_read() -> None:
    numbers = [0, -1, 1, 63, -64, 64, -65, 2**31, -(2**31), 2**63 - 1, -(2**63)]
    written = [encode_varint(number) for number in numbers]
    starts = np.cumsum([0, *map(len, written)])

    values, after = read_signed_varints(np.frombuffer(b"".join(written), np.uint8), starts[:-1])

    assert values.tolist() == numbers
    assert after.tolist() == starts[1:].tolist()


def test_varint_without_end_has_a_negative_end_position() -> None:
    _, after = read_signed_varints(
        np.frombuffer(b"\x80" * 11 + b"\x00", np.uint8), np.array([0, 2, 3])
    )

    assert after.tolist() == [-1, 12, 12]
