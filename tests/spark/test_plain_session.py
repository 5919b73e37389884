"""Reading captures with a plain Spark session, with any Python first on the PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from kafkalite.lab.spark.jvm import java_home
from kafkalite.ports.cache import cache_directory
from tests.captures.record import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys

from pyspark.sql import SparkSession

import kafkalite.lab.spark

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
kafkalite.lab.spark.register(spark)
commits = spark.read.format("kafkalite.capture").option("api", "OffsetCommit").load(sys.argv[1])
print("commits:", commits.count() > 0)
"""


def test_local_session_uses_the_python_that_registers(tmp_path: Path) -> None:
    wrong_python = tmp_path / "python3"
    wrong_python.write_text("#!/bin/sh\necho this Python has no kafkalite >&2\nexit 3\n")
    wrong_python.chmod(0o755)
    environ = {key: value for key, value in os.environ.items() if key != "PYSPARK_PYTHON"}
    environ["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    home = java_home(os.environ, cache_directory(os.environ))
    if home is not None:
        environ["JAVA_HOME"] = str(home)
    completed = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(CORPUS)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.stdout.strip() == "commits: True", completed.stderr
