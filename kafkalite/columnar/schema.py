"""Protocol specs → Arrow types: every API in all its versions is one shape, as in `messages`.

A column stands for a field in whatever versions have it; a row of a version that lacks it holds
null, so that what was not said is told from what was said to be the default.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalite.protocol import codec
from kafkalite.protocol.spec import load_spec, snake_case

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.capture.model import Direction
    from kafkalite.protocol.spec import FieldSpec, MessageSpec, StructSpec

SCALARS: Final[Mapping[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "uint16": pa.int32(),  # Spark has no unsigned numbers
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "uuid": pa.binary(),  # sixteen bytes; Spark has none of fixed size
    "bytes": pa.binary(),
    "records": pa.binary(),
}
"""Kafka's types as Spark takes them from Arrow."""


@cache
def message_spec(api_key: int, direction: Direction) -> MessageSpec:
    """Return the spec of an API's requests or responses; KeyError for an unknown key."""
    stem = snake_case(codec.api_name(api_key))
    return load_spec("apis", f"{stem}_{direction.name.lower()}")


@cache
def message_type(api_key: int, direction: Direction) -> pa.StructType:
    """Return the type of an API's requests or responses; KeyError for an unknown key."""
    return spec_type(message_spec(api_key, direction))


def spec_type(spec: MessageSpec) -> pa.StructType:
    """Return the type of any message."""
    return _struct(spec.fields, spec.structs)


def _struct(fields: Sequence[FieldSpec], structs: Mapping[str, StructSpec]) -> pa.StructType:
    return pa.struct([pa.field(field.attribute, _type(field, structs)) for field in fields])


def _type(field: FieldSpec, structs: Mapping[str, StructSpec]) -> pa.DataType:
    struct = structs.get(field.type)
    kind = SCALARS[field.type] if struct is None else _struct(struct.fields, structs)
    return pa.list_(pa.field("element", kind)) if field.is_array else kind
