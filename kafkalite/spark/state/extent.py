"""From when until when a capture tells anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkalite.spark.requests import Requests


def extent(requests: Requests) -> DataFrame:
    """Return one row: `first_us` and `last_us`, the capture's first and last moments."""
    return requests.envelopes().agg(
        f.min(f.unix_micros("ts")).alias("first_us"),
        f.max(f.greatest(f.unix_micros("ts"), f.unix_micros("answered"))).alias("last_us"),
    )
