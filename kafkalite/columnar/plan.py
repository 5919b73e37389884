"""Construct tree → the plan of a columnar decode: what to step over, and what to keep of it.

A plan has two sides. Its steps say how to get from the start of a message to its end, and which
positions to note on the way; its columns say how to read the noted positions afterwards. Fields
that are not asked for keep their step and lose their column.

Everything that a message may hold more or less than once (the rows of an array, a struct that
may be null, a field behind a tag) is a level of its own: a table of instances, each of which
knows the instance of the level above that it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from construct import Bytes, Flag, FormatField

from kafkalite.columnar.schema import message_spec, message_type, prune
from kafkalite.protocol.message import Message
from kafkalite.protocol.primitives import KafkaArray, KafkaBytes, KafkaString, KafkaStruct
from kafkalite.protocol.schema import message_tree

if TYPE_CHECKING:
    import pyarrow as pa
    from construct import Construct

    from kafkalite.capture.model import Direction
    from kafkalite.protocol.primitives import StructShape, Tagged
    from kafkalite.protocol.spec import MessageSpec

UNKEPT: Final = -1
"""The slot of a step whose position nobody asks for."""

_REMEMBERED_PLANS: Final = 1024


# -- steps --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Neighbours of fixed size, stepped over as one; keeps where they begin."""

    size: int
    slot: int


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """A string or bytes; keeps start and end, the end before the start where it is null."""

    compact: bool
    nullable: bool
    is_text: bool
    slot: int


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """An array of rows of one size; keeps start and end, as `Counted` does."""

    compact: bool
    nullable: bool
    size: int
    slot: int


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """An array of any other rows, which are a level; keeps its count, -1 where it is null."""

    compact: bool
    nullable: bool
    slot: int
    body: Body


@dataclass(frozen=True, slots=True, eq=False)
class Maybe:
    """A struct that may be null: a level of those that are not."""

    behind_tag: bool
    body: Body


@dataclass(frozen=True, slots=True, eq=False)
class Tags:
    """A section of tagged fields: each that is known is a level of those that were sent."""

    known: dict[int, Body]


Step = Run | Counted | Packed | Rows | Maybe | Tags


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """The steps over one instance of a level."""

    level: int
    steps: tuple[Step, ...]


# -- columns ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A value of fixed size at some distance from a kept position; `code` as numpy writes it."""

    type: pa.DataType
    slot: int
    offset: int
    code: str


@dataclass(frozen=True, slots=True, eq=False)
class Flags:
    """A boolean."""

    slot: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Uuids:
    """Sixteen bytes."""

    slot: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """A string or bytes, by the slots of a `Counted`."""

    is_text: bool
    slot: int


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """An array, by the slot of its counts and the level of its rows."""

    type: pa.DataType
    slot: int
    level: int
    element: Column


@dataclass(frozen=True, slots=True, eq=False)
class PackedLists:
    """An array by the slots of a `Packed`; the slot of a run stands for all of its rows."""

    type: pa.DataType
    slot: int
    size: int
    run: int
    element: Column


