"""Formatting of numbers, names and table rows for the report."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafkalite.capture.reading.messages import error_name
from kafkalite.lab.spark.report.model import Listing

Row = Mapping[str, Any]
Rows = Sequence[Row]

MAX_CHART_ROWS: Final = 10
"""Rows per chart."""

MAX_ROWS: Final = 200
"""Rows per table and per query. The page shows ten at a time."""

MAX_EVENTS: Final = 100
"""Events of a group's time line on the page."""

_PROOFS: Final = "proofs"
_COMMANDS: Final = "shown by"
"""Title of the column with commands."""

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
    """Return a table with the given columns, and commands that show the requests of its rows.

    Its title says if it has only the first rows.
    """
    has_proofs = bool(rows) and _PROOFS in rows[0]
    cells = tuple(
        (
            *(_display(column, row[column]) for column in columns),
            *((show_commands(row[_PROOFS] or ()),) if has_proofs else ()),
        )
        for row in rows[:MAX_ROWS]
    )
    return Listing(
        f"{title} (first {MAX_ROWS} rows)" if len(rows) >= MAX_ROWS else title,
        (*columns, _COMMANDS) if has_proofs else columns,
        cells,
    )


def show_commands(proofs: Iterable[Any]) -> str:
    """Return the commands that print the requests of proofs, one for each capture."""
    offsets: dict[str, dict[int, None]] = {}
    for each in proofs:
        fields = each if isinstance(each, dict) else each.asDict()
        offsets.setdefault(fields["file"], {})[fields["offset"]] = None
    return "; ".join(
        " ".join(("kafkalite show", shlex.quote(file), *(f"--offset {each}" for each in own)))
        for file, own in offsets.items()
    )


def _display(column: str, value: object) -> object:
    """Return a value for display: error codes become names."""
    return error_name(value) if column == "error" and isinstance(value, int) else value
