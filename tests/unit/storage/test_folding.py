"""Folding: what is left of a run of records is the last of each key, in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.storage.batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchView,
    Producer,
    build_batch,
    build_own_batch,
)
from kafkalite.storage.folding import fold
from kafkalite.storage.records import MalformedRecordsError, NewRecord, key_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.storage.folding import Folded

Pair = tuple[bytes | None, bytes | None]

# Lengths around those at which a varint grows by a byte.
SIZES = st.sampled_from((0, 1, 20, 42, 62, 63, 64, 65, 130, 8191, 8192))
KEYS = st.one_of(st.none(), st.sampled_from((b"", b"a", b"b", b"c" * 63, b"d" * 64)))
VALUES = st.one_of(st.none(), SIZES.map(bytes), st.binary(max_size=3))
RECORDS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)


def folded(data: bytes, most_keys: int = 1_000) -> list[Folded | BatchView]:
    return list(
        fold(lambda size, position: data[position : position + size], 0, len(data), most_keys)
    )


def last_of_each(pairs: Iterable[Pair]) -> list[Pair]:
    last: Folded = {}
    for key, value in pairs:
        last.pop(key, None)
        last[key] = value
    return list(last.items())


def keys_of(runs: Sequence[Folded | BatchView]) -> list[list[bytes | None]]:
    return [
        list(run) if isinstance(run, dict) else [key for key, _ in run.key_values()] for run in runs
    ]


@given(st.lists(RECORDS, min_size=1, max_size=5), st.integers(0, 500))
def test_the_last_of_each_key_is_left(batches: list[list[Pair]], step_ms: int) -> None:
    data = b"".join(
        build_batch(
            [NewRecord(*pair, step_ms * number) for number, pair in enumerate(pairs)],
            base_offset=100 * index,
        )
        for index, pairs in enumerate(batches)
    )
    (run,) = folded(data)
    assert isinstance(run, dict)
    assert list(run.items()) == last_of_each(pair for pairs in batches for pair in pairs)


@pytest.mark.parametrize("attributes", [1, 2, 3, 4, TRANSACTIONAL, CONTROL | TRANSACTIONAL])
def test_a_batch_that_is_not_plain_comes_by_itself(attributes: int) -> None:
    plain = build_own_batch([(b"a", b"1"), (b"b", b"2")], 5)
    again = build_own_batch([(b"a", b"3"), (b"a", b"4")], 5)
    other = build_batch(
        [NewRecord(b"a", b"x", 5)], attributes=attributes, producer=Producer(1, 0, 0)
    )
    runs = folded(other + plain + again + other + other + again)
    assert [type(run) for run in runs] == [BatchView, dict, BatchView, BatchView, dict]
    assert keys_of(runs) == [[b"a"], [b"b", b"a"], [b"a"], [b"a"], [b"a"]]


def test_a_batch_longer_than_what_is_read_at_once_comes_by_itself() -> None:
    plain = build_own_batch([(b"a", b"1")], 5)
    long = build_own_batch([(b"b", bytes(3 << 20))], 5)
    runs = folded(plain + long + plain)
    assert [type(run) for run in runs] == [dict, BatchView, dict]
    assert folded(plain + long[:-1]) == [{b"a": b"1"}]


def test_a_run_of_many_keys_is_given_piece_by_piece() -> None:
    batches = [build_own_batch([(b"%d" % number, bytes(2_000))], 5) for number in range(1_500)]
    runs = folded(b"".join(batches), most_keys=100)
    assert len(runs) > 1
    assert all(isinstance(run, dict) and len(run) >= 100 for run in runs[:-1])
    assert [key for keys in keys_of(runs) for key in keys] == [b"%d" % n for n in range(1_500)]


def test_it_stops_where_no_whole_batch_follows() -> None:
    plain = build_own_batch([(b"a", b"1")], 5)
    for tail in (plain[:-1], plain[:61], plain[:60], b"\0" * 100, b"\xff" * 100):
        assert folded(plain + tail) == [{b"a": b"1"}]
    assert folded(b"") == []


@given(RECORDS, st.integers(0, 10_000), st.integers(0, 255), st.integers(-2, 2))
def test_what_holds_no_records_is_refused(
    pairs: list[Pair], place: int, byte: int, more: int
) -> None:
    """Whatever is written over a batch's records, it is read as it would be record by record."""
    batch = bytearray(build_own_batch(pairs, 5))
    batch[61 + place % (len(batch) - 61)] = byte
    batch[57:61] = (len(pairs) + more).to_bytes(4, "big", signed=True)
    expected: list[Pair] | None = None
    try:
        expected = last_of_each(key_values(bytes(batch[61:]), len(pairs) + more))
    except MalformedRecordsError:
        with pytest.raises(MalformedRecordsError):
            folded(bytes(batch))
        return
    assert [pair for run in folded(bytes(batch)) for pair in run.items()] == expected  # type: ignore[union-attr]