@dataclass(frozen=True, slots=True, eq=False)
class Structs:
    """A struct that is always there, in the same level."""

    type: pa.StructType
    children: tuple[Column, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sometimes:
    """A level that has one instance or none for each of the level above."""

    type: pa.DataType
    level: int
    column: Column
    default: object
    """What stands for none."""


@dataclass(frozen=True, slots=True, eq=False)
class Absent:
    """A field that this version does not have."""

    type: pa.DataType


Column = Number | Flags | Uuids | Slices | Lists | PackedLists | Structs | Sometimes | Absent


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How to decode one message of one version; level 0 has the messages themselves."""

    type: pa.StructType
    body: Body
    column: Structs
    above: tuple[int, ...]
    """By level, the level its instances belong to."""
    slots: int
    sizes: dict[int, int]
    """By the slot of a run, its size."""


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
    body, column = planner.root(message_tree(spec, version), wanted)
    return Plan(wanted, body, column, tuple(planner.above), planner.slots, planner.sizes)


@dataclass(slots=True)
class _Steps:
    """The steps of one body as they are found; neighbours of fixed size grow together."""

    level: int
    sizes: dict[int, int]
    done: list[Step] = field(default_factory=list)
    run_size: int = 0
    run_slot: int = UNKEPT

    def add(self, step: Step) -> None:
        self.end_run()
        self.done.append(step)

    def end_run(self) -> None:
        if self.run_size:
            self.done.append(Run(self.run_size, self.run_slot))
            self.sizes[self.run_slot] = self.run_size
        self.run_size, self.run_slot = 0, UNKEPT

    def finish(self) -> tuple[Step, ...]:
        self.end_run()
        return tuple(self.done)


@dataclass(slots=True)
class _Planner:
    """Numbers the levels and slots of one plan while it walks the tree."""

    above: list[int] = field(default_factory=list)
    slots: int = 0
    sizes: dict[int, int] = field(default_factory=dict)

    def root(self, tree: KafkaStruct, wanted: pa.StructType) -> tuple[Body, Structs]:
        steps = self._steps(0)
        column = self._struct(tree.shape, wanted, steps)
        assert isinstance(column, Structs)
        return _body(steps), column

    def _steps(self, above: int) -> _Steps:
        self.above.append(above)
        return _Steps(len(self.above) - 1, self.sizes)

    def _slot(self, wanted: pa.DataType | None, width: int = 1) -> int:
        if wanted is None:
            return UNKEPT
        self.slots += width
        return self.slots - width

    def _field(self, node: Construct, wanted: pa.DataType | None, steps: _Steps) -> Column | None:
        """Add the steps over one field; its column, None where nobody asks for it."""
        if isinstance(node, KafkaStruct):
            if node.shape.nullable:
                return self._maybe(node, wanted, steps)
            return self._struct(node.shape, wanted, steps)
        if isinstance(node, KafkaArray):
            return self._rows(node, wanted, steps)
        if isinstance(node, KafkaString | KafkaBytes):
            is_text = isinstance(node, KafkaString)
            slot = self._slot(wanted, 2)
            steps.add(Counted(node.compact, node.nullable, is_text, slot))
            return None if wanted is None else Slices(is_text, slot)
        return self._fixed(node, wanted, steps)

    def _fixed(self, node: Construct, wanted: pa.DataType | None, steps: _Steps) -> Column | None:
        offset = steps.run_size
        steps.run_size += node.sizeof()
        if wanted is None:
            return None
        if steps.run_slot == UNKEPT:
            steps.run_slot = self._slot(wanted)
        if node is Flag:
            return Flags(steps.run_slot, offset)
        if isinstance(node, Bytes):
            return Uuids(steps.run_slot, offset)
        assert isinstance(node, FormatField)
        return Number(wanted, steps.run_slot, offset, node.fmtstr.replace("l", "i"))

    def _rows(self, node: KafkaArray, wanted: pa.DataType | None, steps: _Steps) -> Column | None:
        inner = self._steps(steps.level)
        inside = None if wanted is None else wanted.value_type
        element = self._field(node.subcon, inside, inner)
        body = _body(inner)
        if len(body.steps) == 1 and isinstance(run := body.steps[0], Run):
            slot = self._slot(wanted, 2)
            steps.add(Packed(node.compact, node.nullable, run.size, slot))
            if wanted is None or element is None:
                return None
            return PackedLists(wanted, slot, run.size, run.slot, element)
        slot = self._slot(wanted)
        steps.add(Rows(node.compact, node.nullable, slot, body))
        if wanted is None or element is None:
            return None
        return Lists(wanted, slot, inner.level, element)

    def _maybe(self, node: KafkaStruct, wanted: pa.DataType | None, steps: _Steps) -> Column | None:
        inner = self._steps(steps.level)
        column = self._struct(node.shape, wanted, inner)
        steps.add(Maybe(node.shape.behind_tag, _body(inner)))
        return None if column is None else Sometimes(wanted, inner.level, column, None)

    def _struct(
        self, shape: StructShape, wanted: pa.StructType | None, steps: _Steps
    ) -> Column | None:
        types = {} if wanted is None else {each.name: each.type for each in wanted}
        found: dict[str, Column | None] = {}
        for each in shape.fields:
            found[each.name] = self._field(each.subcon, types.get(each.name), steps)
        if shape.flexible:
            known = {}
            for tag, tagged in shape.tagged.items():
                known[tag], column = self._tagged(tagged, types.get(tagged.attribute), steps)
                found[tagged.attribute] = column
            steps.add(Tags(known))
        if wanted is None:
            return None
        return Structs(wanted, tuple(found.get(each.name) or Absent(each.type) for each in wanted))

    def _tagged(
        self, tagged: Tagged, wanted: pa.DataType | None, steps: _Steps
    ) -> tuple[Body, Column | None]:
        inner = self._steps(steps.level)
        column = self._field(tagged.subcon, wanted, inner)
        body = _body(inner)
        if column is None:
            return body, None
        default = plain(tagged.fresh_default(), tagged.subcon)
        return body, Sometimes(wanted, inner.level, column, default)


def _body(steps: _Steps) -> Body:
    return Body(steps.level, steps.finish())


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
