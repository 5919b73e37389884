"""Stories written as captures read back as they were told: what audits see of both is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalite.columnar.options import Table
from kafkalite.columnar.reading import read_file
from tests.spark.truth.play import play
from tests.spark.truth.recorded import record

if TYPE_CHECKING:
    from pathlib import Path


def test_a_recorded_story_is_read_back_frame_by_frame(tmp_path: Path) -> None:
    said, _ = play(tmp_path, [2])
    files = record(said, tmp_path / "capture")
    batches = [
        batch
        for path in files
        for table, batch in read_file(path.read_bytes(), path.name)
        if table in {Table.PAIRS, Table.UNPAIRED}
    ]
    found = set()
    for batch in batches:
        rows = batch.to_pylist()
        if "request" in batch.schema.names:
            found |= {(row["client"], row["ts"], row["request"], row["response"]) for row in rows}
        else:
            found |= {(row["client"], row["ts"], row["payload"], None) for row in rows}
    times = pa.array([each.start_us for each in said], pa.timestamp("us", tz="UTC")).to_pylist()
    told = {
        (str(each.line.client), at, each.request, each.response)
        for each, at in zip(said, times, strict=True)
    }
    assert found == told
