"""Values in Avro's binary encoding."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkalite.control.console.avro_values import MAX_DEPTH, AvroReader, ValueCount
from kafkalite.control.console.schemas import SchemaError


def read(schema: object, data: str, *used: object, limit: int = 1_000) -> Any:  # noqa: ANN401 - a value
    reader = AvroReader(json.dumps(schema), [json.dumps(each) for each in used])
    return reader.value(bytes.fromhex(data), ValueCount(limit))


def record(**fields: object) -> dict[str, object]:
    return {
        "type": "record", "name": "R", "namespace": "n",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        ("null", "", None),
        ("boolean", "01", True),
        ("int", "01", -1),
        ("long", "ffffffffffffffffff01", -(2**63)),
        ("float", "0000c03f", 1.5),
        ("double", "000000000000f83f", 1.5),
        ("bytes", "0400ff", b"\x00\xff"),
        ("string", "04c3a4", "ä"),
        ("string", "02ff", "\\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, "0001", b"\x00\x01"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "02", "B"),
        ({"type": "array", "items": "int"}, "04020400", [1, 2]),
        ({"type": "array", "items": "int"}, "0304020400", [1, 2]),
        ({"type": "map", "values": "int"}, "0202610200", {"a": 1}),
        (["null", "string"], "020261", "a"),
        (record(a="int", b="string"), "020261", {"a": 1, "b": "a"}),
        ({"type": {"type": "string"}}, "0261", "a"),
    ],
)
def test_values_of_each_type_are_read(schema: object, data: str, value: object) -> None:
    assert read(schema, data) == value


@pytest.mark.parametrize(
    ("kind", "logical", "data", "value"),
    [
        ("int", "date", "00", "1970-01-01"),
        ("int", "date", "ffffffff0f", -(2**31)),
        ("int", "time-millis", "02", "00:00:00.001"),
        ("int", "time-millis", "01", -1),
        ("long", "time-micros", "02", "00:00:00.000001"),
        ("long", "timestamp-millis", "02", "1970-01-01T00:00:00.001Z"),
        ("long", "timestamp-micros", "01", "1969-12-31T23:59:59.999999Z"),
        ("long", "timestamp-nanos", "02", "1970-01-01T00:00:00.000000001Z"),
        ("long", "local-timestamp-millis", "02", "1970-01-01T00:00:00.001"),
        ("long", "timestamp-millis", "feffffffffffffffff01", 2**63 - 1),
        ("string", "uuid", "0261", "a"),
        ("int", "unknown", "02", 1),
    ],
)
def test_logical_types_are_shown_as_people_write_them(
    kind: str, logical: str, data: str, value: object
) -> None:
    assert read({"type": kind, "logicalType": logical}, data) == value


@pytest.mark.parametrize(
    ("data", "scale", "value"),
    [("04fb2e", 2, "-12.34"), ("0205", 0, "5"), ("0205", 9, "0.000000005"), ("0205", -1, b"\x05")],
)
def test_decimals_are_exact(data: str, scale: int, value: object) -> None:
    assert read({"type": "bytes", "logicalType": "decimal", "scale": scale}, data) == value


def test_a_huge_decimal_remains_bytes() -> None:
    huge = {"type": "fixed", "name": "F", "size": 600, "logicalType": "decimal", "scale": 2}
    assert read(huge, "ff" * 600) == b"\xff" * 600


def test_fixed_logical_types_are_shown() -> None:
    uuid = {"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}
    assert read(uuid, "00" * 15 + "07") == "00000000-0000-0000-0000-000000000007"
    duration = {"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}
    shown = {"months": 1, "days": 2, "milliseconds": 3}
    assert read(duration, "010000000200000003000000") == shown


def test_types_are_found_by_their_names() -> None:
    money = {"type": "record", "name": "other.Money", "fields": [{"name": "n", "type": "int"}]}
    assert read(record(a="other.Money"), "02", money) == {"a": {"n": 1}}
    local = record(a={"type": "fixed", "name": "F", "size": 1}, b="F", c="n.F")
    assert read(local, "010203") == {"a": b"\x01", "b": b"\x02", "c": b"\x03"}
    linked = record(next=["null", "R"])
    assert read(linked, "020200") == {"next": {"next": {"next": None}}}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("Missing", "the unknown type 'Missing'"),
        (7, "7 in place of a type"),
        (record(a="Missing"), "unknown type"),
        ({"type": "record", "name": "R"}, "in place of a list of fields"),
        ({"type": "record", "name": "x" * 600, "fields": []}, "in place of a name"),
        ({"type": "enum", "name": "E", "symbols": [7]}, "7 in place of a name"),
        ({"type": "fixed", "name": "F", "size": -1}, "-1 as the size"),
        ({"type": "array"}, "None in place of a type"),
    ],
)
def test_an_invalid_schema_is_refused(schema: object, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        AvroReader(json.dumps(schema))


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "x"])
def test_a_schema_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="not JSON"):
        AvroReader(text)


@pytest.mark.parametrize(
    ("schema", "data", "problem"),
    [
        ("string", "0a61", "ends early, at byte 2"),
        ("bytes", "01", "ends early"),
        ("long", "ff" * 11, "invalid number"),
        ("int", "0202", "1 bytes follow the value"),
        (["null"], "02", "branch 1 of a union of 1"),
        ({"type": "enum", "name": "E", "symbols": []}, "00", "symbol 0 of an enum of 0"),
    ],
)
def test_a_damaged_value_is_refused(schema: object, data: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        read(schema, data)


def test_a_value_with_many_parts_is_refused() -> None:
    nulls = {"type": "array", "items": "null"}
    with pytest.raises(SchemaError, match="too many parts"):
        read(nulls, "feffffffffffffffff0100")
    empty = record(a={"type": "array", "items": "n.R"})
    with pytest.raises(SchemaError, match="too many parts"):
        read(empty, "80897a" + "00" * 1_000)
    count = ValueCount(5)
    reader = AvroReader('"int"')
    for _ in range(5):
        reader.value(b"\x02", count)
    with pytest.raises(SchemaError, match="too many parts"):
        reader.value(b"\x02", count)


def test_a_deep_value_or_schema_is_refused() -> None:
    linked = record(next=["null", "R"])
    with pytest.raises(SchemaError, match=f"the value has more than {MAX_DEPTH} levels"):
        read(linked, "02" * 60_000 + "00", limit=200_000)
    endless = record(a="n.R")
    with pytest.raises(SchemaError, match="the value has more than"):
        read(endless, "")
    deep: object = "int"
    for _ in range(MAX_DEPTH + 1):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError, match="the schema has more than"):
        AvroReader(json.dumps(deep))
