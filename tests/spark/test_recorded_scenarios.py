"""Scenarios written as captures are read back with the same bytes and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalite.lab.columnar.options import Table
from kafkalite.lab.columnar.reading import read_file
from tests.spark.truth.all_scenarios import run_scenarios
from tests.spark.truth.recorded_exchanges import record

if TYPE_CHECKING:
    from pathlib import Path


def test_recorded_scenario_is_read_back_frame_by_frame(tmp_path: Path) -> None:
    exchanges, _ = run_scenarios(tmp_path, [2])
    files = record(exchanges, tmp_path / "capture")
    batches = [
        batch
        for path in files
        for table, batch in read_file(path.read_bytes(), path.name)
        if table in {Table.PAIRS, Table.UNPAIRED}
    ]
    read_back = set()
    for batch in batches:
        rows = batch.to_pylist()
        if "request" in batch.schema.names:
            read_back |= {
                (row["client"], row["ts"], row["request"], row["response"]) for row in rows
            }
        else:
            read_back |= {(row["client"], row["ts"], row["payload"], None) for row in rows}
    times = pa.array(
        [exchange.start_us for exchange in exchanges], pa.timestamp("us", tz="UTC")
    ).to_pylist()
    expected = {
        (str(exchange.line.client), at, exchange.request, exchange.response)
        for exchange, at in zip(exchanges, times, strict=True)
    }
    assert read_back == expected
