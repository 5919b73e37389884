"""Types of columns: Spark's names, Arrow's types, and the names in DuckDB.

Timestamps have no time zone in DuckDB, and are UTC: this needs no data of time zones.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN: Final = pa.null()
"""The type of an expression that is not derived, and of null."""
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

_SCALARS: Final[Mapping[str, tuple[pa.DataType, str]]] = {
    "boolean": (pa.bool_(), "BOOLEAN"),
    "tinyint": (pa.int8(), "TINYINT"),
    "smallint": (pa.int16(), "SMALLINT"),
    "int": (pa.int32(), "INTEGER"),
    "bigint": (pa.int64(), "BIGINT"),
    "double": (pa.float64(), "DOUBLE"),
    "string": (pa.string(), "VARCHAR"),
    "binary": (pa.binary(), "BLOB"),
    "timestamp": (TIMESTAMP, "TIMESTAMP"),
    "date": (pa.date32(), "DATE"),
}
"""Name in Spark SQL → type in Arrow, name in DuckDB."""
_SPARK_NAMES: Final = {kind: name for name, (kind, _) in _SCALARS.items()}
_JSON_NAMES: Final = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
}
"""Names of types that differ between Spark SQL and Spark's schemas in JSON."""
_TOKEN: Final = re.compile(r"\w+|[<>,:]")


@cache
def parse_type(text: str) -> pa.DataType:
    """Return the type with this name in Spark SQL, such as `array<struct<a: int>>`."""
    tokens = _TOKEN.findall(text)
    kind, end = _parse(tokens, 0)
    if end != len(tokens):
        raise ValueError(f"{text!r}: not a type")
    return kind


def parse_columns(text: str) -> pa.Schema:
    """Return the schema of columns in Spark SQL, such as `file string, size bigint`."""
    tokens = _TOKEN.findall(text)
    fields, position = [], 0
    while position < len(tokens):
        kind, end = _parse(tokens, position + 1)
        fields.append((tokens[position], kind))
        position = end + 1
    return pa.schema(fields)


def _parse(tokens: list[str], start: int) -> tuple[pa.DataType, int]:
    word = tokens[start].lower()
    if word == "array":
        element, end = _parse(tokens, start + 2)
        return pa.list_(pa.field("element", element)), end + 1
    if word == "struct":
        fields, position = [], start + 1
        while tokens[position] != ">":
            kind, end = _parse(tokens, position + 3)
            fields.append(pa.field(tokens[position + 1], kind))
            position = end
        return pa.struct(fields), position + 1
    return _SCALARS[word][0], start + 1


@cache
def duckdb_name(kind: pa.DataType) -> str:
    """Return the name of a type in DuckDB."""
    if pa.types.is_list(kind):
        return f"{duckdb_name(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return (
            f"STRUCT({', '.join(f'{quoted(each.name)} {duckdb_name(each.type)}' for each in kind)})"
        )
    return _SCALARS[_spark_name(kind)][1]


def spark_json(kind: pa.DataType) -> Any:  # noqa: ANN401 - JSON
    """Return a type as Spark writes it in JSON."""
    if pa.types.is_list(kind):
        element = spark_json(kind.value_type)
        return {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_struct(kind):
        fields = [
            {"name": each.name, "type": spark_json(each.type), "nullable": True, "metadata": {}}
            for each in kind
        ]
        return {"type": "struct", "fields": fields}
    name = _spark_name(kind)
    return _JSON_NAMES.get(name, name)


def quoted(name: str) -> str:
    """Return a name as an identifier in SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def is_integer(kind: pa.DataType) -> bool:
    """Whether this is a type of integers."""
    return bool(pa.types.is_integer(kind))


def _spark_name(kind: pa.DataType) -> str:
    return "timestamp" if pa.types.is_timestamp(kind) else _SPARK_NAMES[kind]
