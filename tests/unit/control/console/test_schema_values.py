"""Keys and values as JSON, by the schemas of a registry."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.console import schema_values
from kafkalite.control.console.schema_registry import SchemaRegistry
from kafkalite.control.console.schema_values import Decoded, SchemaDecoder
from tests.unit.control.console.schema_server import (
    SerializedValue,
    schema_server,
    serialized_values,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

VALUES = serialized_values()
ABOUT = {"avro": "Avro", "avro string": "Avro", "json": "JSON Schema", "protobuf": "Protobuf"}


async def decoded(answers: Mapping[str, object], *contents: bytes | None) -> list[Decoded]:
    with schema_server(answers) as server:
        found = await SchemaDecoder(SchemaRegistry(server.url)).decode(contents)
    return [found[each] for each in contents if each in found]


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_values_of_serializers_are_decoded(value: SerializedValue) -> None:
    (found,) = await decoded(value.answers, value.content)
    assert json.loads(found.text) == value.expected
    assert found.about == f"{ABOUT[value.name]}, schema {value.schema_id}"


async def test_other_bytes_are_not_decoded() -> None:
    assert await decoded({}, None, b"", b"text", b"\x00") == []


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_every_part_of_a_value_is_safe(value: SerializedValue) -> None:
    """A value that is cut or changed has a text or a reason."""
    content = value.content
    changed = [content[:end] for end in range(5, len(content))]
    changed += [
        content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :]
        for at in range(5, len(content))
        for mask in (0x01, 0x80, 0xFF)
    ]
    for found in await decoded(value.answers, *changed):
        assert found.text or ": " in found.about


def avro(schema: object) -> Mapping[str, object]:
    return {"/schemas/ids/7": {"schema": json.dumps(schema)}}


def framed(payload: bytes) -> bytes:
    return b"\x00\x00\x00\x00\x07" + payload


async def test_a_value_with_another_schema_is_named() -> None:
    (found,) = await decoded(avro("int"), framed(b"\x02\x02"))
    assert found == Decoded("", "Avro, schema 7: 1 bytes follow the value")
    (found,) = await decoded(
        {"/schemas/ids/7": {"schema": "{", "schemaType": "JSON"}}, framed(b"{")
    )
    assert found.about.startswith("JSON Schema, schema 7: the value is not JSON: ")


async def test_sizes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_values, "MAX_BYTES", 3)
    monkeypatch.setattr(schema_values, "MAX_PAGE_BYTES", 5)
    large, first, second = framed(b"\x06abc"), framed(b"\x04ab"), framed(b"\x04cd")
    found = await decoded(avro("string"), large, first, second)
    assert [each.text for each in found] == ["", '"ab"', ""]
    assert "only values of up to 3 bytes are decoded" in found[0].about
    assert "only 5 bytes of a page are decoded" in found[2].about


async def test_a_short_value_does_not_become_a_long_text() -> None:
    name = "x" * 500
    fields = [{"name": name, "type": "null"}]
    many = {"type": "array", "items": {"type": "record", "name": "R", "fields": fields}}
    (found,) = await decoded(avro(many), framed(b"\xa0\x1f\x00"))
    assert found.about == "Avro, schema 7: the value has more than 262,144 characters as JSON"


async def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    value = VALUES["protobuf"]
    (found,) = await decoded(value.answers, value.content)
    assert found.about.endswith(
        "the value is Protobuf, which needs the library protobuf: install kafkalite[schemas]"
    )
