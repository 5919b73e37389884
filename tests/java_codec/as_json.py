"""Converts messages to the JSON that Kafka's generated converters read."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.protocol.message import Message
    from kafkalite.protocol.spec import FieldSpec, MessageSpec


def as_json(spec: MessageSpec, version: int, message: Message) -> dict[str, Any]:
    """Return the fields of a version; a tagged struct that is None is omitted."""
    return _struct(spec, version, spec.fields, message)


def _struct(
    spec: MessageSpec, version: int, fields: Sequence[FieldSpec], message: Message
) -> dict[str, Any]:
    values = {}
    for field in fields:
        if version not in field.versions:
            continue
        value = getattr(message, field.attribute)
        is_absent_struct = value is None and field.tag is not None and field.type[0].isupper()
        if is_absent_struct and field.nullable is None:
            continue
        values[field.name[0].lower() + field.name[1:]] = _value(spec, version, field, value)
    return values


def _value(spec: MessageSpec, version: int, field: FieldSpec, value: Any) -> Any:  # noqa: ANN401
    if value is None:
        return None
    if field.is_array:
        return [_single(spec, version, field.type, row) for row in value]
    return _single(spec, version, field.type, value)


def _single(spec: MessageSpec, version: int, type_name: str, value: Any) -> Any:  # noqa: ANN401
    if type_name in spec.structs:
        return _struct(spec, version, spec.structs[type_name].fields, value)
    if type_name == "uuid":
        return uuid_to_text(value)
    if type_name in ("bytes", "records"):
        return b64encode(value).decode()
    return value
