"""Records compared as a whole, however answers grouped them."""

from __future__ import annotations

from kafkalite.replay.fetched import Fetched, Partition
from kafkalite.replay.mapping import Kind, Mapping, Scope
from kafkalite.storage.batch import build_batch
from kafkalite.storage.records import NewRecord

ORDERS = Scope(topic="orders", partition=0)
PARTITION = Partition("orders", 0)


def batch(first: int, *values: bytes) -> bytes:
    records = [NewRecord(None, value, 1_700_000_000_000) for value in values]
    return build_batch(records, base_offset=first)


def test_how_records_are_grouped_is_no_difference() -> None:
    fetched = Fetched(Mapping())
    fetched.take(ORDERS, batch(0, b"a", b"b"), batch(0, b"a"))
    fetched.take(ORDERS, None, batch(1, b"b"))
    assert fetched.missing() == {}
    assert list(fetched.differing()) == []


def test_what_the_target_has_not_shown_is_asked_for() -> None:
    fetched = Fetched(Mapping())
    fetched.take(ORDERS, batch(0, b"a", b"b", b"c"), batch(0, b"a"))
    assert fetched.missing() == {PARTITION: [1, 2]}
    fetched.show(PARTITION, batch(0, b"a", b"b"))
    assert list(fetched.differing()) == [(PARTITION, 2, True)]


def test_other_content_is_a_difference() -> None:
    fetched = Fetched(Mapping())
    fetched.take(ORDERS, batch(0, b"a"), batch(0, b"x"))
    assert list(fetched.differing()) == [(PARTITION, 0, False)]


def test_offsets_are_compared_from_where_the_target_begins() -> None:
    meaning = Mapping()
    meaning.meet(Kind.OFFSET, ORDERS, 100, 0, teaches=True)
    fetched = Fetched(meaning)
    fetched.take(ORDERS, batch(100, b"a"), batch(0, b"a"))
    assert list(fetched.differing()) == []


def test_bytes_that_are_no_batches_are_counted() -> None:
    fetched = Fetched(Mapping())
    fetched.take(ORDERS, b"\0" * 80, batch(0, b"a"))
    assert fetched.unread == 1
    assert list(fetched.differing()) == []
