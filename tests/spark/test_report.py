"""The report, written from the tables of audits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.spark.audits import AUDITS, STATES, TABLES, AuditOptions
from kafkalite.lab.spark.locations import Location, location
from kafkalite.lab.spark.report import FILE, write_report
from kafkalite.lab.spark.requests import Requests
from tests.spark.truth.ghost_members import ghosts
from tests.spark.truth.simulation import Stage, typed_tables
from tests.spark.truth.tracked_group import Topics

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_report_shows_rows_of_the_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path / "broker", 1, {"offsets.topic.num.partitions": "1"})
    ghosts(stage, Topics(stage), "x")
    options = AuditOptions()
    requests = Requests.of_tables(
        spark,
        typed_tables(stage.exchanges),
        derive=lambda every, name: STATES[name].compute(every, options),
    )
    out = tmp_path / "out"
    for name in ("members", "health"):
        for table, frame in AUDITS[name].compute(requests, options).items():
            frame.write.parquet(str(out / "audits" / table))
    files = [*location(str(out)).walk()]
    (out / "audits/ghosts/uncommitted.parquet").write_text("of an interrupted run")
    monkeypatch.delattr(Location, "walk")  # it takes long in a store
    write_report(spark, location(str(out)), files)
    page = (out / FILE).read_text()
    assert "4 ghosts blocked partitions" in page
    assert "x/vanished" in page
    assert f"{len(stage.exchanges):,} requests" in page
    assert "Stale metadata" not in page
    assert set(TABLES) >= {"ghosts", "latency"}
