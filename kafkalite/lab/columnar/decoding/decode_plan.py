"""Plans of columnar decodes: a program that walks messages, and the columns that it fills.

A plan is made from the construct tree of a message. The program fills buffers, and each column
names the buffers that it consists of. Fields that are not requested have no buffers and no column;
the program skips them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from construct import Bytes, Flag

from kafkalite.lab.columnar.decoding import decode_program
from kafkalite.lab.columnar.decoding.decode_program import (
    ANY_SIZE,
    COMPACT,
    KnownTag,
    Program,
    ProgramWriter,
)
from kafkalite.lab.columnar.decoding.schema import message_spec, message_type, prune
from kafkalite.protocol.codec_helpers import MAX_STRING_BYTES
from kafkalite.protocol.message import Message
from kafkalite.protocol.primitives import KafkaArray, KafkaBytes, KafkaString, KafkaStruct
from kafkalite.protocol.schema import message_tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from construct import Construct

    from kafkalite.capture.model import Direction
    from kafkalite.protocol.primitives import StructShape, Tagged
    from kafkalite.protocol.spec import MessageSpec

_MAX_CACHED_PLANS: Final = 1024
_STRING_LENGTH_BYTES, _LENGTH_BYTES = 2, 4
_NO_MAX_LENGTH: Final = 1 << 60

_KIND_BY_FORMAT: Final[Mapping[str, int]] = {
    ">b": decode_program.INT8,
    ">h": decode_program.INT16,
    ">H": decode_program.UINT16,
    ">i": decode_program.INT32,
    ">l": decode_program.INT32,
    ">q": decode_program.INT64,
    ">d": decode_program.INT64,  # byte order is swapped as for an integer
}
"""Format of construct → kind of field."""


@dataclass(frozen=True, slots=True, eq=False)
class NumberColumn:
    """Numbers, in the format of Arrow."""

    type: pa.DataType
    buffer: int


@dataclass(frozen=True, slots=True, eq=False)
class BooleanColumn:
    """Booleans, one byte each."""

    buffer: int


@dataclass(frozen=True, slots=True, eq=False)
class UuidColumn:
    """Uuids, 16 bytes each."""

    buffer: int


@dataclass(frozen=True, slots=True, eq=False)
class BytesColumn:
    """Strings or bytes: buffers of the end positions, of the bytes, and of the validity."""

    type: pa.DataType
    ends: int
    values: int
    validity: int
    """NO_BUFFER if no value can be null."""


@dataclass(frozen=True, slots=True, eq=False)
class ListColumn:
    """Arrays: buffers of the end positions and of the validity; elements have their own level."""

    type: pa.DataType
    ends: int
    validity: int
    level: int
    element: Column


@dataclass(frozen=True, slots=True, eq=False)
class StructColumn:
    """Structs that are never null; their fields have the same level."""

    type: pa.StructType
    children: tuple[Column, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OptionalColumn:
    """Nullable structs and tagged fields.

    The buffer `instance` has the number of each row's instance in `level`; -1 for none.
    """

    type: pa.DataType
    instance: int
    level: int
    column: Column
    default: object
    """The value of rows without an instance."""


@dataclass(frozen=True, slots=True, eq=False)
class AbsentColumn:
    """A field that this version does not have."""

    type: pa.DataType


Column = (
    NumberColumn
    | BooleanColumn
    | UuidColumn
    | BytesColumn
    | ListColumn
    | StructColumn
    | OptionalColumn
    | AbsentColumn
)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A program and the columns that it fills, for one message of one version."""

    type: pa.StructType
    program: Program
    column: StructColumn


@lru_cache(_MAX_CACHED_PLANS)
def message_plan(
    api_key: int, version: int, direction: Direction, fields: tuple[str, ...] | None = None
) -> Plan:
    """Return the plan of a message type; raises KeyError for an unknown API key or version."""
    spec = message_spec(api_key, direction)
    if version not in spec.versions:
        raise KeyError((api_key, version))
    requested = message_type(api_key, direction)
    return spec_plan(spec, version, requested if fields is None else prune(requested, fields))


def spec_plan(spec: MessageSpec, version: int, requested: pa.StructType) -> Plan:
    """Return the plan of a message; the type `requested` may have fewer fields than the spec."""
    planner = _Planner()
    column = planner.struct(message_tree(spec, version).shape, requested, 0)
    assert isinstance(column, StructColumn)
    return Plan(requested, planner.writer.program(), column)


