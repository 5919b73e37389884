"""The report, written from the tables of audits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.spark.audits import AUDITS, TABLES, AuditOptions
from kafkalite.lab.spark.dataframes import local_engine
from kafkalite.lab.spark.locations import Location, location
from kafkalite.lab.spark.report import FILE, write_report
from tests.spark.truth.ghost_members import ghosts
from tests.spark.truth.requests_in_files import laid_out
from tests.spark.truth.simulation import Stage
from tests.spark.truth.tracked_group import Topics

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark


def test_report_shows_rows_of_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local engine computes the tables; `test_local_engine.py` compares its reports."""
    stage = Stage(tmp_path / "broker", 1, {"offsets.topic.num.partitions": "1"})
    ghosts(stage, Topics(stage), "x")
    options = AuditOptions()
    out = tmp_path / "out"
    with local_engine() as session:
        requests = laid_out(session, stage.exchanges, tmp_path / "laid-out", options)
        for name in ("members", "health"):
            for table, frame in AUDITS[name].compute(requests, options).items():
                frame.write.parquet(str(out / "audits" / table / "part.parquet"))
        files = [*location(str(out)).walk()]
        (out / "audits/ghosts/uncommitted.parquet").write_text("of an interrupted run")
        monkeypatch.delattr(Location, "walk")  # it takes long in a store
        write_report(session, location(str(out)), files)
    page = (out / FILE).read_text()
    assert "4 ghosts blocked partitions" in page
    assert "x/vanished" in page
    assert f"{len(stage.exchanges):,} requests" in page
    assert "Metadata and positions" not in page
    assert set(TABLES) >= {"ghosts", "latency"}
