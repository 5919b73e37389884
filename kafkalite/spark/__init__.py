"""The data pipeline: captures and logs as Spark tables, and the audits over them.

Nothing else in kafkalite imports pyspark.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Let a session read `kafkalite.capture` and `kafkalite.log`, in batches and as streams.

    Where all tasks run beside the driver and nobody chose their Python, it is the driver's own from
    now on: that one has kafkalite, and the first on the PATH may not.
    """
    # Imported here: nothing of Spark is needed to import what its workers run.
    from kafkalite.spark.sources.capture import CaptureSource  # noqa: PLC0415
    from kafkalite.spark.sources.log import LogSource  # noqa: PLC0415

    context: SparkContext | None = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is not None and (context.master or "").startswith("local"):
        context.pythonExec = os.environ.get("PYSPARK_PYTHON", sys.executable)
    spark.dataSource.register(CaptureSource)
    spark.dataSource.register(LogSource)
