"""The environment of an application with Spark's own Kafka connector."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.spark.jars import jars

_POM = Path(__file__).parent / "pom.xml"


def application_environment() -> dict[str, str]:
    """Return the environment in which `python application.py` runs as a Spark application."""
    options = (
        *("--jars", ",".join(map(str, jars("spark-connector", _POM)))),
        *("--master", "local[2]", "--driver-memory", "1g"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"),
        *("--conf", "spark.ui.showConsoleProgress=false"),
        *("--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    )
    submitted = " ".join(f'"{option}"' if " " in option else option for option in options)
    return {
        **os.environ,
        "PYSPARK_SUBMIT_ARGS": f"{submitted} pyspark-shell",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
