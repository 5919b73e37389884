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

from kafkalite.protocol.codec_helpers import MAX_STRING_BYTES
from kafkalite.protocol.message import Message
from kafkalite.protocol.primitives import KafkaArray, KafkaBytes, KafkaString, KafkaStruct
from kafkalite.protocol.schema import message_tree
from kafkalite.traffic.columnar import decode_program
from kafkalite.traffic.columnar.decode_program import COMPACT, Program, Writer
from kafkalite.traffic.columnar.schema import message_spec, message_type, prune

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from construct import Construct

    from kafkalite.protocol.primitives import StructShape, Tagged
    from kafkalite.protocol.spec import MessageSpec
    from kafkalite.traffic.model import Direction

_REMEMBERED_PLANS: Final = 1024
_TEXT_LENGTH, _LENGTH = 2, 4
_ANY_LENGTH: Final = 1 << 60

_NUMBERS: Final[Mapping[str, int]] = {
    ">b": decode_program.INT8,
    ">h": decode_program.INT16,
    ">H": decode_program.UINT16,
    ">i": decode_program.INT32,
    ">l": decode_program.INT32,
    ">q": decode_program.INT64,
    ">d": decode_program.INT64,  # byte order is swapped as for an integer
}
"""construct's format → kind of field."""


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """Values of fixed size, in Arrow's format."""

    type: pa.DataType
    buffer: int


@dataclass(frozen=True, slots=True, eq=False)
class Flags:
    """Booleans, one byte each."""

    buffer: int


@dataclass(frozen=True, slots=True, eq=False)
class Uuids:
    """Uuids, 16 bytes each."""

    buffer: int


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """Strings or bytes: buffers of the end positions, of the bytes, and of the validity."""

    type: pa.DataType
    ends: int
    values: int
    validity: int
    """NO_BUFFER if no value can be null."""


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Arrays: buffers of the end positions and of the validity; the elements form a level."""

    type: pa.DataType
    ends: int
    validity: int
    level: int
    element: Column


@dataclass(frozen=True, slots=True, eq=False)
class Structs:
    """Structs that are never null, in the same level."""

    type: pa.StructType
    children: tuple[Column, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OptionalColumn:
    """Nullable structs and tagged fields: the buffer of instance numbers in `level`, or -1."""

    type: pa.DataType
    instance: int
    level: int
    column: Column
    default: object
    """The value of rows without an instance."""


@dataclass(frozen=True, slots=True, eq=False)
class Absent:
    """A field that this version does not have."""

    type: pa.DataType


Column = Number | Flags | Uuids | Slices | Lists | Structs | OptionalColumn | Absent


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A program and the columns that it fills, for one message of one version."""

    type: pa.StructType
    program: Program
    column: Structs


@lru_cache(_REMEMBERED_PLANS)
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
    assert isinstance(column, Structs)
    return Plan(requested, planner.out.program(), column)


