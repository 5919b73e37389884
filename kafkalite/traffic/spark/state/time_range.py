"""The time range of a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.traffic.spark.dataframes import functions as f
from kafkalite.traffic.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkalite.traffic.spark.requests import Requests


TIME_RANGE = table(
    "time_range",
    "The first and last time in a capture, one row, in microseconds since the Unix epoch",
    ("first_us", "bigint", "time of the first request; null for an empty capture"),
    ("last_us", "bigint", "time of the last request or response"),
)


def time_range(requests: Requests) -> DataFrame:
    """Return the time range of all requests and responses, as `TIME_RANGE`."""
    return requests.envelopes().agg(
        f.min(f.unix_micros("ts")).alias("first_us"),
        f.max(f.greatest(f.unix_micros("ts"), f.unix_micros("response_ts"))).alias("last_us"),
    )
