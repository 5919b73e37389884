"""The columns for the time of a request and its response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column

TIME_COLUMNS: Final = (
    ("start_us", "bigint", "time of the request in microseconds since the Unix epoch"),
    ("end_us", "bigint", "time of the response; null without a response"),
    ("connection", "bigint", "number of the connection"),
    ("position", "bigint", "position of the request in its file; orders equal times"),
)
"""The columns with the time of a request and its response, and their order among equal times."""

UNANSWERED_US: Final = 60_000_000
"""Time for which a request without a response counts as in flight."""


def time_columns() -> list[Column]:
    """Return the columns of `TIME_COLUMNS`, computed from those of an envelope."""
    return [
        f.unix_micros("ts").alias("start_us"),
        f.unix_micros("response_ts").alias("end_us"),
        f.col("connection"),
        f.col("offset").alias("position"),
    ]
