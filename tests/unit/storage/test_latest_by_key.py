"""Latest values: of a run of records the last of each key remains, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.storage.batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    build_batch,
    build_key_value_batch,
)
from kafkalite.storage.crc import crc32c
from kafkalite.storage.latest_by_key import DamagedBatchError, latest_by_key
from kafkalite.storage.record_format import MalformedRecordsError, NewRecord, key_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.storage.latest_by_key import LatestByKey

Pair = tuple[bytes | None, bytes | None]

# Lengths at which a varint grows by a byte.
SIZES = st.sampled_from((0, 1, 20, 42, 62, 63, 64, 65, 130, 8191, 8192))
KEYS = st.one_of(st.none(), st.sampled_from((b"", b"a", b"b", b"c" * 63, b"d" * 64)))
VALUES = st.one_of(st.none(), SIZES.map(bytes), st.binary(max_size=3))
RECORDS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)


def read_batches(data: bytes, max_keys: int = 1_000) -> list[LatestByKey | BatchView]:
    return list(
        latest_by_key(
            lambda size, position: data[position : position + size], 0, len(data), max_keys
        )
    )


def latest_pairs(pairs: Iterable[Pair]) -> list[Pair]:
    last: LatestByKey = {}
    for key, value in pairs:
        last.pop(key, None)
        last[key] = value
    return list(last.items())


def keys_of(runs: Sequence[LatestByKey | BatchView]) -> list[list[bytes | None]]:
    return [
        list(run) if isinstance(run, dict) else [key for key, _ in run.key_values()] for run in runs
    ]


@given(st.lists(RECORDS, min_size=1, max_size=5), st.integers(0, 500))
def test_last_value_of_each_key_remains(batches: list[list[Pair]], step_ms: int) -> None:
    data = b"".join(
        build_batch(
            [NewRecord(*pair, step_ms * number) for number, pair in enumerate(pairs)],
            base_offset=100 * index,
        )
        for index, pairs in enumerate(batches)
    )
    (run,) = read_batches(data)
    assert isinstance(run, dict)
    assert list(run.items()) == latest_pairs(pair for pairs in batches for pair in pairs)


@pytest.mark.parametrize("attributes", [1, 2, 3, 4, TRANSACTIONAL, CONTROL | TRANSACTIONAL])
def test_batch_that_is_not_plain_is_returned_unchanged(attributes: int) -> None:
    plain = build_key_value_batch([(b"a", b"1"), (b"b", b"2")], 5)
    again = build_key_value_batch([(b"a", b"3"), (b"a", b"4")], 5)
    other = build_batch(
        [NewRecord(b"a", b"x", 5)], attributes=attributes, producer=BatchProducer(1, 0, 0)
    )
    runs = read_batches(other + plain + again + other + other + again)
    assert [type(run) for run in runs] == [BatchView, dict, BatchView, BatchView, dict]
    assert keys_of(runs) == [[b"a"], [b"b", b"a"], [b"a"], [b"a"], [b"a"]]


def test_batch_longer_than_a_chunk_is_returned_unchanged() -> None:
    plain = build_key_value_batch([(b"a", b"1")], 5)
    long = build_key_value_batch([(b"b", bytes(3 << 20))], 5)
    runs = read_batches(plain + long + plain)
    assert [type(run) for run in runs] == [dict, BatchView, dict]
    with pytest.raises(DamagedBatchError) as damaged:
        read_batches(plain + long[:-1])
    assert damaged.value.position == len(plain)


def test_run_with_many_keys_is_returned_in_parts() -> None:
    batches = [
        build_key_value_batch([(b"%d" % number, bytes(2_000))], 5) for number in range(1_500)
    ]
    runs = read_batches(b"".join(batches), max_keys=100)
    assert len(runs) > 1
    assert all(isinstance(run, dict) and len(run) >= 100 for run in runs[:-1])
    assert [key for keys in keys_of(runs) for key in keys] == [b"%d" % n for n in range(1_500)]


def test_a_damaged_length_is_reported_with_its_position() -> None:
    plain = build_key_value_batch([(b"a", b"1")], 5)
    for tail in (plain[:-1], plain[:61], plain[:60], b"\0", b"\0" * 100, b"\xff" * 100):
        with pytest.raises(DamagedBatchError) as damaged:
            read_batches(plain + tail)
        assert damaged.value.position == len(plain)
    assert read_batches(b"") == []


@pytest.mark.parametrize("attributes", [0, 1, TRANSACTIONAL])
@pytest.mark.parametrize("at", [16, 20, 21, 40, 60, -1])
def test_damaged_batch_of_any_kind_is_reported(attributes: int, at: int) -> None:
    plain = build_key_value_batch([(b"a", b"1")], 5)
    other = bytearray(build_batch([NewRecord(b"b", b"x", 5)], attributes=attributes))
    assert len(read_batches(plain + other + plain)) > 0
    other[at] ^= 4
    with pytest.raises(DamagedBatchError) as damaged:
        read_batches(plain + other + plain)
    assert damaged.value.position == len(plain)


@given(RECORDS, st.integers(0, 10_000), st.integers(0, 255), st.integers(-2, 2))
def test_batch_without_valid_records_is_refused(
    pairs: list[Pair], position: int, byte: int, count_error: int
) -> None:
    """Any corruption of a batch's records gives the same result as decoding each record."""
    batch = bytearray(build_key_value_batch(pairs, 5))
    batch[61 + position % (len(batch) - 61)] = byte
    batch[57:61] = (len(pairs) + count_error).to_bytes(4, "big", signed=True)
    batch[17:21] = crc32c(batch[21:], 0).to_bytes(4, "big")
    expected: list[Pair] | None = None
    try:
        expected = latest_pairs(key_values(bytes(batch[61:]), len(pairs) + count_error))
    except MalformedRecordsError:
        with pytest.raises(MalformedRecordsError):
            read_batches(bytes(batch))
        return
    assert [pair for run in read_batches(bytes(batch)) for pair in run.items()] == expected  # type: ignore[union-attr]
