"""Construct tree → the plan of a columnar decode: a program to walk messages, and its columns.

The program fills buffers, and the columns say which of them are what. Fields that are not asked
for are walked over all the same, but have neither buffer nor column.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from construct import Bytes, Flag

from kafkalite.columnar import program
from kafkalite.columnar.program import COMPACT, Program, Writer
from kafkalite.columnar.schema import message_spec, message_type, prune
from kafkalite.protocol.message import Message
from kafkalite.protocol.primitives import KafkaArray, KafkaBytes, KafkaString, KafkaStruct
from kafkalite.protocol.schema import message_tree
from kafkalite.protocol.straightline import LONGEST_STRING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from construct import Construct

    from kafkalite.capture.model import Direction
    from kafkalite.protocol.primitives import StructShape, Tagged
    from kafkalite.protocol.spec import MessageSpec

_REMEMBERED_PLANS: Final = 1024
_TEXT_LENGTH, _LENGTH = 2, 4
_ANY_LENGTH: Final = 1 << 60

_NUMBERS: Final[Mapping[str, int]] = {
    ">b": program.INT8,
    ">h": program.INT16,
    ">H": program.UINT16,
    ">i": program.INT32,
    ">l": program.INT32,
    ">q": program.INT64,
    ">d": program.INT64,  # whose bytes are turned as a number's are
}
"""Kinds of fields, as construct writes them."""


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """Values of fixed size, as Arrow has them."""

    type: pa.DataType
    buffer: int


@dataclass(frozen=True, slots=True, eq=False)
class Flags:
    """Booleans, a byte each."""

    buffer: int


@dataclass(frozen=True, slots=True, eq=False)
class Uuids:
    """Sixteen bytes each."""

    buffer: int


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """Strings or bytes: where each ends, the bytes of all, and which are there."""

    type: pa.DataType
    ends: int
    held: int
    marks: int
    """UNKEPT where none can be null."""


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Arrays: where each ends among the rows of all, which are a level; and which are there."""

    type: pa.DataType
    ends: int
    marks: int
    level: int
    element: Column


