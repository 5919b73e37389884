"""Packed rows are equal to the rows that were added."""

from __future__ import annotations

from dataclasses import astuple, replace
from types import SimpleNamespace

import pytest

from kafkalite.lab.checker.history import (
    Batch,
    Client,
    Event,
    History,
    Outcome,
    Partition,
    Proof,
    Write,
)
from kafkalite.lab.checker.packed_rows import Numbers, OptionalNumbers, View, WideNumbers, grouped

EVENT = Event(
    client=Client("web", "10.0.0.1"),
    connection=(1 << 90) + 7,  # of a shard
    sent_ns=20,
    answered_ns=None,
    broker="k:9092",
    proof=Proof("a.pcap", 81, "10.0.0.1:5 > k:9092", (9 << 40) + 3, None, 20),
)
BATCH = Batch(100, (1 << 32) - 1, 4_096, -1, -1, -1, False, 0x18)
WRITE = Write(EVENT, Partition("orders", 0, 0), BATCH, None, Outcome.ACCEPTED, 0, 1 << 40)


def writes(*sent_ns: int) -> list[Write]:
    return [
        replace(WRITE, event=replace(EVENT, sent_ns=each), first_offset=number)
        for number, each in enumerate(sent_ns)
    ]


def test_rows_are_read_as_they_were_added() -> None:
    table = History.empty().writes
    rows = [
        WRITE,
        replace(WRITE, transactional_id="payments", outcome=Outcome.UNKNOWN, first_offset=-1),
        replace(WRITE, event=replace(EVENT, answered_ns=30, sent_ns=30)),
    ]
    table += rows
    expected = [*map(astuple, rows)]
    for read in ([*table], [table[number] for number in range(3)], table[:]):
        assert [*map(astuple, read)] == expected
    assert astuple(table[-1]) == expected[-1]
    assert isinstance(table[0], Write)
    assert [table.sent_ns(number) for number in range(3)] == [20, 20, 30]
    with pytest.raises(IndexError):
        table[3]


def test_sorting_keeps_the_order_of_rows_of_one_time() -> None:
    table = History.empty().writes
    table += writes(3, 1, 3, 2, 1)
    table.sort()
    assert [each.first_offset for each in table] == [1, 4, 3, 0, 2]
    assert [each.event.sent_ns for each in table] == [1, 1, 2, 3, 3]


def test_a_table_with_other_columns_has_the_same_rows() -> None:
    table = History.empty().writes
    table += writes(1, 2)
    offsets = Numbers()
    for each in (7, 8):
        offsets.append(each)
    assert [each.first_offset for each in table.replaced(first_offset=offsets)] == [7, 8]
    assert [each.first_offset for each in table] == [0, 1]


def test_numbers_of_all_sizes() -> None:
    optional, wide = OptionalNumbers(), WideNumbers()
    for each in (0, 7, (1 << 96) + 5):
        wide.append(each)
        optional.append(None if each == 7 else each >> 40)
    rows = [SimpleNamespace(number=number) for number in range(3)]
    assert [*map(wide.reader(), rows)] == [0, 7, (1 << 96) + 5]
    assert [*map(optional.reader(), rows)] == [0, None, 1 << 56]


def test_views_have_some_rows_in_an_order() -> None:
    rows = ["b", "aa", "c", "aaa"]
    by_length = grouped(rows, lambda row: None if row == "c" else row[0])
    assert {key: [*view] for key, view in by_length.items()} == {"b": ["b"], "a": ["aa", "aaa"]}
    view = View(rows, [3, 0, 1, 2])
    assert [*view.sorted_by(len)] == ["b", "c", "aa", "aaa"]
    assert (len(view), view[0], view[1:3]) == (4, "aaa", ["b", "aa"])
