"""The data source of data directories: records of any topic, and tables of internal topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.lab.spark import register
from kafkalite.lab.spark.sources.folder_stream import FileState
from kafkalite.lab.spark.sources.log import NAME, LogReader
from kafkalite.lab.spark.sources.options import OptionError
from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkalite.storage.batch import build_batch
from kafkalite.storage.record_format import NewRecord

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
    value_ = OffsetCommitValue(offset=offset, commit_timestamp=START_MS)
    return NewRecord(codec.encode_key(key), codec.encode_value(value_, 3), START_MS)


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
    segments = LogReader({"path": str(folder), **{k.rstrip("_"): v for k, v in options.items()}})
    batches = [batch for file in segments.find() for batch in segments.read(file.url)]
    # Java trusts the schema: it would read garbage for a null in such a column.
    assert not any(
        column.null_count
        for batch in batches
        for field, column in zip(batch.schema, batch.columns, strict=True)
        if not field.nullable
    )
    return [row for batch in batches for row in batch.to_pylist()]


def positions(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def test_records_are_filtered_by_topic_and_partition(data: Path) -> None:
    orders = [("orders", 0, 0), ("orders", 0, 1), ("orders", 0, 2), ("orders", 1, 0)]
    assert positions(rows_of(data, topic="ord*")) == orders
    assert positions(rows_of(data, topic="orders", partition="1")) == orders[3:]
    assert len(rows_of(data)) == len(orders) + 2


def test_internal_topic_is_a_typed_table(data: Path) -> None:
    found = rows_of(data, table="offset_commit")
    assert [(row["key"]["group"], row["value"]["offset"]) for row in found] == [("g", 5), ("h", 6)]


def test_times_and_columns_can_be_selected(data: Path) -> None:
    found = rows_of(data, topic="orders", from_="2023-11-14T22:13:20.002Z", columns="offset,topic")
    assert found == [{"offset": 2, "topic": "orders"}, {"offset": 0, "topic": "orders"}]


def test_truncated_segment_is_a_problem_and_the_rest_is_read(data: Path) -> None:
    torn = data / "orders-1" / f"{0:020}.log"
    torn.write_bytes(torn.read_bytes()[:-3])
    assert len(rows_of(data, topic="orders")) == 3
    [problem] = rows_of(data, topic="orders", table="problems")
    assert problem["file"] == str(torn)


def test_missing_segment_is_a_problem(data: Path) -> None:
    segments = LogReader({"path": str(data), "table": "problems"})
    gone = f"{data}/orders-9/{0:020}.log"
    [problem] = [row for batch in segments.read(gone) for row in batch.to_pylist()]
    assert (problem["kind"], problem["file"]) == ("unreadable", gone)


def test_last_segment_is_never_complete(data: Path) -> None:
    segments = LogReader({"path": str(data)})
    assert {segments.file_state(file) for file in segments.find()} == {FileState.DEFERRED}


def test_unknown_table_is_refused() -> None:
    with pytest.raises(OptionError, match="offset_commit"):
        LogReader({"path": "data", "table": "offsets"})


@pytest.mark.spark
def test_spark_reads_data_directories(spark: SparkSession, data: Path) -> None:
    register(spark)
    reader = spark.read.format(NAME)
    commits = reader.option("table", "offset_commit").load(str(data))
    rows = commits.select("key.group", "value.offset").collect()
    assert sorted((row.group, row.offset) for row in rows) == [("g", 5), ("h", 6)]
    records = spark.read.format(NAME).option("topic", "orders").load(str(data))
    assert records.count() == 4
