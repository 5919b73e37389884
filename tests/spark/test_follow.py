"""A capture audited as it grows says what one audit of all of it says, restarts and all."""

# ruff: noqa: S311 - chance is to be repeatable
from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.spark.audits import AuditOptions
from kafkalite.spark.follow import Follower
from kafkalite.spark.following import Decoding, Subject
from kafkalite.spark.pipeline import Job, audit
from kafkalite.spark.places import place
from kafkalite.spark.sources.growing import Stretch
from tests.spark.truth import changed, fenced, lingering, rebalanced
from tests.spark.truth.crew import Topics
from tests.spark.truth.desk import interpreted
from tests.spark.truth.recorded import record
from tests.spark.truth.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.spark.requests import Requests

pytestmark = pytest.mark.spark

OPTIONS = AuditOptions(session_timeout_ms=8_000)
SETTINGS = {"offsets.topic.num.partitions": "1", **lingering.SETTINGS}
STORIES = [
    pytest.param(1, 1, 2, id="one-group"),
    *(
        pytest.param(
            seed,
            3,
            12,
            id=f"groups-{seed}",
            marks=[pytest.mark.endurance, pytest.mark.timeout(900)],
        )
        for seed in range(2, 5)
    ),
]


@pytest.fixture(autouse=True)
def _quickly(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


class Found(NamedTuple):
    """What audits come to."""

    judged: list[str]
    cases: list[str]
    totals: list[str]
    ghosts: list[str]


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def at_once(spark: SparkSession, folder: Path, out: Path) -> Found:
    """Audit the whole of a capture."""
    audits = ("fencing", "members")
    audit(spark, Job(inputs=(str(folder),), out=str(out), audits=audits, audit_options=OPTIONS))

    def read(name: str) -> DataFrame:
        return spark.read.parquet(str(out / name))

    judged = read("state/judged_commits").unionByName(read("state/judged_by_generation"))
    made = ("fencing_cases", "fencing_totals", "ghosts")
    return Found(rows_of(judged), *(rows_of(read(f"audits/{name}")) for name in made))


class Followed:
    """A follower that is started anew before each batch."""

    def __init__(self, spark: SparkSession, out: Path, patience_us: int) -> None:
        self._spark = spark
        self._out = place(str(out))
        self._patience_us = patience_us

    def take(self, pieces: list[Stretch], number: int) -> None:
        """Take a batch in."""
        self._decoding().take(self._spark, pieces, number)

    def finish(self) -> Found:
        """Expect nothing more."""
        self._decoding().finish()
        return self.found()

    def found(self) -> Found:
        follower = Follower(self._spark, self._out, OPTIONS)
        found = (follower.judged(), follower.cases(), follower.totals(), follower.ghosts())
        return Found(*map(rows_of, found))

    def _decoding(self) -> Decoding:
        follower = Follower(self._spark, self._out, OPTIONS, patience_us=self._patience_us)

        def absorb(
            requests: Requests,
            number: int,
            pending_us: Mapping[int, int],
            is_last: bool,  # noqa: FBT001
        ) -> None:
            follower.absorb(requests, number, pending_us, is_last=is_last)

        return Decoding(self._spark, Subject(inputs=(), out=self._out), absorb)


def batches(paths: list[Path], dice: Random, count: int) -> Iterator[list[Stretch]]:
    """Cut what files say, one after the other, into batches at any byte."""
    sizes = [path.stat().st_size for path in paths]
    cuts = sorted(dice.randrange(1, sum(sizes)) for _ in range(count - 1))
    at = 0
    for cut in [*cuts, sum(sizes)]:
        pieces, begin = [], 0
        for path, size in zip(paths, sizes, strict=True):
            start, stop = max(at - begin, 0), min(cut - begin, size)
            is_over = cut >= begin + size
            if start < size and stop > start:
                pieces.append(Stretch(str(path), start, None if is_over else stop, stop - start))
            begin += size
        yield pieces
        at = cut


def everything(stage: Stage, groups: int) -> None:
    """Let groups of both protocols be there, some for a while of one and then of the other."""
    topics, prefix = Topics(stage), "followed"
    truth = fenced.commits(stage, topics, prefix, groups=groups)
    by_generation = rebalanced.commits(stage, prefix)
    changed.commits(stage, topics, prefix, truth, by_generation)
    lingering.ghosts(stage, prefix)


@pytest.mark.parametrize(("seed", "groups", "count"), STORIES)
def test_batches_come_to_what_the_whole_comes_to(
    spark: SparkSession, tmp_path: Path, seed: int, groups: int, count: int
) -> None:
    stage = Stage(tmp_path / "broker", seed, SETTINGS)
    everything(stage, groups)
    paths = record(stage.said, tmp_path / "captures")
    expected = at_once(spark, tmp_path / "captures", tmp_path / "whole")

    followed = Followed(spark, tmp_path / "followed", patience_us=9_000_000)
    for number, pieces in enumerate(batches(paths, Random(seed), count)):
        for _ in range(1 + (number == 2)):  # the third batch is done twice
            followed.take(pieces, number)
    before = followed.found()
    # What nothing can matter to any more is judged at once, and for good.
    assert before.judged
    assert set(before.judged) <= set(expected.judged)
    assert followed.finish() == expected
