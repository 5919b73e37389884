"""State of batches: each batch starts from the last complete one before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.lab.spark.follow.state import BatchMetadata, StoredTables
from kafkalite.lab.spark.locations import LocationError, location
from kafkalite.lab.spark.state.time_range import TIME_RANGE

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NO_SESSION = cast("SparkSession", None)


def test_batch_starts_from_the_last_complete_batch(tmp_path: Path) -> None:
    out = location(str(tmp_path))
    first = StoredTables(NO_SESSION, out, ()).begin(0)
    assert first.previous_batch == BatchMetadata()
    first.counts["ghosts"] += 3
    first.end(10, 20)
    StoredTables(NO_SESSION, out, ()).begin(1).end(10, 30)
    # Batch 2 has no metadata file, so it is incomplete and is repeated.
    (out / "_kafkalite/state/2/epochs/part.parquet").write_text("torn")
    again = StoredTables(NO_SESSION, out, ()).begin(2)
    assert (again.previous_batch.first_us, again.previous_batch.last_us) == (10, 30)
    assert not (out / "_kafkalite/state/2").exists()
    previous_batch = StoredTables(NO_SESSION, out, ()).begin(1).previous_batch
    assert (previous_batch.last_us, previous_batch.counts) == (20, {"ghosts": 3})


def test_findings_of_a_repeated_batch_and_later_ones_are_deleted(tmp_path: Path) -> None:
    out = location(str(tmp_path))
    for name in ("batch=0", "batch=1", "batch=12", "other"):
        (out / f"{TIME_RANGE.name}/{name}/part.parquet").write_text("rows")
    StoredTables(NO_SESSION, out, (TIME_RANGE,)).begin(1)
    assert list((out / TIME_RANGE.name).walk()) == ["batch=0/part.parquet", "other/part.parquet"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"first_us": 1, "nothing": 2}'])
def test_invalid_metadata_is_reported(tmp_path: Path, text: str) -> None:
    out = location(str(tmp_path))
    (out / "_kafkalite/state/4/note.json").write_text(text)
    with pytest.raises(LocationError, match=r"4/note\.json: invalid metadata of a batch"):
        StoredTables(NO_SESSION, out, ()).begin(5)
