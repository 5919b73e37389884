"""Copies of rows by time; `test_periods` has whole batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.lab.spark.follow.row_copies import RowCopy, copy_in_task
from kafkalite.lab.spark.locations import location

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("is_whole", "expected"), [(False, [2, 3]), (True, [1, 2, 3, 4])])
def test_rows_in_a_range_of_time_are_copied(
    tmp_path: Path,
    is_whole: bool,  # noqa: FBT001
    expected: list[int],
) -> None:
    times = pa.array([1, 2, 3, 4], pa.timestamp("us", "UTC"))
    parquet.write_table(pa.table({"ts": times, "row": [1, 2, 3, 4]}), tmp_path / "source")
    target = location(str(tmp_path / "folder/target"))
    copy = RowCopy(location(str(tmp_path / "source")), target, 2, 4, is_whole)
    indexes = pa.RecordBatch.from_arrays([pa.array([0])], ["id"])
    assert [*copy_in_task([indexes], [copy])] == []
    assert parquet.read_table(target.path)["row"].to_pylist() == expected
