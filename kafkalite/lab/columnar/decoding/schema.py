"""Arrow types of messages: all versions of an API have one type, like the generated messages.

A column is null in rows of versions that do not have its field. So a field that a version lacks
differs from a field with its default value.
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
    from kafkalite.protocol.spec import FieldSpec, MessageSpec

SCALARS: Final[Mapping[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "uint16": pa.int32(),  # Spark has no unsigned types
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "uuid": pa.binary(),  # 16 bytes; Spark has no fixed-size binary type
    "bytes": pa.binary(),
    "records": pa.binary(),
}
"""Kafka's type → Arrow type that Spark supports."""


@cache
def message_spec(api_key: int, direction: Direction) -> MessageSpec:
    """Return the spec of an API's requests or responses; raises KeyError for an unknown key."""
    spec_name = snake_case(codec.api_name(api_key))
    return load_spec("apis", f"{spec_name}_{direction.name.lower()}")


@cache
def message_type(api_key: int, direction: Direction) -> pa.StructType:
    """Return the type of an API's requests or responses; raises KeyError for an unknown key."""
    return spec_type(message_spec(api_key, direction))


def prune(full_type: pa.StructType, fields: Sequence[str]) -> pa.StructType:
    """Return a struct with the named fields only, in the order of `full_type`.

    A name is a path with dots, through arrays and structs: "topics.partitions". All fields below a
    path are included. Raises KeyError for an unknown path.
    """
    paths_by_field: dict[str, list[str]] = {}
    for path in fields:
        name, _, subpath = path.partition(".")
        paths_by_field.setdefault(name, []).append(subpath)
    selected = []
    for field in full_type:
        subpaths = paths_by_field.pop(field.name, None)
        if subpaths is not None:
            selected.append(
                field if "" in subpaths else field.with_type(_prune_type(field.type, subpaths))
            )
    if paths_by_field:
        raise KeyError(f"unknown field: {', '.join(paths_by_field)}")
    return pa.struct(selected)


def _prune_type(data_type: pa.DataType, fields: Sequence[str]) -> pa.DataType:
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_prune_type(data_type.value_type, fields)))
    if not pa.types.is_struct(data_type):
        raise KeyError(f"unknown field: {fields[0]}")
    return prune(data_type, fields)


def spec_type(spec: MessageSpec) -> pa.StructType:
    """Return the Arrow type of any message."""
    return _struct(spec.fields, spec)


def _struct(fields: Sequence[FieldSpec], spec: MessageSpec) -> pa.StructType:
    # Some fields exist only in versions that Kafka no longer supports.
    supported_fields = [each for each in fields if each.versions.overlap(spec.versions) is not None]
    return pa.struct([pa.field(each.attribute, _type(each, spec)) for each in supported_fields])


def _type(field: FieldSpec, spec: MessageSpec) -> pa.DataType:
    struct = spec.structs.get(field.type)
    data_type = SCALARS[field.type] if struct is None else _struct(struct.fields, spec)
    return pa.list_(pa.field("element", data_type)) if field.is_array else data_type
