"""Batches are found where they stand, and what stands there instead is told."""

from __future__ import annotations

import numpy as np
import pytest

from kafkalite.columnar import batches
from kafkalite.columnar.arrays import unaligned
from kafkalite.columnar.batches import find_batches, wrong_crcs
from kafkalite.storage.batch import build_batch, split_batches
from kafkalite.storage.records import NewRecord

BATCH = build_batch([NewRecord(b"k", b"v", 5)], base_offset=70, leader_epoch=3)
OLD = BATCH[:16] + b"\x01" + BATCH[17:]


def find(*cells: bytes) -> tuple[batches.Heads, list[batches.BatchError]]:
    stops = np.cumsum([len(cell) for cell in cells])
    starts = stops - [len(cell) for cell in cells]
    return find_batches(np.frombuffer(b"".join(cells), np.uint8), starts, stops)


@pytest.mark.parametrize("copies", [1, 20])
def test_heads_say_what_storage_reads_of_them(copies: int) -> None:
    heads, errors = find(*[BATCH * 2, b"", BATCH] * copies)

    assert errors == []
    assert heads.cell.tolist() == [
        n for row in range(copies) for n in (3 * row, 3 * row, 3 * row + 2)
    ]
    (view,) = split_batches(BATCH)
    for name in batches._PLACES:
        assert set(getattr(heads, name).tolist()) == {getattr(view, name)}
    assert set(heads.size.tolist()) == {view.size}


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize(
    ("odd", "reason", "found"),
    [
        (OLD, "a batch of the old format 1", 2),
        (BATCH[:16] + b"\x07" + BATCH[17:], "a batch of unknown format 7", 1),
        (BATCH[:8] + bytes(4) + BATCH[12:], "a batch of length 0", 1),
        (BATCH[:8] + b"\0\0\0\x20" + BATCH[12:], "a batch shorter than its head", 1),
    ],
)
def test_what_is_no_batch_is_told(odd: bytes, reason: str, found: int, copies: int) -> None:
    heads, errors = find(*[BATCH + odd + BATCH] * copies)

    assert [(each.cell, each.reason) for each in errors] == [(n, reason) for n in range(copies)]
    assert heads.cell.tolist() == [n for n in range(copies) for _ in range(found)]


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize("left", [1, 16, 17, 60, len(BATCH) - 1])
def test_a_torn_one_is_an_end(left: int, copies: int) -> None:
    heads, errors = find(*[BATCH + BATCH[:left]] * copies)

    assert [(each.reason, each.is_end) for each in errors] == [
        (f"a batch of which only {left} bytes are there", True)
    ] * copies
    assert len(heads) == copies


def test_crcs_are_looked_at() -> None:
    data = np.frombuffer(BATCH + BATCH[:-1] + b"?", np.uint8)
    heads, _ = find_batches(data, np.array([0]), np.array([len(data)]))

    assert wrong_crcs(data, heads).tolist() == [False, True]


def test_numbers_are_read_from_any_byte() -> None:
    assert unaligned(np.frombuffer(b"\x00\x01\x02", np.uint8), ">i2").tolist() == [1, 258]
    assert unaligned(np.frombuffer(b"\x00", np.uint8), ">i2").tolist() == []