@dataclass(frozen=True, slots=True)
class _Planner:
    """Walks a construct tree and writes the program.

    Each method returns the column of its field; None if the field is not requested.
    """

    writer: ProgramWriter = field(default_factory=ProgramWriter)

    def struct(
        self, shape: StructShape, requested: pa.StructType | None, level: int
    ) -> Column | None:
        requested_types = {} if requested is None else {each.name: each.type for each in requested}
        columns: dict[str, Column | None] = {}
        for each in shape.fields:
            columns[each.name] = self._any_field(each.subcon, requested_types.get(each.name), level)
        if shape.flexible:
            columns |= self._tagged_fields(shape.tagged, requested_types, level)
        if requested is None:
            return None
        return StructColumn(
            requested,
            tuple(columns.get(each.name) or AbsentColumn(each.type) for each in requested),
        )

    def _any_field(
        self, node: Construct, requested: pa.DataType | None, level: int
    ) -> Column | None:
        if isinstance(node, KafkaStruct):
            if node.shape.nullable:
                return self._nullable_struct_field(node.shape, requested, level)
            return self.struct(node.shape, requested, level)
        if isinstance(node, KafkaArray):
            return self._array_field(node, requested, level)
        if isinstance(node, KafkaString | KafkaBytes):
            return self._bytes_field(node, requested, level)
        return self._fixed_size_field(node, requested, level)

    def _fixed_size_field(
        self, node: Construct, requested: pa.DataType | None, level: int
    ) -> Column | None:
        if requested is None:
            self.writer.add_fixed_size(level, node.sizeof(), None)
            return None
        kind = _kind(node)
        buffer = self.writer.add_fixed_size(level, node.sizeof(), kind)
        match kind:
            case decode_program.FLAG:
                return BooleanColumn(buffer)
            case decode_program.UUID:
                return UuidColumn(buffer)
            case _:
                return NumberColumn(requested, buffer)

    def _bytes_field(
        self, node: KafkaString | KafkaBytes, requested: pa.DataType | None, level: int
    ) -> Column | None:
        is_text = isinstance(node, KafkaString)
        buffers = self.writer.add_bytes(
            level,
            COMPACT if node.compact else _STRING_LENGTH_BYTES if is_text else _LENGTH_BYTES,
            MAX_STRING_BYTES if is_text else _NO_MAX_LENGTH,
            is_nullable=node.nullable,
            is_text=is_text,
            has_buffer=requested is not None,
        )
        return None if requested is None else BytesColumn(requested, *buffers)

    def _array_field(
        self, node: KafkaArray, requested: pa.DataType | None, level: int
    ) -> Column | None:
        array = self.writer.begin_array(
            level,
            COMPACT if node.compact else _LENGTH_BYTES,
            _min_size(node.subcon),
            is_nullable=node.nullable,
            has_buffer=requested is not None,
        )
        element_type = None if requested is None else requested.value_type
        element = self._any_field(node.subcon, element_type, array.level)
        self.writer.end_array(array)
        if requested is None or element is None:
            return None
        return ListColumn(requested, array.ends, array.validity, array.level, element)

    def _nullable_struct_field(
        self, shape: StructShape, requested: pa.DataType | None, level: int
    ) -> Column | None:
        nullable = self.writer.begin_nullable(
            level, behind_tag=shape.is_tagged, has_buffer=requested is not None
        )
        column = self.struct(shape, requested, nullable.level)
        self.writer.end_nullable(nullable)
        return column and OptionalColumn(requested, nullable.instance, nullable.level, column, None)

    def _tagged_fields(
        self, known: Mapping[int, Tagged], requested_types: Mapping[str, pa.DataType], level: int
    ) -> dict[str, Column | None]:
        columns: dict[str, Column | None] = {}
        section, tag_fields = self.writer.begin_tags(
            level,
            {
                tag: KnownTag(tagged.attribute in requested_types, _size_behind(tag, tagged))
                for tag, tagged in known.items()
            },
        )
        for tagged, tag_field in zip(known.values(), tag_fields, strict=True):
            requested = requested_types.get(tagged.attribute)
            self.writer.begin_tag(tag_field)
            column = self._any_field(tagged.subcon, requested, tag_field.level)
            self.writer.end_tag(section)
            default = to_arrow_value(tagged.new_default(), tagged.subcon)
            columns[tagged.attribute] = column and OptionalColumn(
                requested, tag_field.instance, tag_field.level, column, default
            )
        self.writer.end_tags(section)
        return columns


def _size_behind(tag: int, tagged: Tagged) -> int:
    """Return the size that a tagged field must have to be known, or ANY_SIZE."""
    size = tagged.required_size(tag)
    return ANY_SIZE if size is None else size


def _kind(node: Construct) -> int:
    """Return the kind of a field of fixed size."""
    if node is Flag:
        return decode_program.FLAG
    return decode_program.UUID if isinstance(node, Bytes) else _KIND_BY_FORMAT[node.fmtstr]


def _min_size(node: Construct) -> int:
    """Return the minimum size of a field in bytes."""
    if isinstance(node, KafkaStruct):
        if node.shape.nullable:
            return 1
        fields = sum(_min_size(each.subcon) for each in node.shape.fields)
        return fields + node.shape.flexible
    if isinstance(node, KafkaString | KafkaBytes | KafkaArray):
        return (
            1
            if node.compact
            else _STRING_LENGTH_BYTES
            if isinstance(node, KafkaString)
            else _LENGTH_BYTES
        )
    return int(node.sizeof())


def to_arrow_value(value: Any, node: Construct) -> Any:  # noqa: ANN401 - of any field
    """Convert a value of the scalar codec for Arrow; fields that the version lacks become None."""
    if isinstance(value, list):
        assert isinstance(node, KafkaArray)
        return [to_arrow_value(each, node.subcon) for each in value]
    if isinstance(value, Message):
        assert isinstance(node, KafkaStruct)
        known = {each.name: each.subcon for each in node.shape.fields}
        known |= {each.attribute: each.subcon for each in node.shape.tagged.values()}
        row = dict.fromkeys(node.shape.absent)
        return row | {
            name: to_arrow_value(getattr(value, name), subcon) for name, subcon in known.items()
        }
    return bytes(value) if isinstance(value, memoryview) else value
