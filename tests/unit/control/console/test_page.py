"""Rows of long lists, and addresses of pages."""

from __future__ import annotations

import pytest

from kafkalite.control.console.forms import Query
from kafkalite.control.console.page import rows_of, url_of


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


def test_names_are_quoted_in_addresses() -> None:
    assert url_of("/group", group="a/b &c", at=None, q="") == "/console/group?group=a%2Fb+%26c"
