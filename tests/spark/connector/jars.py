"""Spark's own Kafka connector as jars, fetched from Maven Central once per machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.oracle.built import built_once, run_build
from tests.oracle.requirements import program

_POM = Path(__file__).parent / "pom.xml"


def connector_jars() -> list[Path]:
    """Return the connector's jars; LackingError without Maven."""
    maven = program("mvn")

    def fetch(directory: Path) -> None:
        goal = "dependency:copy-dependencies"
        where = f"-DoutputDirectory={directory}"
        run_build([maven, "-q", "-B", "-f", str(_POM), goal, where], directory)

    return sorted(built_once("spark-connector", [_POM], fetch).glob("*.jar"))


def application_environment() -> dict[str, str]:
    """Return the environment in which `python application.py` is a Spark application here."""
    options = (
        *("--jars", ",".join(map(str, connector_jars()))),
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
