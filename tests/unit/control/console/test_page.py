"""Rows of long lists, and addresses of pages."""

from __future__ import annotations

from weakref import WeakSet

import pytest

from kafkalite.control.console.forms import Query
from kafkalite.control.console.page import Pager, each_of, rows_of, url_of


@pytest.mark.parametrize(
    ("page", "first", "last", "number"),
    [("", 1, 100, 1), ("2", 101, 200, 2), ("3", 201, 250, 3), ("99", 201, 250, 3)],
)
def test_a_list_is_paged(page: str, first: int, last: int, number: int) -> None:
    rows = rows_of(range(250), Query([("page", page)]))
    assert (rows.first, rows.last, rows.page, rows.pages, rows.total) == (
        first,
        last,
        number,
        3,
        250,
    )


def test_an_empty_list_has_one_page() -> None:
    rows = rows_of((), Query())
    assert (rows.first, rows.last, rows.page, rows.pages) == (0, 0, 1, 1)


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 250, 300])
@pytest.mark.parametrize("page", ["", "1", "2", "3", "99"])
def test_a_list_that_is_not_stored_has_the_same_pages(count: int, page: str) -> None:
    query = Query([("page", page)])
    pager = Pager(query)
    for row in range(count):
        pager.add(row)
    found, expected = pager.rows(), rows_of(range(count), query)
    assert found._replace(rows=()) == expected._replace(rows=())
    assert list(found.rows) == list(expected.rows)


async def test_entries_are_freed_while_they_are_read() -> None:
    class Entry:
        pass

    alive = WeakSet[Entry]()

    def answer() -> tuple[Entry, ...]:
        entries = tuple(Entry() for _ in range(10))
        alive.update(entries)
        return entries

    counts = [len(alive) async for _ in each_of(answer())]
    assert counts == [*range(10, 0, -1)]


def test_names_are_quoted_in_addresses() -> None:
    assert url_of("/group", group="a/b &c", at=None, q="") == "/console/group?group=a%2Fb+%26c"
