"""Types of columns in the local engine."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkalite.lab.spark.local.data_types import (
    duckdb_name,
    parse_columns,
    parse_type,
    quoted,
    spark_json,
)

NESTED = "array<struct<name: string, partitions: array<struct<index: int, error: smallint>>>>"


def test_nested_type_is_parsed() -> None:
    kind = parse_type(NESTED)
    assert kind.value_type.field("name").type == pa.string()
    partition = kind.value_type.field("partitions").type.value_type
    assert [(field.name, field.type) for field in partition] == [
        ("index", pa.int32()),
        ("error", pa.int16()),
    ]


def test_columns_are_parsed() -> None:
    columns = [("file", pa.string()), ("parts", pa.list_(pa.field("element", pa.binary())))]
    assert parse_columns("file string, parts array<binary>") == pa.schema(columns)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("bigint", "BIGINT"),
        ("timestamp", "TIMESTAMP"),
        ("array<string>", "VARCHAR[]"),
        ("struct<step: int, earliest_us: bigint>", 'STRUCT("step" INTEGER, "earliest_us" BIGINT)'),
    ],
)
def test_type_has_a_name_in_duckdb(text: str, name: str) -> None:
    assert duckdb_name(parse_type(text)) == name


def test_incomplete_type_is_refused() -> None:
    with pytest.raises(ValueError, match="not a type"):
        parse_type("int int")


def test_type_is_described_as_spark_does() -> None:
    assert spark_json(parse_type("array<struct<a: smallint>>")) == {
        "type": "array",
        "elementType": {
            "type": "struct",
            "fields": [{"name": "a", "type": "short", "nullable": True, "metadata": {}}],
        },
        "containsNull": True,
    }


def test_quotation_marks_in_a_name_are_doubled() -> None:
    assert quoted('a"b') == '"a""b"'
