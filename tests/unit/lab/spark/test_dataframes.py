"""The engine that computes the audits' data frames."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pyarrow as pa

import kafkalite.lab.spark
from kafkalite.lab.spark.dataframes import (
    Window,
    ddl_schema,
    empty_frame,
    functions,
    is_local,
    local_engine,
    shared,
    to_schema,
    union,
)
from kafkalite.lab.spark.local.frames import query

PIPELINE = Path(kafkalite.lab.spark.__file__).parent


def test_local_engine_is_used_inside_its_block_only() -> None:
    with local_engine() as session:
        assert functions.col.__module__ == "kafkalite.lab.spark.local.functions"
        assert type(Window.partitionBy("a")).__module__ == "kafkalite.lab.spark.local.expressions"
        assert is_local(session)
    assert functions.col.__module__ == "pyspark.sql.functions.builtin"


def test_schemas_of_the_local_engine_are_those_of_arrow() -> None:
    columns = pa.schema([("n", pa.int32())])
    with local_engine() as session:
        assert to_schema(columns) is columns
        schema = ddl_schema([("n", "int", "a number")])
        assert schema == columns
        empty = empty_frame(session, schema)
        assert empty is not None
        assert empty.columns == ["n"]
    assert to_schema(columns).simpleString() == "struct<n:int>"


def test_union_has_the_rows_of_all_frames() -> None:
    with local_engine() as session:
        assert union([session.range(2), session.range(3)]).count() == 5


def test_audits_import_the_functions_of_the_engine_in_use() -> None:
    importing = [
        str(path.relative_to(PIPELINE))
        for folder in ("audits", "report", "state")
        for path in (PIPELINE / folder).glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark")
    ]
    assert importing == []


def test_shared_table_is_computed_before_others_use_it() -> None:
    with local_engine() as session:
        local: Any = shared(session.range(2).where("id > 0"))
        assert " where " not in query(local._step)
        assert [row.id for row in local.collect()] == [1]
