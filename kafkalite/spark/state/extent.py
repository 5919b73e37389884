"""From when until when a capture tells anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkalite.spark.requests import Requests


EXTENT = table(
    "extent",
    "The one row of a capture's first and last moment: microseconds since the Unix epoch",
    ("first_us", "bigint", "when its first request came; null for a capture of nothing"),
    ("last_us", "bigint", "when its last request came or its last answer went"),
)


def extent(requests: Requests) -> DataFrame:
    """Return from when until when there is anything, as `EXTENT`."""
    return requests.envelopes().agg(
        f.min(f.unix_micros("ts")).alias("first_us"),
        f.max(f.greatest(f.unix_micros("ts"), f.unix_micros("answered"))).alias("last_us"),
    )
