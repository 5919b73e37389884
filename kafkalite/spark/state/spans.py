"""When a request came and when it was answered: the columns every event of state begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column

SPAN: Final = (
    ("start_us", "bigint", "when the request came: microseconds since the Unix epoch"),
    ("end_us", "bigint", "when its answer went; null without one"),
    ("connection", "bigint", "the connection it came by"),
    ("position", "bigint", "where in its file it stands: what came first of one moment"),
)
"""The columns of an event's time, for a table of events."""

UNANSWERED_US: Final = 60_000_000
"""For so long a request without an answer is taken to be under way."""


def span() -> list[Column]:
    """Return the columns of `SPAN`, from those of an envelope."""
    return [
        f.unix_micros("ts").alias("start_us"),
        f.unix_micros("answered").alias("end_us"),
        f.col("connection"),
        f.col("offset").alias("position"),
    ]


def moment(column: str) -> Column:
    """Return a time again, of a column of microseconds."""
    return f.timestamp_micros(f.col(column))


def field(path: str, otherwise: str) -> str:
    """Return SQL for a field that not every version has, with what its lack stands for."""
    return f"coalesce({path}, {otherwise})"
