"""The report of a run's tables: found, summed up and written beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.spark.audits import AUDITS, STATES, TABLES, AuditOptions
from kafkalite.spark.places import place
from kafkalite.spark.report import FILE, write_report
from kafkalite.spark.requests import Requests
from tests.spark.truth.crew import Topics
from tests.spark.truth.haunted import ghosts
from tests.spark.truth.stage import Stage, typed_tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_report_says_what_the_tables_say(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "broker", 1, {"offsets.topic.num.partitions": "1"})
    ghosts(stage, Topics(stage), "x")
    options = AuditOptions()
    requests = Requests.of_tables(
        spark, typed_tables(stage.said), derive=lambda every, name: STATES[name](every, options)
    )
    out = tmp_path / "out"
    for name in ("members", "health"):
        for table, frame in AUDITS[name].tables(requests, options).items():
            frame.write.parquet(str(out / "audits" / table))
    write_report(spark, place(str(out)))
    page = (out / FILE).read_text()
    assert "4 ghosts kept partitions waiting" in page
    assert "x/vanished" in page
    assert f"{len(stage.said):,} requests" in page
    assert "Stale metadata" not in page
    assert set(TABLES) >= {"ghosts", "latency"}
