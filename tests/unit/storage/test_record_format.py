"""Single records: varints, and invalid bytes."""

from __future__ import annotations

import pytest

from kafkalite.storage.record_format import (
    MalformedRecordsError,
    NewRecord,
    decode_headers,
    encode_key_values,
    encode_record,
    encode_records,
    encode_varint,
    key_values,
    read_varint,
    scan_records,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"),
        (255, "fe03"), (256, "8004"), (300, "d804"), (8191, "fe7f"), (8192, "808001"),
        (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01"),
    ],
)  # fmt: skip
def test_varints_are_zigzag(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert encode_varint(value) == data
    assert read_varint(b"?" + data + b"?", 1) == (value, 1 + len(data))


def test_endless_varint_is_refused() -> None:
    with pytest.raises(MalformedRecordsError):
        read_varint(b"\xff" * 11, 0)
    with pytest.raises(IndexError):
        read_varint(b"\xff" * 3, 0)


def test_offsets_and_timestamps_are_relative_to_the_first_record() -> None:
    data = encode_records([NewRecord(b"a", b"1", 50), NewRecord(b"b", None, 40)], 50)
    first, second = scan_records(data, 2)
    assert (first.offset_delta, first.timestamp_delta, first.key, first.value) == (0, 0, b"a", b"1")
    assert (second.offset_delta, second.timestamp_delta) == (1, -10)
    assert (second.key, second.value) == (b"b", None)
    assert second.end_position == len(data)
    assert decode_headers(data, second.headers_position, second.end_position) == ()


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 40_000])
def test_encoded_key_values_equal_records_with_one_timestamp(size: int) -> None:
    pairs = [(b"k" * size, b"v"), (None, b"v" * size), (b"k", None), *[(b"k", b"v")] * 300]
    records = [NewRecord(key, value, 50) for key, value in pairs]
    assert encode_key_values(pairs) == encode_records(records, 50)


def test_every_truncation_and_wrong_count_is_refused() -> None:
    data = b"".join(
        encode_record(n, n, b"key", b"value" * 30, (("name", b"x" * 70),)) for n in range(3)
    )
    for scan in (scan_records, key_values):
        assert len(list(scan(data, 3))) == 3
        for end in range(len(data)):
            with pytest.raises(MalformedRecordsError):
                list(scan(data[:end], 3))
        for count in (0, 1, 2, 4):
            with pytest.raises(MalformedRecordsError):
                list(scan(data, count))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("0a 00 00 00 05 01 00", id="key of length -3"),
        pytest.param("0a 00 00 00 7e 01 00", id="key beyond the end"),
        pytest.param("08 00 00 00 01 01 00", id="record longer than its length"),
        pytest.param("0e 00 00 00 01 01 00", id="record shorter than its length"),
        pytest.param("01", id="negative length"),
    ],
)
def test_inconsistent_record_is_refused(body: str) -> None:
    with pytest.raises(MalformedRecordsError):
        list(scan_records(bytes.fromhex(body), 1))
    with pytest.raises(MalformedRecordsError):
        list(key_values(bytes.fromhex(body), 1))


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param("01", id="negative count"),
        pytest.param("02 01 01", id="null name"),
        pytest.param("02 02 ff 01", id="name that is not text"),
        pytest.param("04 02 61 01", id="fewer than promised"),
        pytest.param("00 00", id="more than promised"),
    ],
)
def test_damaged_headers_are_refused(headers: str) -> None:
    data = bytes.fromhex(headers)
    with pytest.raises(MalformedRecordsError):
        decode_headers(data, 0, len(data))
