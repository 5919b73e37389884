"""ProtobufReader: values in Protobuf's encoding as JSON, by descriptors of a schema registry."""

from __future__ import annotations

import binascii
from base64 import b64decode
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kafkalite.control.console.schemas import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.control.console.schemas import Schema

MAX_NAME: Final = 512
"""The maximum number of characters of a name in a schema: a value repeats it many times."""
MISSING_LIBRARY: Final = (
    "the value is Protobuf, which needs the library protobuf: install kafkalite[schemas]"
)
_WELL_KNOWN: Final = "google/protobuf/"
_PROTO: Final = ".proto"
_VARINT_BITS: Final = 7
_MAX_VARINT_SHIFT: Final = 63
_MAX_INDEXES: Final = 64
"""The maximum depth of a message in other messages."""


class ProtobufReader:
    """Reads values of the messages of one schema."""

    def __init__(self, schema: Schema) -> None:
        """Build the descriptors of a schema; raises SchemaError."""
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise SchemaError(MISSING_LIBRARY) from error
        self._pool = descriptor_pool.DescriptorPool()
        self._new_file = descriptor_pb2.FileDescriptorProto
        self._added: set[str] = set()
        for each in schema.used:
            self._add(self._file(each.text, each.name))
        # No import can have this name.
        self._main = self._file(schema.text, f"schema {schema.schema_id}{_PROTO}")
        self._add(self._main)

    def _file(self, text: str, name: str) -> Any:  # noqa: ANN401 - a FileDescriptorProto
        from google.protobuf.message import DecodeError  # noqa: PLC0415 - an extra

        try:
            file = self._new_file.FromString(b64decode(text, validate=True))
        except (binascii.Error, ValueError, DecodeError) as error:
            raise SchemaError(
                "the registry returned no descriptor: it must support format=serialized, as "
                "Confluent's does"
            ) from error
        file.name = name
        if any(len(each) > MAX_NAME for each in _names_in(file)):
            raise SchemaError(f"the schema has a name with more than {MAX_NAME} characters")
        return file

    def _add(self, file: Any) -> None:  # noqa: ANN401 - a FileDescriptorProto
        if file.name in self._added:
            return
        self._added.add(file.name)
        for name in file.dependency:
            if name.startswith(_WELL_KNOWN) and name not in self._added:
                self._add(self._well_known(name))
        try:
            self._pool.Add(file)
            self._pool.FindFileByName(file.name)
        except (TypeError, KeyError, ValueError) as error:
            raise SchemaError(f"the schema is not valid: {error}") from error

    def _well_known(self, name: str) -> Any:  # noqa: ANN401 - a FileDescriptorProto
        module = name.removeprefix(_WELL_KNOWN).removesuffix(_PROTO)
        if not module.isidentifier():
            raise SchemaError(f"the schema imports {name!r}, which does not exist")
        try:
            descriptor = import_module(f"google.protobuf.{module}_pb2").DESCRIPTOR
        except ImportError as error:
            raise SchemaError(f"the schema imports {name!r}, which does not exist") from error
        return self._new_file.FromString(descriptor.serialized_pb)

    def value(self, data: bytes) -> Any:  # noqa: ANN401 - any JSON
        """Return the message after its indexes; raises SchemaError."""
        from google.protobuf import json_format, message_factory  # noqa: PLC0415 - an extra
        from google.protobuf.message import DecodeError  # noqa: PLC0415 - as above

        indexes, payload = split_indexes(data)
        descriptor = self._pool.FindMessageTypeByName(self._name_of(indexes))
        try:
            message = message_factory.GetMessageClass(descriptor).FromString(payload)
            return json_format.MessageToDict(
                message,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
                descriptor_pool=self._pool,
            )
        except DecodeError as error:
            raise SchemaError(f"the value is no message {descriptor.full_name}") from error
        except (json_format.Error, TypeError, KeyError, ValueError, OverflowError) as error:
            raise SchemaError(f"the message cannot be shown: {error}") from error

    def _name_of(self, indexes: Sequence[int]) -> str:
        """Return the full name of a message from its position in each list of messages."""
        names, messages = (
            [self._main.package] if self._main.package else [],
            self._main.message_type,
        )
        for index in indexes:
            if index >= len(messages):
                raise SchemaError(f"the schema has no message with the indexes {[*indexes]}")
            names.append(messages[index].name)
            messages = messages[index].nested_type
        return ".".join(names)


def _names_in(file: Any) -> Iterator[str]:  # noqa: ANN401 - a FileDescriptorProto
    yield file.package
    messages = [*file.message_type]
    enums = [*file.enum_type]
    while messages:
        message = messages.pop()
        yield message.name
        for field in message.field:
            yield field.name
            yield field.json_name
        messages += message.nested_type
        enums += message.enum_type
    for enum in enums:
        yield enum.name
        yield from (each.name for each in enum.value)


def split_indexes(data: bytes) -> tuple[Sequence[int], bytes]:
    """Return the indexes of a message before its bytes, and the bytes; raises SchemaError.

    Zigzag numbers: their count, and each index; a count of 0 is the first message.
    """
    count, position = _zigzag(data, 0)
    if not 0 <= count <= _MAX_INDEXES:
        raise SchemaError(f"the value has {count} indexes of a message")
    indexes = []
    for _ in range(count):
        index, position = _zigzag(data, position)
        if index < 0:
            raise SchemaError(f"the value has the index {index} of a message")
        indexes.append(index)
    return indexes or [0], data[position:]


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    """Return a number, and the position after it."""
    number = shift = 0
    while position < len(data) and shift <= _MAX_VARINT_SHIFT:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte
            return (number >> 1) ^ -(number & 1), position
        shift += _VARINT_BITS
    raise SchemaError("the value has no indexes of a message")