@dataclass(frozen=True, slots=True, eq=False)
class Structs:
    """Structs that are always there, in the same level."""

    type: pa.StructType
    children: tuple[Column, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sometimes:
    """What is there or not: which instance of its level each is, -1 for none."""

    type: pa.DataType
    which: int
    level: int
    column: Column
    default: object
    """What stands for none."""


@dataclass(frozen=True, slots=True, eq=False)
class Absent:
    """A field that this version does not have."""

    type: pa.DataType


Column = Number | Flags | Uuids | Slices | Lists | Structs | Sometimes | Absent


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How to decode one message of one version."""

    type: pa.StructType
    program: Program
    column: Structs


@lru_cache(_REMEMBERED_PLANS)
def message_plan(
    api_key: int, version: int, direction: Direction, fields: tuple[str, ...] | None = None
) -> Plan:
    """Plan an API's requests or responses; KeyError for an unknown key or version."""
    spec = message_spec(api_key, direction)
    if version not in spec.versions:
        raise KeyError((api_key, version))
    wanted = message_type(api_key, direction)
    return spec_plan(spec, version, wanted if fields is None else prune(wanted, fields))


def spec_plan(spec: MessageSpec, version: int, wanted: pa.StructType) -> Plan:
    """Plan any message as a struct of this type, which may have fewer fields than the spec."""
    planner = _Planner()
    column = planner.struct(message_tree(spec, version).shape, wanted, 0)
    assert isinstance(column, Structs)
    return Plan(wanted, planner.out.program(), column)


@dataclass(frozen=True, slots=True)
class _Planner:
    """Goes through a tree; of each field returns the column, None where nobody asks for it."""

    out: Writer = field(default_factory=Writer)

    def struct(self, shape: StructShape, wanted: pa.StructType | None, level: int) -> Column | None:
        types = {} if wanted is None else {each.name: each.type for each in wanted}
        found: dict[str, Column | None] = {}
        for each in shape.fields:
            found[each.name] = self._field(each.subcon, types.get(each.name), level)
        if shape.flexible:
            found |= self._tags(shape.tagged, types, level)
        if wanted is None:
            return None
        return Structs(wanted, tuple(found.get(each.name) or Absent(each.type) for each in wanted))

    def _field(self, node: Construct, wanted: pa.DataType | None, level: int) -> Column | None:
        if isinstance(node, KafkaStruct):
            if node.shape.nullable:
                return self._maybe(node.shape, wanted, level)
            return self.struct(node.shape, wanted, level)
        if isinstance(node, KafkaArray):
            return self._rows(node, wanted, level)
        if isinstance(node, KafkaString | KafkaBytes):
            return self._counted(node, wanted, level)
        return self._fixed(node, wanted, level)

    def _fixed(self, node: Construct, wanted: pa.DataType | None, level: int) -> Column | None:
        if wanted is None:
            self.out.fixed(level, node.sizeof(), None)
            return None
        kind = _kind(node)
        buffer = self.out.fixed(level, node.sizeof(), kind)
        match kind:
            case program.FLAG:
                return Flags(buffer)
            case program.UUID:
                return Uuids(buffer)
            case _:
                return Number(wanted, buffer)

    def _counted(
        self, node: KafkaString | KafkaBytes, wanted: pa.DataType | None, level: int
    ) -> Column | None:
        is_text = isinstance(node, KafkaString)
        buffers = self.out.counted(
            level,
            COMPACT if node.compact else _TEXT_LENGTH if is_text else _LENGTH,
            LONGEST_STRING if is_text else _ANY_LENGTH,
            nullable=node.nullable,
            is_text=is_text,
            is_kept=wanted is not None,
        )
        return None if wanted is None else Slices(wanted, *buffers)

    def _rows(self, node: KafkaArray, wanted: pa.DataType | None, level: int) -> Column | None:
        array = self.out.begin_rows(
            level,
            COMPACT if node.compact else _LENGTH,
            _least_size(node.subcon),
            nullable=node.nullable,
            is_kept=wanted is not None,
        )
        inside = None if wanted is None else wanted.value_type
        element = self._field(node.subcon, inside, array.level)
        self.out.end_rows(array)
        if wanted is None or element is None:
            return None
        return Lists(wanted, array.ends, array.marks, array.level, element)

    def _maybe(self, shape: StructShape, wanted: pa.DataType | None, level: int) -> Column | None:
        maybe = self.out.begin_maybe(level, behind_tag=shape.behind_tag, is_kept=wanted is not None)
        column = self.struct(shape, wanted, maybe.level)
        self.out.end_maybe(maybe)
        return column and Sometimes(wanted, maybe.which, maybe.level, column, None)

    def _tags(
        self, known: Mapping[int, Tagged], types: Mapping[str, pa.DataType], level: int
    ) -> dict[str, Column | None]:
        found: dict[str, Column | None] = {}
        section, places = self.out.begin_tags(
            level, {tag: tagged.attribute in types for tag, tagged in known.items()}
        )
        for tagged, place in zip(known.values(), places, strict=True):
            wanted = types.get(tagged.attribute)
            self.out.begin_tag(place)
            column = self._field(tagged.subcon, wanted, place.level)
            self.out.end_tag(section)
            default = plain(tagged.fresh_default(), tagged.subcon)
            found[tagged.attribute] = column and Sometimes(
                wanted, place.which, place.level, column, default
            )
        self.out.end_tags(section)
        return found


def _kind(node: Construct) -> int:
    """Return which kind of field something of fixed size is."""
    if node is Flag:
        return program.FLAG
    return program.UUID if isinstance(node, Bytes) else _NUMBERS[node.fmtstr]


def _least_size(node: Construct) -> int:
    """Return how many bytes a field has at least."""
    if isinstance(node, KafkaStruct):
        if node.shape.nullable:
            return 1
        fields = sum(_least_size(each.subcon) for each in node.shape.fields)
        return fields + node.shape.flexible
    if isinstance(node, KafkaString | KafkaBytes | KafkaArray):
        return 1 if node.compact else _TEXT_LENGTH if isinstance(node, KafkaString) else _LENGTH
    return int(node.sizeof())


def plain(value: Any, node: Construct) -> Any:  # noqa: ANN401 - of any field
    """Turn a scalar codec's value into what Arrow takes: fields a version lacks become None."""
    if isinstance(value, list):
        assert isinstance(node, KafkaArray)
        return [plain(each, node.subcon) for each in value]
    if isinstance(value, Message):
        assert isinstance(node, KafkaStruct)
        known = {each.name: each.subcon for each in node.shape.fields}
        known |= {each.attribute: each.subcon for each in node.shape.tagged.values()}
        row = dict.fromkeys(node.shape.absent)
        return row | {name: plain(getattr(value, name), sub) for name, sub in known.items()}
    return bytes(value) if isinstance(value, memoryview) else value
