"""A capture audited as it grows says what one audit of all of it says, restarts and all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.spark.audits import AuditOptions
from kafkalite.spark.audits.fencing import totals
from kafkalite.spark.follow import ENDS, Follower
from kafkalite.spark.places import place
from tests.spark.truth.crew import Topics
from tests.spark.truth.desk import interpreted, laid_out
from tests.spark.truth.fenced import commits
from tests.spark.truth.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

OPTIONS = AuditOptions(session_timeout_ms=8_000)
SETTINGS = {"offsets.topic.num.partitions": "1"}
STORIES = [
    pytest.param(1, 2, id="one-group"),
    pytest.param(3, 5, id="groups", marks=[pytest.mark.endurance, pytest.mark.timeout(900)]),
]


@pytest.fixture(autouse=True)
def _quickly(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


@pytest.mark.parametrize(("groups", "batches"), STORIES)
def test_batches_come_to_what_the_whole_comes_to(
    spark: SparkSession, tmp_path: Path, groups: int, batches: int
) -> None:
    stage = Stage(tmp_path / "broker", 3, SETTINGS)
    commits(stage, Topics(stage), "followed", groups=groups)
    whole = laid_out(spark, stage.said, tmp_path / "whole", OPTIONS)
    expected = whole.state("judged_commits")

    out = place(str(tmp_path / "followed"))
    size = len(stage.said) // batches + 1
    for number in range(batches):
        said = stage.said[number * size : (number + 1) * size]
        batch = laid_out(spark, said, tmp_path / f"batch-{number}", OPTIONS)
        # A new one each time, as after a restart; the second batch is done twice.
        for _ in range(1 + (number == 1)):
            Follower(spark, out, OPTIONS, patience_us=9_000_000).absorb(batch, number)
    follower = Follower(spark, out, OPTIONS)
    before = follower.judged().count()
    assert 0 < before < expected.count()
    follower.finish()

    assert rows_of(follower.judged()) == rows_of(expected)
    ends = ENDS.empty(spark)
    assert rows_of(follower.totals()) == rows_of(totals(expected, ends))
    assert rows_of(follower.ghosts()) == rows_of(whole.state("ghosts"))
