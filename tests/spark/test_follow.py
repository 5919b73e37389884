"""Following a growing capture gives the results of one audit of the whole, despite restarts."""

# ruff: noqa: S311 - seeded randomness
from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyarrow import parquet

from kafkalite.lab.spark.audits import AUDITS, PERIODIC_AUDITS, AuditOptions
from kafkalite.lab.spark.follow.audits import IncrementalAudits
from kafkalite.lab.spark.follow.periods import PeriodAudits
from kafkalite.lab.spark.follow.stream import BatchDecoder, FollowedCapture
from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.pipeline import Job, audit
from kafkalite.lab.spark.progress import SilentReporter
from kafkalite.lab.spark.sources.folder_stream import FileRange
from tests.spark.truth import classic_ghosts, classic_groups, commit_fencing, group_migration
from tests.spark.truth.recorded_exchanges import record
from tests.spark.truth.requests_in_files import interpreted
from tests.spark.truth.simulation import Stage
from tests.spark.truth.tracked_group import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.lab.spark.requests import Requests

pytestmark = pytest.mark.spark

OPTIONS = AuditOptions(session_timeout_ms=8_000)
SETTINGS = {"offsets.topic.num.partitions": "1", **classic_ghosts.SETTINGS}
SCENARIOS = [
    pytest.param(1, 1, 2, ("members",), id="one-group", marks=pytest.mark.timeout(600)),
    *(
        pytest.param(
            seed,
            3,
            12,
            PERIODIC_AUDITS,
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


_CENTURY_US = 100 * 365 * 24 * 3_600_000_000


class Results(NamedTuple):
    """Results of the audits."""

    classified: list[str]
    cases: list[str]
    totals: list[str]
    ghosts: list[str]


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def audit_at_once(spark: SparkSession, folder: Path, out: Path, audits: tuple[str, ...]) -> Results:
    """Audit the whole of a capture."""
    names = tuple(sorted({"fencing", "members", *audits}))
    audit(spark, Job(inputs=(str(folder),), out=str(out), audits=names, audit_options=OPTIONS))

    def read(name: str) -> DataFrame:
        return spark.read.parquet(str(out / name))

    classified = read("state/classified_commits").unionByName(
        read("state/classified_by_generation")
    )
    names = ("fencing_cases", "fencing_totals", "ghosts")
    return Results(rows_of(classified), *(rows_of(read(f"audits/{name}")) for name in names))


class RestartedAudits:
    """A follower that is recreated before each batch, as after a restart."""

    def __init__(
        self, spark: SparkSession, out: Path, max_delay_us: int, audits: tuple[str, ...]
    ) -> None:
        self._spark = spark
        self._audits = audits
        self._out = location(str(out))
        self._max_delay_us = max_delay_us

    def take(self, ranges: list[FileRange], number: int) -> None:
        """Take one batch."""
        self._batch_decoder().decode(self._spark, ranges, number)

    def finish(self) -> Results:
        """End the capture."""
        self._batch_decoder().finish()
        return self.found()

    def found(self) -> Results:
        follower = IncrementalAudits(self._spark, self._out, OPTIONS)
        classified = follower.classified().drop("proofs")  # the table of an audit has none
        found = (classified, follower.cases(), follower.totals(), follower.ghosts())
        return Results(*map(rows_of, found))

    def _batch_decoder(self) -> BatchDecoder:
        follower = IncrementalAudits(
            self._spark, self._out, OPTIONS, max_delay_us=self._max_delay_us
        )

        def audit_batch(
            requests: Requests,
            number: int,
            pending_us: Mapping[int, int],
            is_last: bool,  # noqa: FBT001
        ) -> None:
            follower.audit_batch(requests, number, pending_us, is_last=is_last)

        periods = PeriodAudits(
            self._spark,
            self._out,
            OPTIONS,
            SilentReporter(),
            lambda: -1,
            period_us=_CENTURY_US,
            audits=self._audits,
        )
        capture = FollowedCapture(inputs=(), out=self._out, periods=periods)
        return BatchDecoder(self._spark, capture, audit_batch)


def audit_tables(out: Path) -> dict[str, list[str]]:
    """Return the rows of all audit tables."""
    return {
        folder.name: sorted(map(str, parquet.read_table(folder).to_pylist()))
        for folder in out.glob("audits/*")
    }


def batches(paths: list[Path], dice: Random, count: int) -> Iterator[list[FileRange]]:
    """Split the bytes of the files, in order, into batches at random positions."""
    sizes = [path.stat().st_size for path in paths]
    cuts = sorted(dice.randrange(1, sum(sizes)) for _ in range(count - 1))
    at = 0
    for cut in [*cuts, sum(sizes)]:
        ranges, file_start = [], 0
        for path, size in zip(paths, sizes, strict=True):
            start, stop = max(at - file_start, 0), min(cut - file_start, size)
            is_over = cut >= file_start + size
            if start < size and stop > start:
                ranges.append(FileRange(str(path), start, None if is_over else stop, stop - start))
            file_start += size
        yield ranges
        at = cut


def run_all_scenarios(stage: Stage, groups: int) -> None:
    """Run scenarios with groups of both protocols, some of which migrate."""
    topics, prefix = Topics(stage), "followed"
    truth = commit_fencing.commits(stage, topics, prefix, groups=groups)
    by_generation = classic_groups.commits(stage, prefix)
    group_migration.commits(stage, topics, prefix, truth, by_generation)
    classic_ghosts.ghosts(stage, prefix)


@pytest.mark.parametrize(("seed", "groups", "count", "audits"), SCENARIOS)
def test_batches_give_the_results_of_the_whole(  # noqa: PLR0917 - one scenario
    spark: SparkSession,
    tmp_path: Path,
    seed: int,
    groups: int,
    count: int,
    audits: tuple[str, ...],
) -> None:
    stage = Stage(tmp_path / "broker", seed, SETTINGS)
    run_all_scenarios(stage, groups)
    paths = record(stage.exchanges, tmp_path / "captures")
    expected = audit_at_once(spark, tmp_path / "captures", tmp_path / "whole", audits)

    followed = RestartedAudits(spark, tmp_path / "followed", 9_000_000, audits)
    for number, ranges in enumerate(batches(paths, Random(seed), count)):
        for _ in range(1 + (number == 2)):  # the third batch is repeated
            followed.take(ranges, number)
    before = followed.found()
    # Commits that later requests cannot affect are classified in their batch.
    assert before.classified
    assert set(before.classified) <= set(expected.classified)
    assert followed.finish() == expected
    period = min((tmp_path / "followed/periods").iterdir())  # the next one has no requests
    whole, of_period = audit_tables(tmp_path / "whole"), audit_tables(period)
    assert of_period.keys() == {table.name for name in audits for table in AUDITS[name].tables}
    assert of_period == {name: whole[name] for name in of_period}
