"""Comparison of fetched records, however responses group them."""

from __future__ import annotations

from kafkalite.lab.replay.comparison.fetched_records import FetchedRecords, Partition
from kafkalite.lab.replay.rewriting.id_mapping import IdMapping, Scope, ValueKind
from kafkalite.storage.batch import build_batch
from kafkalite.storage.record_format import NewRecord

ORDERS = Scope(topic="orders", partition=0)
PARTITION = Partition("orders", 0)


def batch(first: int, *values: bytes) -> bytes:
    records = [NewRecord(None, value, 1_700_000_000_000) for value in values]
    return build_batch(records, base_offset=first)


def test_grouping_of_records_is_not_a_difference() -> None:
    fetched = FetchedRecords(IdMapping())
    fetched.add(ORDERS, batch(0, b"a", b"b"), batch(0, b"a"))
    fetched.add(ORDERS, None, batch(1, b"b"))
    assert fetched.missing_offsets() == {}
    assert list(fetched.differing_offsets()) == []


def test_records_missing_at_the_target_are_listed() -> None:
    fetched = FetchedRecords(IdMapping())
    fetched.add(ORDERS, batch(0, b"a", b"b", b"c"), batch(0, b"a"))
    assert fetched.missing_offsets() == {PARTITION: [1, 2]}
    fetched.add_from_target(PARTITION, batch(0, b"a", b"b"))
    assert list(fetched.differing_offsets()) == [(PARTITION, 2, True)]


def test_different_record_content_is_a_difference() -> None:
    fetched = FetchedRecords(IdMapping())
    fetched.add(ORDERS, batch(0, b"a"), batch(0, b"x"))
    assert list(fetched.differing_offsets()) == [(PARTITION, 0, False)]


def test_offsets_are_shifted_before_comparison() -> None:
    mapping = IdMapping()
    mapping.match(ValueKind.OFFSET, ORDERS, 100, 0, learn=True)
    fetched = FetchedRecords(mapping)
    fetched.add(ORDERS, batch(100, b"a"), batch(0, b"a"))
    assert list(fetched.differing_offsets()) == []


def test_undecodable_batches_are_counted() -> None:
    fetched = FetchedRecords(IdMapping())
    fetched.add(ORDERS, b"\0" * 80, batch(0, b"a"))
    assert fetched.uncompared_batches == 1
    assert list(fetched.differing_offsets()) == []
