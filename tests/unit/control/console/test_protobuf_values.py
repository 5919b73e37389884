"""Values in Protobuf's binary encoding."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from kafkalite.control.console.protobuf_values import MAX_NAME, ProtobufReader, split_indexes
from kafkalite.control.console.schemas import Schema, SchemaError, UsedSchema


def file(*dependencies: str, field: str = "n", kind: str = "") -> FileDescriptorProto:
    """Return a file with a message A, which has a field."""
    found = FileDescriptorProto(name="ignored.proto", package="p", syntax="proto3")
    found.dependency.extend(dependencies)
    message = found.message_type.add(name="A")
    types = FieldDescriptorProto
    message.field.add(
        name=field,
        number=1,
        label=1,
        type=types.TYPE_MESSAGE if kind else types.TYPE_INT32,
        type_name=kind or None,
    )
    message.nested_type.add(name="Inner")
    return found


def text_of(message: Any) -> str:  # noqa: ANN401 - a message
    return b64encode(message.SerializeToString()).decode()


def reader(main: FileDescriptorProto, **used: FileDescriptorProto) -> ProtobufReader:
    files = tuple(UsedSchema(f"{name}.proto", text_of(each)) for name, each in used.items())
    return ProtobufReader(Schema(7, "PROTOBUF", text_of(main), files))


@pytest.mark.parametrize(
    ("data", "indexes", "rest"),
    [("00", [0], ""), ("0002", [0], "02"), ("0204aa", [2], "aa"), ("040200ff", [1, 0], "ff")],
)
def test_indexes_of_a_message_are_read(data: str, indexes: list[int], rest: str) -> None:
    assert split_indexes(bytes.fromhex(data)) == (indexes, bytes.fromhex(rest))


@pytest.mark.parametrize("data", ["", "80", "02", "01", "0201", "ff" * 20, "a00f"])
def test_bytes_without_indexes_are_refused(data: str) -> None:
    with pytest.raises(SchemaError, match="index"):
        split_indexes(bytes.fromhex(data))


def test_messages_are_found_by_their_indexes() -> None:
    found = reader(file())
    assert found.value(b"\x00\x08\x05") == {"n": 5}
    assert found.value(b"\x04\x00\x00") == {}
    with pytest.raises(SchemaError, match=r"no message with the indexes \[1\]"):
        found.value(b"\x02\x02")
    with pytest.raises(SchemaError, match=r"the value is no message p\.A"):
        found.value(b"\x00\x08")


def test_imported_files_are_used() -> None:
    main = file("b.proto", "google/protobuf/any.proto", kind=".q.A")
    other = file()
    other.package = "q"
    assert reader(main, b=other).value(b"\x00\x0a\x02\x08\x05") == {"n": {"n": 5}}


@pytest.mark.parametrize(
    "name", ["google/protobuf/none.proto", "google/protobuf/../x.proto", "c.proto"]
)
def test_a_missing_import_is_named(name: str) -> None:
    with pytest.raises(SchemaError, match="schema"):
        reader(file(name))


def test_a_message_of_an_unknown_type_is_named() -> None:
    found = reader(file("google/protobuf/any.proto", kind=".google.protobuf.Any"))
    with pytest.raises(SchemaError, match="the message cannot be shown"):
        found.value(b"\x00\x0a\x06\x0a\x04x/no")


def test_invalid_descriptors_are_refused() -> None:
    with pytest.raises(SchemaError, match="must support format=serialized"):
        ProtobufReader(Schema(7, "PROTOBUF", 'syntax = "proto3";'))
    with pytest.raises(SchemaError, match="must support format=serialized"):
        ProtobufReader(Schema(7, "PROTOBUF", "////"))
    with pytest.raises(SchemaError, match="the schema is not valid"):
        reader(file(kind=".missing.Type"))
    with pytest.raises(SchemaError, match=f"a name with more than {MAX_NAME} characters"):
        reader(file(field="x" * (MAX_NAME + 1)))


def test_a_deep_message_is_refused() -> None:
    found = reader(file(kind=".p.A"))
    data = b""
    for _ in range(200):
        size = len(data)
        length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
        data = b"\x0a" + length + data
    with pytest.raises(SchemaError, match=r"the value is no message p\.A"):
        found.value(b"\x00" + data)
