"""Messages as rows: dictionaries of plain values, which other processes can read."""

# ruff: noqa: ANN401 - messages of any API
from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kafkalite.capture.model import Direction
from kafkalite.protocol import codec
from kafkalite.protocol.message import Message
from kafkalite.protocol.spec import load_spec, snake_case

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.protocol.spec import FieldSpec, MessageSpec

MessageRow = dict[str, Any]
"""Field → value; a struct is a dictionary, and an array a list."""


def row_of(message: Any) -> MessageRow:
    """Return a message as a row."""
    return {
        name: _value(getattr(message, name)) for name in message.__slots__ if name != "unknown_tags"
    }


def _value(value: Any) -> Any:
    if isinstance(value, Message):
        return row_of(value)
    if isinstance(value, list):
        return [*map(_value, value)]
    return bytes(value) if isinstance(value, memoryview) else value


def message_of(api_key: int, direction: Direction, row: Mapping[str, Any]) -> Any:
    """Return a message from a row.

    A field that the row lacks has its default value, and so has one that is None although the
    protocol does not allow it: the version of the message did not have the field.
    """
    return _builder(api_key, direction).build(row)


class _Builder:
    """Builds instances of one class of messages."""

    def __init__(self, kind: type[Any], owner: type[Any], spec: MessageSpec, fields: Any) -> None:
        self._kind = kind
        known = [each for each in fields if each.attribute in kind.__slots__]
        self._nullable = frozenset(each.attribute for each in known if each.nullable is not None)
        self._plain = [each.attribute for each in known if each.type not in spec.structs]
        self._structs = [
            (each.attribute, each.is_array, _struct_builder(owner, spec, each))
            for each in known
            if each.type in spec.structs
        ]

    def build(self, row: Mapping[str, Any]) -> Any:
        values = {}
        for name in self._plain:
            value = row.get(name)
            if value is not None or (name in row and name in self._nullable):
                values[name] = value
        for name, is_array, builder in self._structs:
            value = row.get(name)
            if value is not None:
                values[name] = [*map(builder.build, value)] if is_array else builder.build(value)
            elif name in row and name in self._nullable:
                values[name] = None
        return self._kind(**values)


def _struct_builder(owner: type[Any], spec: MessageSpec, field: FieldSpec) -> _Builder:
    fields: Sequence[FieldSpec] = spec.structs[field.type].fields
    return _Builder(getattr(owner, field.type), owner, spec, fields)


@cache
def _builder(api_key: int, direction: Direction) -> _Builder:
    spec = load_spec("apis", f"{snake_case(codec.api_name(api_key))}_{direction.name.lower()}")
    find = codec.request_class if direction is Direction.REQUEST else codec.response_class
    return _Builder(find(api_key), find(api_key), spec, spec.fields)
