"""Files in stores that the local engine reads."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import parquet

from kafkalite.lab.spark.local.session import LocalSession
from kafkalite.lab.spark.locations import location


def test_tables_in_a_store_are_read() -> None:
    session = LocalSession()
    folder = location("memory://bucket/table")
    rows = pa.table({"n": [1, 2], "request": [{"group_id": "g"}, None]})
    for name in ("a=b 1.parquet", "2.parquet"):
        with (folder / name).create() as stream:
            parquet.write_table(rows, stream)
    found = session.read_parquet([folder.url], rows.schema).select("n", "request.group_id")
    assert found.orderBy("n").toArrow().to_pydict() == {
        "n": [1, 1, 2, 2],
        "group_id": ["g", "g", None, None],
    }
