"""Records read by column equal those of `storage`, also for damaged batches."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from kafkalite.lab.columnar.records import record_fields, records
from kafkalite.lab.columnar.records.record_batches import find_batches
from kafkalite.lab.columnar.records.records import RECORD_FIELDS, read_batches, read_column
from kafkalite.storage.batch import (
    BatchProducer,
    ControlKind,
    ControlMarker,
    build_batch,
    build_control_batch,
    split_batches,
)
from kafkalite.storage.message_format import Message, encode_message
from kafkalite.storage.record_format import MalformedRecordsError, NewRecord, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

START = 1_700_000_000_000


def record(random: Random, number: int) -> NewRecord:
    sizes = (None, 0, 1, 5, 63, 64, 200, 9000)
    key, value = (
        None if size is None else random.randbytes(size) for size in random.choices(sizes, k=2)
    )
    names = random.choices(("a", "", "ünï", "x" * 70), k=random.choice((0, 0, 1, 3)))
    headers = tuple((name, random.choice((None, b"", b"v"))) for name in names)
    return NewRecord(key, value, START + number * random.choice((0, 1, 900)), headers)


def batch(random: Random, base_offset: int, count: int = 0) -> bytes:
    rows = [record(random, number) for number in range(count or random.choice((1, 2, 9)))]
    return build_batch(
        rows,
        base_offset=base_offset,
        leader_epoch=random.choice((-1, 0, 7)),
        attributes=random.choice((0, 0, 1, 2, 3, 4)) | random.choice((0, 8, 16)),
        producer=random.choice((BatchProducer(), BatchProducer(5, 2, 2**31 - 2))),
    )


def as_row(each: Record) -> tuple[object, ...]:
    return (each.offset, each.timestamp, each.key, each.value, each.headers)


def scalar(value: bytes) -> Iterator[tuple[object, ...]]:
    for view in split_batches(value):
        if not view.has_valid_crc():
            continue
        try:
            for each in view.records():
                yield (*as_row(each), view.leader_epoch, view.producer_id, view.base_offset)
        except MalformedRecordsError:
            continue


def columnar(values: list[bytes]) -> tuple[list[tuple[object, ...]], list[int]]:
    rows: list[tuple[object, ...]] = []
    owners: list[int] = []
    for opened in read_column(pa.array(values, pa.binary())):
        owners += opened.range_indexes.tolist()
        for each in opened.records.to_pylist():
            headers = tuple((one["key"], one["value"]) for one in each["headers"])
            at = round(each["timestamp"].timestamp() * 1000)
            head = (each["leader_epoch"], each["producer_id"], each["base_offset"])
            rows.append((each["offset"], at, each["key"], each["value"], headers, *head))
    return rows, owners


@pytest.mark.parametrize("min_columnar_rows", [0, 16, 1000])
def test_rows_equal_records_of_storage(
    min_columnar_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_fields, "_MIN_COLUMNAR_ROWS", min_columnar_rows)
    random = Random(4)  # noqa: S311 - it draws test data
    values = [
        b"".join(batch(random, 10 * number) for number in range(random.choice((0, 1, 4))))
        for _ in range(30)
    ]
    expected = [list(scalar(value)) for value in values]

    rows, owners = columnar(values)

    assert rows == [row for value in expected for row in value]
    assert owners == [number for number, value in enumerate(expected) for _ in value]


def reseal(frame: bytearray) -> bytes:
    """Set the CRC of a changed batch, so that it looks valid."""
    from kafkalite.storage.crc import crc32c  # noqa: PLC0415

    frame[17:21] = crc32c(memoryview(frame)[21:], 0).to_bytes(4, "big")
    return bytes(frame)


@pytest.mark.parametrize("min_columnar_rows", [0, 16])
def test_damaged_batch_is_rejected_as_by_storage(
    min_columnar_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_fields, "_MIN_COLUMNAR_ROWS", min_columnar_rows)
    random = Random(7)  # noqa: S311 - it draws test data
    values = []
    for number in range(120):
        frame = bytearray(batch(random, number, 3))
        for _ in range(random.choice((1, 1, 2))):
            frame[random.randrange(57, len(frame))] = random.choice((0, 1, 2, 127, 128, 255))
        values.append(reseal(frame) + batch(random, number + 9))
    expected = [row for value in values for row in scalar(value)]

    rows, _ = columnar(values)

    assert rows == expected
    assert 120 * 3 < len(rows) < 120 * 2 * 9


def test_control_batches_are_marked_and_can_be_excluded() -> None:
    marker = build_control_batch(
        ControlMarker(ControlKind.COMMIT, 3), producer_id=5, producer_epoch=1, now_ms=START
    )
    plain = build_batch([NewRecord(b"k", b"v", START)])
    column = pa.array([marker + plain], pa.binary())

    (both,) = read_column(column)
    (one,) = read_column(column, with_control=False)

    assert both.records.column("is_control").to_pylist() == [True, False]
    assert both.records.column("is_transactional").to_pylist() == [True, False]
    assert one.records.column("key").to_pylist() == [b"k"]


def test_sequence_wraps_around_after_the_maximum() -> None:
    rows = [NewRecord(None, b"v", START)] * 3
    value = build_batch(rows, producer=BatchProducer(5, 0, 2**31 - 2))

    (opened,) = read_column(pa.array([value], pa.binary()))

    assert opened.records.column("sequence").to_pylist() == [2**31 - 2, 2**31 - 1, 0]
    assert opened.records.schema.equals(pa.schema(RECORD_FIELDS))


def test_wrong_crc_is_an_error_and_the_next_batch_is_read() -> None:
    good = build_batch([NewRecord(b"k", b"v", START)])
    bad = bytearray(good)
    bad[-1] ^= 1

    (opened,) = read_column(pa.array([bytes(bad) + good], pa.binary()))

    assert [(each.range_index, each.reason) for each in opened.errors] == [
        (0, "the CRC of the batch is wrong")
    ]
    assert opened.records.num_rows == 1


def test_timestamps_outside_the_calendar_are_null() -> None:
    values = [build_batch([NewRecord(b"k", b"v", at)]) for at in (-1, 0, 2**62, START)]

    (opened,) = read_column(pa.array(values, pa.binary()))

    times = opened.records.column("timestamp").to_pylist()
    assert [at is None for at in times] == [True, False, True, False]


def test_batches_are_decompressed_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_DECOMPRESSED_BYTES", 100_000)
    zeros = build_batch([NewRecord(None, bytes(90_000), START)], attributes=4)
    data = np.frombuffer(zeros * 9, np.uint8)
    found = find_batches(data, np.array([0]), np.array([len(data)]))

    pieces = list(read_batches(data, found))

    assert found.errors == []
    assert [piece.records.num_rows for piece in pieces] == [2, 2, 2, 2, 1]


def test_huge_record_count_allocates_no_memory() -> None:
    frame = bytearray(build_batch([NewRecord(b"k", b"v", START)]))
    frame[57:61] = (999_999).to_bytes(4, "big")

    (opened,) = read_column(pa.array([reseal(frame)], pa.binary()))

    assert opened.records.num_rows == 0
    assert [each.reason for each in opened.errors] == ["the records do not fill the batch"]


def test_rows_of_old_messages_and_of_batches_are_in_the_order_of_the_data() -> None:
    old = [encode_message(Message(n, 1, 0, START + n, b"k", b"%d" % n)) for n in (0, 1, 3)]
    new = build_batch([NewRecord(b"k", b"2", START + 2)], base_offset=2)
    damaged = bytearray(old[0])
    damaged[-1] ^= 1
    values = [b"".join((old[0], old[1], damaged, new, old[2], old[0][:20])), new, b"", old[2]]

    pieces = list(read_column(pa.array(values, pa.binary())))

    rows = [row for piece in pieces for row in piece.records.to_pylist()]
    assert [(row["offset"], row["value"]) for row in rows] == [
        (n, b"%d" % n) for n in (0, 1, 2, 3, 2, 3)
    ]
    assert [n for piece in pieces for n in piece.range_indexes.tolist()] == [0, 0, 0, 0, 1, 3]
    positions = [n for piece in pieces for n in piece.batch_positions.tolist()]
    assert positions == sorted(positions)
    assert [(each.range_index, each.reason) for piece in pieces for each in piece.errors] == [
        (0, "a message fails its CRC")
    ]
    assert rows[0] == rows[5] | {"offset": 0, "base_offset": 0, "value": b"0"} | {
        "timestamp": rows[0]["timestamp"]
    }
    assert {
        name: rows[1][name]
        for name in ("headers", "leader_epoch", "producer_id", "producer_epoch", "sequence")
    } == {
        "headers": [],
        "leader_epoch": -1,
        "producer_id": -1,
        "producer_epoch": -1,
        "sequence": -1,
    }
    assert rows[1]["base_offset"] == 1
    assert rows[1]["timestamp"].timestamp() * 1000 == START + 1


def test_old_messages_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_MAX_OLD_MESSAGES_AT_ONCE", 4)
    data = encode_message(Message(0, 0, 0, -1, None, b"v")) * 9

    pieces = list(read_column(pa.array([data], pa.binary())))

    assert [piece.records.num_rows for piece in pieces] == [4, 4, 1]
    assert pieces[0].records.column("timestamp").to_pylist() == [None] * 4