@dataclass(frozen=True, slots=True)
class _Planner:
    """Walks a construct tree; returns the column of each field, None if it is not requested."""

    out: Writer = field(default_factory=Writer)

    def struct(
        self, shape: StructShape, requested: pa.StructType | None, level: int
    ) -> Column | None:
        types = {} if requested is None else {each.name: each.type for each in requested}
        found: dict[str, Column | None] = {}
        for each in shape.fields:
            found[each.name] = self._field(each.subcon, types.get(each.name), level)
        if shape.flexible:
            found |= self._tags(shape.tagged, types, level)
        if requested is None:
            return None
        return Structs(
            requested, tuple(found.get(each.name) or Absent(each.type) for each in requested)
        )

    def _field(self, node: Construct, requested: pa.DataType | None, level: int) -> Column | None:
        if isinstance(node, KafkaStruct):
            if node.shape.nullable:
                return self._nullable_struct(node.shape, requested, level)
            return self.struct(node.shape, requested, level)
        if isinstance(node, KafkaArray):
            return self._rows(node, requested, level)
        if isinstance(node, KafkaString | KafkaBytes):
            return self._counted(node, requested, level)
        return self._fixed(node, requested, level)

    def _fixed(self, node: Construct, requested: pa.DataType | None, level: int) -> Column | None:
        if requested is None:
            self.out.fixed(level, node.sizeof(), None)
            return None
        kind = _kind(node)
        buffer = self.out.fixed(level, node.sizeof(), kind)
        match kind:
            case decode_program.FLAG:
                return Flags(buffer)
            case decode_program.UUID:
                return Uuids(buffer)
            case _:
                return Number(requested, buffer)

    def _counted(
        self, node: KafkaString | KafkaBytes, requested: pa.DataType | None, level: int
    ) -> Column | None:
        is_text = isinstance(node, KafkaString)
        buffers = self.out.counted(
            level,
            COMPACT if node.compact else _TEXT_LENGTH if is_text else _LENGTH,
            MAX_STRING_BYTES if is_text else _ANY_LENGTH,
            nullable=node.nullable,
            is_text=is_text,
            has_buffer=requested is not None,
        )
        return None if requested is None else Slices(requested, *buffers)

    def _rows(self, node: KafkaArray, requested: pa.DataType | None, level: int) -> Column | None:
        array = self.out.begin_rows(
            level,
            COMPACT if node.compact else _LENGTH,
            _min_size(node.subcon),
            nullable=node.nullable,
            has_buffer=requested is not None,
        )
        inside = None if requested is None else requested.value_type
        element = self._field(node.subcon, inside, array.level)
        self.out.end_rows(array)
        if requested is None or element is None:
            return None
        return Lists(requested, array.ends, array.validity, array.level, element)

    def _nullable_struct(
        self, shape: StructShape, requested: pa.DataType | None, level: int
    ) -> Column | None:
        nullable = self.out.begin_nullable(
            level, behind_tag=shape.is_tagged, has_buffer=requested is not None
        )
        column = self.struct(shape, requested, nullable.level)
        self.out.end_nullable(nullable)
        return column and OptionalColumn(requested, nullable.instance, nullable.level, column, None)

    def _tags(
        self, known: Mapping[int, Tagged], types: Mapping[str, pa.DataType], level: int
    ) -> dict[str, Column | None]:
        found: dict[str, Column | None] = {}
        section, tag_fields = self.out.begin_tags(
            level, {tag: tagged.attribute in types for tag, tagged in known.items()}
        )
        for tagged, tag_field in zip(known.values(), tag_fields, strict=True):
            requested = types.get(tagged.attribute)
            self.out.begin_tag(tag_field)
            column = self._field(tagged.subcon, requested, tag_field.level)
            self.out.end_tag(section)
            default = to_arrow_value(tagged.new_default(), tagged.subcon)
            found[tagged.attribute] = column and OptionalColumn(
                requested, tag_field.instance, tag_field.level, column, default
            )
        self.out.end_tags(section)
        return found


def _kind(node: Construct) -> int:
    """Return the kind of a field of fixed size."""
    if node is Flag:
        return decode_program.FLAG
    return decode_program.UUID if isinstance(node, Bytes) else _NUMBERS[node.fmtstr]


def _min_size(node: Construct) -> int:
    """Return the minimum size of a field in bytes."""
    if isinstance(node, KafkaStruct):
        if node.shape.nullable:
            return 1
        fields = sum(_min_size(each.subcon) for each in node.shape.fields)
        return fields + node.shape.flexible
    if isinstance(node, KafkaString | KafkaBytes | KafkaArray):
        return 1 if node.compact else _TEXT_LENGTH if isinstance(node, KafkaString) else _LENGTH
    return int(node.sizeof())


def to_arrow_value(value: Any, node: Construct) -> Any:  # noqa: ANN401 - of any field
    """Convert a scalar codec's value for Arrow; fields that the version lacks become None."""
    if isinstance(value, list):
        assert isinstance(node, KafkaArray)
        return [to_arrow_value(each, node.subcon) for each in value]
    if isinstance(value, Message):
        assert isinstance(node, KafkaStruct)
        known = {each.name: each.subcon for each in node.shape.fields}
        known |= {each.attribute: each.subcon for each in node.shape.tagged.values()}
        row = dict.fromkeys(node.shape.absent)
        return row | {
            name: to_arrow_value(getattr(value, name), sub) for name, sub in known.items()
        }
    return bytes(value) if isinstance(value, memoryview) else value
