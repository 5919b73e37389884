"""The columns for the time of a request and its response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column

SPAN: Final = (
    ("start_us", "bigint", "time of the request in microseconds since the Unix epoch"),
    ("end_us", "bigint", "time of the response; null without a response"),
    ("connection", "bigint", "number of the connection"),
    ("position", "bigint", "position of the request in its file; orders equal times"),
)
"""The columns of an event's time."""

UNANSWERED_US: Final = 60_000_000
"""A request without a response counts as in flight for this time."""


def span() -> list[Column]:
    """Return the columns of `SPAN` from those of an envelope."""
    return [
        f.unix_micros("ts").alias("start_us"),
        f.unix_micros("answered").alias("end_us"),
        f.col("connection"),
        f.col("offset").alias("position"),
    ]


def moment(column: str) -> Column:
    """Return a column of microseconds as a timestamp."""
    return f.timestamp_micros(f.col(column))


def field(path: str, otherwise: str) -> str:
    """Return SQL for a field with a default for versions that lack it."""
    return f"coalesce({path}, {otherwise})"
