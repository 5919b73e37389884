"""A capture audited as it grows says what one audit of all of it says, restarts and all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.spark.audits import STATES, AuditOptions
from kafkalite.spark.audits.fencing import totals
from kafkalite.spark.audits.members import ghosts as found_ghosts
from kafkalite.spark.follow import ENDS, Follower
from kafkalite.spark.places import place
from kafkalite.spark.requests import Requests
from kafkalite.spark.state.extent import extent
from kafkalite.spark.state.signs import signs
from tests.spark.truth.crew import Topics
from tests.spark.truth.fenced import commits
from tests.spark.truth.stage import Stage, typed_tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.truth.stage import Said

pytestmark = pytest.mark.spark

OPTIONS = AuditOptions(session_timeout_ms=8_000)
BATCHES = 3


def requests_of(spark: SparkSession, said: list[Said]) -> Requests:
    return Requests.of_tables(
        spark, typed_tables(said), derive=lambda every, name: STATES[name](every, OPTIONS).cache()
    )


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def test_batches_come_to_what_the_whole_comes_to(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "broker", 3, {"offsets.topic.num.partitions": "1"})
    commits(stage, Topics(stage), "followed", groups=2)
    whole = requests_of(spark, stage.said)
    expected = whole.state("judged_commits")

    out = place(str(tmp_path / "followed"))
    size = len(stage.said) // BATCHES + 1
    for number in range(BATCHES):
        # A new one each time, as after a restart; the second batch is done twice.
        batch = requests_of(spark, stage.said[number * size : (number + 1) * size])
        for _ in range(1 + (number == 1)):
            Follower(spark, out, OPTIONS, patience_us=9_000_000).absorb(batch, number)
    follower = Follower(spark, out, OPTIONS)
    before = follower.judged().count()
    assert 0 < before < expected.count()
    follower.finish()

    assert rows_of(follower.judged()) == rows_of(expected)
    ends = ENDS.empty(spark)
    assert rows_of(follower.totals()) == rows_of(totals(expected, ends))
    ghosts = found_ghosts(
        signs(whole), whole.state("holdings"), extent(whole), OPTIONS.session_timeout_ms
    )
    assert rows_of(follower.ghosts()) == rows_of(ghosts)
