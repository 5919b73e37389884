"""Messages as JSON in Kafka's own format, as in its request log and its tools.

Field names are Kafka's. Bytes and uuids are base64. A message has the fields of its version; a
tagged field is omitted if it has its default value. Records are replaced by their size unless the
caller requests them.
"""

# ruff: noqa: ANN401 - JSON is anything, and so are messages
from __future__ import annotations

from base64 import b64encode
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite.protocol import codec
from kafkalite.protocol.spec import load_spec, snake_case
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.capture.model import Direction
    from kafkalite.protocol.spec import FieldSpec, StructSpec


class _Field(NamedTuple):
    """A field of one version of a struct, with the function that converts its value."""

    attribute: str
    name: str
    is_tagged: bool
    is_records: bool
    convert: Callable[[Any, bool], Any]


def as_json(
    message: Any, api_key: int, direction: Direction, version: int, *, records: bool = False
) -> dict[str, Any]:
    """Return a message as a dict for `json.dumps`; if `records` is set, with records in base64."""
    return _to_dict(message, _fields(api_key, direction, version), with_records=records)


@cache
def _fields(api_key: int, direction: Direction, version: int) -> tuple[_Field, ...]:
    spec_name = snake_case(codec.api_name(api_key))
    spec = load_spec("apis", f"{spec_name}_{direction.name.lower()}")
    return _fields_of_version(spec.fields, spec.structs, version)


def _fields_of_version(
    fields: Sequence[FieldSpec], structs: Mapping[str, StructSpec], version: int
) -> tuple[_Field, ...]:
    return tuple(
        _Field(
            field.attribute,
            field.name[0].lower() + field.name[1:],
            field.tagged is not None and version in field.tagged,
            field.type == "records",
            _converter(field, structs, version),
        )
        for field in fields
        if version in field.versions
    )


def _converter(
    field: FieldSpec, structs: Mapping[str, StructSpec], version: int
) -> Callable[[Any, bool], Any]:
    struct = structs.get(field.type)
    if struct is None:
        convert = _CONVERTERS.get(field.type)
        if convert is None:
            return lambda value, _: value

        def convert_value(value: Any, with_records: bool) -> Any:  # noqa: ARG001, FBT001 - called in one place
            return None if value is None else convert(value)
    else:
        struct_fields = _fields_of_version(struct.fields, structs, version)

        def convert_value(value: Any, with_records: bool) -> Any:  # noqa: FBT001 - called in one place
            return (
                None if value is None else _to_dict(value, struct_fields, with_records=with_records)
            )

    if not field.is_array:
        return convert_value
    return lambda values, with_records: (
        None if values is None else [convert_value(value, with_records) for value in values]
    )


_CONVERTERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "uuid": uuid_to_text,
    "bytes": lambda value: b64encode(value).decode("ascii"),
    "records": lambda value: b64encode(value).decode("ascii"),
}
"""Type → function that converts a value which JSON cannot represent."""


def _to_dict(message: Any, fields: Sequence[_Field], *, with_records: bool) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for attribute, name, is_tagged, is_records, convert in fields:
        value = getattr(message, attribute)
        if is_tagged and value == getattr(_default_message(message.__class__), attribute):
            continue
        if is_records and not with_records:
            result[f"{name}SizeInBytes"] = 0 if value is None else len(value)
        else:
            result[name] = convert(value, with_records)
    return result


@cache
def _default_message(message_class: type[Any]) -> Any:
    return message_class()
