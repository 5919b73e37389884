"""Capture files read in columns say what was written into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.reading import read_file
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from pathlib import Path


def tables(path: Path, options: Options) -> dict[Table, pa.Table]:
    found: dict[Table, list[pa.RecordBatch]] = {}
    with path.open("rb") as file:
        for table, batch in read_file(file, path.name, options):
            found.setdefault(table, []).append(batch)
    return {table: pa.Table.from_batches(batches) for table, batches in found.items()}


@pytest.mark.parametrize("chunk_bytes", [1 << 16, 8 << 20])
def test_every_exchange_of_several_files_is_found(tmp_path: Path, chunk_bytes: int) -> None:
    made = write(tmp_path, 700_000, connections=7, file_bytes=300_000)
    pairs = [tables(path, Options(chunk_bytes=chunk_bytes))[Table.PAIRS] for path in made.files]
    both = pa.concat_tables(pairs)
    assert len(made.files) > 2
    assert both.num_rows == made.frames // 2
    assert sum(key == 8 for key in both["api_key"].to_pylist()) == made.commits
    assert both["response"].null_count == 0
    assert len(set(both["connection"].to_pylist())) == 7
