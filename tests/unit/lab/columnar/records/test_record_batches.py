"""Unit tests of finding record batches, and of errors for other bytes."""

from __future__ import annotations

import numpy as np
import pytest

from kafkalite.lab.columnar.arrays import unaligned_view
from kafkalite.lab.columnar.records import record_batches
from kafkalite.lab.columnar.records.record_batches import find_batches, has_wrong_crcs
from kafkalite.storage.batch import build_batch, split_batches
from kafkalite.storage.message_format import Message, encode_message
from kafkalite.storage.record_format import NewRecord

BATCH = build_batch([NewRecord(b"k", b"v", 5)], base_offset=70, leader_epoch=3)
OLD = BATCH[:16] + b"\x01" + BATCH[17:]
MESSAGE = encode_message(Message(7, 0, 0, -1, b"k", None))


def find_all(*ranges: bytes) -> record_batches.FoundBatches:
    stops = np.cumsum([len(data) for data in ranges])
    starts = stops - [len(data) for data in ranges]
    return find_batches(np.frombuffer(b"".join(ranges), np.uint8), starts, stops)


def find(*ranges: bytes) -> tuple[record_batches.BatchHeaders, list[record_batches.BatchError]]:
    found = find_all(*ranges)
    assert not found.old_messages
    return found.headers, found.errors


@pytest.mark.parametrize("copies", [1, 20])
def test_headers_equal_those_of_storage(copies: int) -> None:
    headers, errors = find(*[BATCH * 2, b"", BATCH] * copies)

    assert errors == []
    assert headers.range_index.tolist() == [
        n for row in range(copies) for n in (3 * row, 3 * row, 3 * row + 2)
    ]
    (view,) = split_batches(BATCH)
    for name in record_batches.HEADER_FIELDS:
        assert set(getattr(headers, name).tolist()) == {getattr(view, name)}
    assert set(headers.size.tolist()) == {view.size}


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize(
    ("invalid", "reason", "found"),
    [
        (BATCH[:16] + b"\x07" + BATCH[17:], "unknown batch format 7", 1),
        (BATCH[:8] + bytes(4) + BATCH[12:], "invalid batch length 0", 1),
        (BATCH[:8] + b"\0\0\0\x20" + BATCH[12:], "the batch is shorter than its header", 1),
    ],
)
def test_invalid_batch_is_reported(invalid: bytes, reason: str, found: int, copies: int) -> None:
    headers, errors = find(*[BATCH + invalid + BATCH] * copies)

    assert [(each.range_index, each.reason) for each in errors] == [
        (n, reason) for n in range(copies)
    ]
    assert headers.range_index.tolist() == [n for n in range(copies) for _ in range(found)]


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize("old", [OLD, MESSAGE])
def test_messages_of_old_formats_are_between_batches(old: bytes, copies: int) -> None:
    found = find_all(*[BATCH + old * 2 + BATCH] * copies)

    assert found.errors == []
    assert found.headers.range_index.tolist() == [n for n in range(copies) for _ in range(2)]
    size = 2 * len(BATCH) + 2 * len(old)
    assert found.old_messages == [
        (size * n + len(BATCH) + len(old) * number, len(old), n)
        for n in range(copies)
        for number in range(2)
    ]


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize("left", [1, 16, 17, 60, len(BATCH) - 1])
def test_truncated_batch_ends_the_range(left: int, copies: int) -> None:
    headers, errors = find(*[BATCH + BATCH[:left]] * copies)

    assert [(each.reason, each.is_end) for each in errors] == [
        (f"truncated batch: only {left} bytes", True)
    ] * copies
    assert len(headers) == copies


def test_wrong_crc_is_detected() -> None:
    data = np.frombuffer(BATCH + BATCH[:-1] + b"?", np.uint8)
    found = find_batches(data, np.array([0]), np.array([len(data)]))

    assert has_wrong_crcs(data, found.headers).tolist() == [False, True]


def test_numbers_are_read_at_unaligned_positions() -> None:
    assert unaligned_view(np.frombuffer(b"\x00\x01\x02", np.uint8), ">i2").tolist() == [1, 258]
    assert unaligned_view(np.frombuffer(b"\x00", np.uint8), ">i2").tolist() == []
