"""The data pipeline: captures and logs as Spark tables, and the audits over them.

Nothing else in kafkalite imports pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Let a session read `kafkalite.capture` and `kafkalite.log`, in batches and as streams."""
    # Imported here: nothing of Spark is needed to import what its workers run.
    from kafkalite.spark.sources.capture import CaptureSource  # noqa: PLC0415
    from kafkalite.spark.sources.log import LogSource  # noqa: PLC0415

    spark.dataSource.register(CaptureSource)
    spark.dataSource.register(LogSource)
