"""How the report says numbers, and shows rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafkalite.capture.messages import error_name
from kafkalite.spark.report.model import Listing

Row = Mapping[str, Any]
Rows = Sequence[Row]

FEW: Final = 10
"""How many rows of a table are shown."""

NAMELESS: Final = "nameless"
"""What is called so has a null in the place of its name."""


def count(number: int, one: str, many: str | None = None) -> str:
    """Write how many there are of something."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def name(value: object) -> str:
    """Write who or what something is of: captures hold names that are missing or no UTF-8."""
    return NAMELESS if value is None else legible(str(value))


def legible(text: str) -> str:
    """Write what cannot be seen, or would turn what follows around, as Python escapes it."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def listing(title: str, rows: Rows, columns: tuple[str, ...]) -> Listing:
    """Return the first rows of a table, by these columns; its title says where there are more."""
    shown = tuple(tuple(_told(column, row[column]) for column in columns) for row in rows[:FEW])
    return Listing(f"{title} (the first {FEW})" if len(rows) > FEW else title, columns, shown)


def _told(column: str, value: object) -> object:
    """Return a value as people know it: an error by its name."""
    return error_name(value) if column == "error" and isinstance(value, int) else value
