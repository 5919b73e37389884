"""The data source of captures: batches, streams, and filters that must not be pushed down."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark import register
from kafkalite.lab.spark.sources.capture import NAME, CaptureSource
from kafkalite.lab.spark.sources.options import OptionError
from kafkalite.lab.spark.sources.rows import CaptureReader
from kafkalite.lab.spark.stages import file_splitting
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

COMMITS = {"api": "OffsetCommit"}


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    made = write(folder, 300_000, connections=7, file_bytes=100_000)
    assert len(made.files) >= 3
    return folder


@pytest.fixture
def reading(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def expected(folder: Path) -> list[tuple[int, int, str]]:
    rows = CaptureReader(COMMITS)
    return sorted(
        (row["connection"], row["correlation_id"], row["request"]["group_id"])
        for path in sorted(folder.iterdir())
        for batch in rows.read(str(path))
        for row in batch.to_pylist()
    )


def offsets(batches: Iterator[Any]) -> list[int]:
    return [row for batch in batches for row in batch["offset"].to_pylist()]


def found(frame: DataFrame) -> list[tuple[int, int, str]]:
    return sorted(
        (row.connection, row.correlation_id, row.group_id)
        for row in frame.select("connection", "correlation_id", "request.group_id").collect()
    )


def test_filters_are_never_pushed_down() -> None:
    """Spark 4.3 applies pushed filters to later queries on the same table too."""
    reader = CaptureSource({"path": "nowhere", **COMMITS}).reader(
        CaptureSource({"path": "nowhere", **COMMITS}).schema()
    )
    assert type(reader).pushFilters is DataSourceReader.pushFilters


def test_schema_with_other_types_is_refused_before_reading() -> None:
    source = CaptureSource({"path": "nowhere", **COMMITS})
    with pytest.raises(OptionError, match="ts:timestamp"):
        source.reader(StructType().add("ts", "string"))


def test_huge_file_is_read_by_several_tasks_with_option_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_splitting, "MIN_PART_BYTES", 1 << 18)
    made = write(tmp_path, 3_000_000, connections=7)
    whole, parted = (
        [offsets(reader.read(partition)) for partition in reader.partitions()]
        for options in ({}, {"parts": "true"})
        for source in [CaptureSource({"path": str(tmp_path), "table": "envelopes", **options})]
        for reader in [source.reader(source.schema())]
    )
    assert len(whole) == 1
    assert len(parted) > 4
    assert sorted(offset for part in parted for offset in part) == sorted(whole[0])
    assert len(whole[0]) == made.frames // 2


@pytest.mark.spark
def test_batch_reads_all_files(reading: SparkSession, captures: Path) -> None:
    frame = reading.read.format(NAME).options(**COMMITS, bytesPerTask="1").load(str(captures))
    assert frame.columns == tables.requests(8).names
    assert frame.rdd.getNumPartitions() == len([*captures.iterdir()])
    assert found(frame) == expected(captures)


@pytest.mark.spark
def test_queries_with_and_without_a_filter_agree(reading: SparkSession, captures: Path) -> None:
    frame = reading.read.format(NAME).options(**COMMITS).load(str(captures))
    whole = frame.count()
    one = frame.first()
    assert one is not None
    some = frame.filter(frame.connection == one.connection)
    assert 0 < some.count() < whole
    assert frame.count() == whole
    assert some.union(frame).count() == some.count() + whole


@pytest.mark.spark
def test_schema_selects_columns(reading: SparkSession, captures: Path) -> None:
    reader = reading.read.format(NAME).schema("ts timestamp, connection long")
    assert reader.options(**COMMITS).load(str(captures)).count() == len(expected(captures))


@pytest.mark.spark
def test_folder_without_files_is_an_empty_table(reading: SparkSession, tmp_path: Path) -> None:
    assert reading.read.format(NAME).load(str(tmp_path)).count() == 0


@pytest.mark.spark
def test_problems_are_a_table(reading: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    frame = reading.read.format(NAME).option("table", "problems").load(str(tmp_path / "empty"))
    assert frame.columns == tables.PROBLEMS.names


@pytest.mark.spark
def test_stream_reads_each_file_once_across_restarts(
    reading: SparkSession, captures: Path, tmp_path: Path
) -> None:
    files = sorted(captures.iterdir())
    growing = tmp_path / "growing"
    growing.mkdir()

    def run() -> None:
        stream = (
            reading.readStream.format(NAME)
            .options(**COMMITS, maxFilesPerTrigger="1", open="read")
            .load(str(growing))
        )
        query = (
            stream.select("connection", "correlation_id", "request.group_id")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    for path in files[:2]:
        shutil.copy(path, growing)
    run()
    for path in files[2:]:
        shutil.copy(path, growing)
    run()
    rows = reading.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((r.connection, r.correlation_id, r.group_id) for r in rows) == expected(captures)
