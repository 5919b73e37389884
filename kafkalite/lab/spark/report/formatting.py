"""Formatting of numbers, names and table rows for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafkalite.capture.reading.messages import error_name
from kafkalite.lab.spark.report.model import Listing

Row = Mapping[str, Any]
Rows = Sequence[Row]

MAX_CHART_ROWS: Final = 10
"""Rows per chart."""

MAX_ROWS: Final = 200
"""Rows per table and per query. The page shows ten at a time."""

UNNAMED: Final = "unnamed"
"""Shown in place of a name that is null."""


def name(value: object) -> str:
    """Return a name for display; null becomes `UNNAMED`, invalid characters are escaped."""
    return UNNAMED if value is None else escape_unprintable(str(value))


def escape_unprintable(text: str) -> str:
    """Escape unprintable and text-direction characters as Python does."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def listing(title: str, rows: Rows, columns: tuple[str, ...]) -> Listing:
    """Return a table with the given columns; its title says if it has only the first rows."""
    cells = tuple(
        tuple(_display(column, row[column]) for column in columns) for row in rows[:MAX_ROWS]
    )
    return Listing(
        f"{title} (first {MAX_ROWS} rows)" if len(rows) >= MAX_ROWS else title, columns, cells
    )


def _display(column: str, value: object) -> object:
    """Return a value for display: error codes become names."""
    return error_name(value) if column == "error" and isinstance(value, int) else value
