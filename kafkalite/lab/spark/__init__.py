"""The Spark pipeline: captures and logs as Spark tables, and the audits over them.

No other package of kafkalite imports pyspark.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register `kafkalite.capture` and `kafkalite.log` with a session, for batches and streams.

    If all tasks run on this machine and PYSPARK_PYTHON is not set, workers use the driver's Python,
    which has kafkalite. The first Python on the PATH may not have it.
    """
    # Imported here because workers import this package without Spark's session classes.
    from kafkalite.lab.spark.sources.capture import CaptureSource  # noqa: PLC0415
    from kafkalite.lab.spark.sources.log import LogSource  # noqa: PLC0415

    context: SparkContext | None = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is not None and (context.master or "").startswith("local"):
        context.pythonExec = os.environ.get("PYSPARK_PYTHON", sys.executable)
    spark.dataSource.register(CaptureSource)
    spark.dataSource.register(LogSource)
