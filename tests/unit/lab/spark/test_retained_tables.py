"""Tables that another version wrote and this version may read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.manifest import InputSplit, RetainedOutputError
from kafkalite.lab.spark.retained_tables import check_retained_tables
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from pathlib import Path

FETCHES = tables.requests(ApiKey.FETCH)
FETCH_TABLE = "requests/api=Fetch/date=2026-11-22"


def check(out: Path, table: str, schema: pa.Schema) -> None:
    (out / table).mkdir(parents=True, exist_ok=True)
    parquet.write_table(schema.empty_table(), out / table / "1.parquet")
    check_retained_tables(
        location(str(out)), [InputSplit(inputs=(), requests=(f"{table}/1.parquet",))]
    )


def without_a_field(schema: pa.Schema, column: str) -> pa.Schema:
    """Return the schema without the last field of a message."""
    fields = [*schema.field(column).type][:-1]
    return schema.set(schema.get_field_index(column), pa.field(column, pa.struct(fields)))


def test_equal_and_earlier_columns_are_read(tmp_path: Path) -> None:
    check(tmp_path, FETCH_TABLE, FETCHES)
    check(tmp_path, FETCH_TABLE, without_a_field(FETCHES, "response"))
    check(tmp_path, "problems", tables.PROBLEMS)


@pytest.mark.parametrize(
    ("table", "schema"),
    [
        (FETCH_TABLE, FETCHES.append(pa.field("later", pa.int32()))),
        (FETCH_TABLE, FETCHES.remove(0)),
        (FETCH_TABLE, FETCHES.set(0, pa.field("ts", pa.int64()))),
        ("requests/api=LaterApi/date=2026-11-22", FETCHES),
    ],
)
def test_other_columns_are_refused(tmp_path: Path, table: str, schema: pa.Schema) -> None:
    name = table.partition("/date")[0]
    with pytest.raises(RetainedOutputError, match=f"the table {name} of input files that are gone"):
        check(tmp_path, table, schema)
