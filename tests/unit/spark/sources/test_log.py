"""Data directories as Spark reads them: records of any topic, and what coordinators keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol import codec
from kafkalite.protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkalite.spark import register
from kafkalite.spark.sources.asking import OptionError
from kafkalite.spark.sources.growing import Standing
from kafkalite.spark.sources.log import NAME, Segments
from kafkalite.storage.batch import build_batch
from kafkalite.storage.records import NewRecord

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

START_MS = 1_700_000_000_000


def segment(folder: Path, partition: str, base: int, *records: NewRecord) -> Path:
    path = folder / partition / f"{base:020}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(build_batch([*records], base_offset=base))
    return path


def value(number: int) -> NewRecord:
    return NewRecord(b"%d" % number, b"v%d" % number, START_MS + number)


def commit(group: str, offset: int) -> NewRecord:
    key = OffsetCommitKey(group=group, topic="orders", partition=0)
    said = OffsetCommitValue(offset=offset, commit_timestamp=START_MS)
    return NewRecord(codec.encode_key(key), codec.encode_value(said, 3), START_MS)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    segment(folder, "orders-0", 0, value(0), value(1))
    segment(folder, "orders-0", 2, value(2))
    segment(folder, "orders-1", 0, value(7))
    segment(folder, "__consumer_offsets-3", 0, commit("g", 5), commit("h", 6))
    (folder / "meta.properties").write_text("version=1")
    return folder


def rows_of(folder: Path, **options: str) -> list[dict[str, Any]]:
    asked = Segments({"path": str(folder), **{k.rstrip("_"): v for k, v in options.items()}})
    batches = [batch for file in asked.find() for batch in asked.of(file.url)]
    # Java does not look: it would take a null for whatever bytes are there.
    assert not any(
        column.null_count
        for batch in batches
        for field, column in zip(batch.schema, batch.columns, strict=True)
        if not field.nullable
    )
    return [row for batch in batches for row in batch.to_pylist()]


def places(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def test_records_are_of_the_topics_and_partitions_asked_for(data: Path) -> None:
    orders = [("orders", 0, 0), ("orders", 0, 1), ("orders", 0, 2), ("orders", 1, 0)]
    assert places(rows_of(data, topic="ord*")) == orders
    assert places(rows_of(data, topic="orders", partition="1")) == orders[3:]
    assert len(rows_of(data)) == len(orders) + 2


def test_what_a_coordinator_keeps_is_a_table_of_its_own(data: Path) -> None:
    found = rows_of(data, table="offset_commit")
    assert [(row["key"]["group"], row["value"]["offset"]) for row in found] == [("g", 5), ("h", 6)]


def test_times_and_columns_can_be_chosen(data: Path) -> None:
    found = rows_of(data, topic="orders", from_="2023-11-14T22:13:20.002Z", columns="offset,topic")
    assert found == [{"offset": 2, "topic": "orders"}, {"offset": 0, "topic": "orders"}]


def test_what_is_torn_is_told_and_the_rest_is_read(data: Path) -> None:
    torn = data / "orders-1" / f"{0:020}.log"
    torn.write_bytes(torn.read_bytes()[:-3])
    assert len(rows_of(data, topic="orders")) == 3
    [problem] = rows_of(data, topic="orders", table="problems")
    assert problem["file"] == str(torn)


def test_a_segment_that_is_gone_is_told(data: Path) -> None:
    asked = Segments({"path": str(data), "table": "problems"})
    gone = f"{data}/orders-9/{0:020}.log"
    [problem] = [row for batch in asked.of(gone) for row in batch.to_pylist()]
    assert (problem["kind"], problem["file"]) == ("unreadable", gone)


def test_the_segment_that_is_written_to_is_never_complete(data: Path) -> None:
    asked = Segments({"path": str(data)})
    assert {asked.standing(file) for file in asked.find()} == {Standing.WAITS}


def test_a_table_that_is_not_there_is_refused() -> None:
    with pytest.raises(OptionError, match="offset_commit"):
        Segments({"path": "data", "table": "offsets"})


@pytest.mark.spark
def test_spark_reads_them(spark: SparkSession, data: Path) -> None:
    register(spark)
    reader = spark.read.format(NAME)
    commits = reader.option("table", "offset_commit").load(str(data))
    rows = commits.select("key.group", "value.offset").collect()
    assert sorted((row.group, row.offset) for row in rows) == [("g", 5), ("h", 6)]
    records = spark.read.format(NAME).option("topic", "orders").load(str(data))
    assert records.count() == 4
