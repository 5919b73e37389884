"""Records are found by their lengths, and what does not fit spoils its batch alone."""

from __future__ import annotations

import numpy as np
import pytest

from kafkalite.columnar import record_parts
from kafkalite.columnar.record_parts import Bodies, RecordReader, header_lists, place_records
from kafkalite.storage.records import NewRecord, encode_records

BODY = encode_records([NewRecord(b"k", b"v", 0), NewRecord(None, bytes(100), 0, (("h", b"1"),))], 0)


def bodies(*parts: bytes) -> Bodies:
    stops = np.cumsum([len(part) for part in parts])
    starts = stops - [len(part) for part in parts]
    return Bodies(np.frombuffer(b"".join(parts), np.uint8), starts, stops)


@pytest.mark.parametrize("few", [0, 16])
def test_each_batch_must_be_filled(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_parts, "_FEW", few)
    stretches = bodies(BODY, BODY + b"\x00", BODY, BODY[:-1], b"", BODY)

    placed = place_records(stretches, np.array([2, 2, 1, 2, 0, 2]))

    assert placed.is_wrong.tolist() == [False, True, True, True, False, False]
    assert placed.batch.tolist() == [0, 0, 5, 5]
    assert (placed.stops[1::2] == stretches.ends[[0, 5]]).all()


def test_headers_become_lists() -> None:
    stretches = bodies(BODY)
    placed = place_records(stretches, np.array([2]))
    reader = RecordReader(stretches.data, placed.starts + 1, placed.stops)
    for _ in range(2):
        reader.number()
    key, _ = reader.slice(), reader.slice()

    lists, spoilt = header_lists(stretches.data, reader.headers(), np.array([True, True]))

    assert (key[1] - key[0]).tolist() == [1, -1]
    assert lists.to_pylist() == [[], [{"key": "h", "value": b"1"}]]
    assert spoilt.tolist() == []
    assert not reader.is_wrong.any()
