"""Construct trees from a spec and a version."""

import pytest
from construct import Int32sb

from kafkalite.protocol.primitives import KafkaArray, KafkaBytes, KafkaString, KafkaStruct
from kafkalite.protocol.schema import (
    NEW_STRUCT,
    default_of,
    is_struct,
    may_be_none,
    message_tree,
    module_of,
)
from kafkalite.protocol.spec import FieldSpec, MessageSpec, load_spec, parse_spec
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions

TEXT = """\
# An example.
request ExampleRequest
api-key 7
versions 1-3
flexible 2+

Old: int32 0-1 = 5
Long: int32 0
Name: string 0+ nullable 3+
Fixed: string 0+ flexible none
Raw: records 0+
Rows: []Row 0+
  Index: int32 0+
Late: Inner 2+ tag 4 2+
  X: int8 2+
Maybe: Inner 3+ nullable 3+ = null
"""


@pytest.fixture
def spec() -> MessageSpec:
    return parse_spec(TEXT)


def constructs_of(spec: MessageSpec, version: int) -> dict[str, object]:
    return {field.name: field.subcon for field in message_tree(spec, version).shape.fields}


def test_version_has_its_fields(spec: MessageSpec) -> None:
    assert list(constructs_of(spec, 1)) == ["old", "name", "fixed", "raw", "rows"]
    assert list(constructs_of(spec, 2)) == ["name", "fixed", "raw", "rows"]
    assert list(constructs_of(spec, 3)) == ["name", "fixed", "raw", "rows", "maybe"]


def test_absent_fields_have_their_defaults(spec: MessageSpec) -> None:
    # A field that exists only in unsupported versions is in no message.
    assert message_tree(spec, 2).shape.absent == {"old": 5, "maybe": None}


def test_lengths_are_compact_where_the_version_is_flexible(spec: MessageSpec) -> None:
    before, after = constructs_of(spec, 1), constructs_of(spec, 3)
    for name in ("name", "raw", "rows"):
        assert (before[name].compact, after[name].compact) == (False, True)  # type: ignore[attr-defined]
    fixed = after["fixed"]
    assert isinstance(fixed, KafkaString)
    assert not fixed.compact


def test_each_type_has_its_construct(spec: MessageSpec) -> None:
    found = constructs_of(spec, 3)
    name, raw, rows = found["name"], found["raw"], found["rows"]
    assert isinstance(name, KafkaString)
    assert name.nullable
    assert isinstance(raw, KafkaBytes)
    assert raw.is_records
    assert isinstance(rows, KafkaArray)
    assert isinstance(rows.subcon, KafkaStruct)
    assert rows.subcon.shape.fields[0].subcon is Int32sb


def test_a_tagged_field_is_behind_its_tag(spec: MessageSpec) -> None:
    assert message_tree(spec, 1).shape.absent["late"] is None
    tagged = message_tree(spec, 2).shape.tagged[4]
    assert (tagged.attribute, tagged.default) == ("late", None)
    assert tagged.subcon.shape.is_tagged


def test_unknown_version_is_refused(spec: MessageSpec) -> None:
    with pytest.raises(ValueError, match="no version 0"):
        message_tree(spec, 0)


def field(text: str) -> FieldSpec:
    return parse_spec(f"data X\nversions 0-3\n{text}\n").fields[0]


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("A: int32 0+", 0),
        ("A: int32 0+ = 0x7fffffff", 0x7FFFFFFF),
        ("A: bool 0+", False),
        ("A: bool 0+ = true", True),
        ("A: float64 0+", 0.0),
        ("A: string 0+", ""),
        ("A: string 0+ nullable 0+ = null", None),
        ("A: bytes 0+", b""),
        ("A: uuid 0+", ZERO_UUID),
        ("A: []int32 0+", []),
        ("A: []int32 0+ nullable 0+ = null", None),
        ("A: B 0+\n  C: int8 0+", NEW_STRUCT),
        ("A: B 0+ tag 0 0+\n  C: int8 0+", None),
        ("A: B 0+ nullable 0+ tag 0 0+\n  C: int8 0+", NEW_STRUCT),
        ("A: B 0+ nullable 0+ = null\n  C: int8 0+", None),
    ],
)
def test_default_of_a_field_depends_on_its_type(text: str, default: object) -> None:
    assert default_of(field(text)) == default


def test_nullable_and_optional_tagged_fields_may_be_none() -> None:
    versions = Versions(0, 3)
    assert may_be_none(field("A: string 0+ nullable 2+"), versions)
    assert may_be_none(field("A: B 0+ tag 0 0+\n  C: int8 0+"), versions)
    assert not may_be_none(field("A: string 0+ nullable 4+"), versions)
    assert not may_be_none(field("A: B 0+\n  C: int8 0+"), versions)


def test_field_is_a_struct_if_it_has_fields_and_is_no_array() -> None:
    assert is_struct(field("A: B 0+\n  C: int8 0+"))
    assert not is_struct(field("A: []B 0+\n  C: int8 0+"))
    assert not is_struct(field("A: int8 0+"))


def test_generated_modules_are_named_by_their_spec() -> None:
    assert (
        module_of(load_spec("apis", "fetch_request"))
        == "kafkalite.protocol._generated.messages.fetch"
    )
    assert (
        module_of(load_spec("apis", "request_header"))
        == "kafkalite.protocol._generated.messages.headers"
    )
    assert (
        module_of(load_spec("records", "topic_record"))
        == "kafkalite.protocol._generated.records.topic"
    )
