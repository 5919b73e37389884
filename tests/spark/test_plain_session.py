"""A Spark session that is not of our making reads captures, whatever Python the PATH offers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from kafkalite.ports.cache import cache_folder
from kafkalite.spark.jvm import java_home
from tests.captures.record import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys

from pyspark.sql import SparkSession

import kafkalite.spark

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
kafkalite.spark.register(spark)
commits = spark.read.format("kafkalite.capture").option("api", "OffsetCommit").load(sys.argv[1])
print("commits:", commits.count() > 0)
"""


def test_a_local_session_runs_the_python_that_registers(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho this Python has no kafkalite >&2\nexit 3\n")
    other.chmod(0o755)
    environ = {key: told for key, told in os.environ.items() if key != "PYSPARK_PYTHON"}
    environ["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    home = java_home(os.environ, cache_folder(os.environ))
    if home is not None:
        environ["JAVA_HOME"] = str(home)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(CORPUS)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "commits: True", done.stderr
