"""Formatting of numbers, names and table rows for the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafkalite.capture.reading.messages import error_name
from kafkalite.lab.checker.history import Proof
from kafkalite.lab.checker.proof_commands import commands_of
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
_COMMANDS: Final = ("shown by", "shown by tshark")
"""Titles of the columns with commands."""

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
            *(_joined_commands(row[_PROOFS] or ()) if has_proofs else ()),
        )
        for row in rows[:MAX_ROWS]
    )
    return Listing(
        f"{title} (first {MAX_ROWS} rows)" if len(rows) >= MAX_ROWS else title,
        (*columns, *_COMMANDS) if has_proofs else columns,
        cells,
    )


def commands(proofs: Iterable[Any]) -> tuple[str, ...]:
    """Return the commands of kafkalite and of tshark that print the requests in `proofs`."""
    rows = (each if isinstance(each, dict) else each.asDict() for each in proofs)
    return tuple(
        commands_of(
            Proof(row["file"], row["offset"], row["connection"], 0, row["correlation_id"])
            for row in rows
        )
    )


def _joined_commands(proofs: Iterable[Any]) -> tuple[str, str]:
    """Return the commands of kafkalite and those of tshark, one of each for a capture."""
    found = commands(proofs)
    own = [each for each in found if each.startswith("kafkalite ")]
    return "; ".join(own), "; ".join(each for each in found if each not in own)


def _display(column: str, value: object) -> object:
    """Return a value for display: error codes become names."""
    return error_name(value) if column == "error" and isinstance(value, int) else value
