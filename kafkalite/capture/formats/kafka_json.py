"""Messages as JSON in Kafka's own format, as in its request log and its tools.

Field names are Kafka's. Bytes and uuids are base64. A message has the fields of its version; a
tagged field is omitted if it has its default value. Records are replaced by their size unless the
caller requests them.
"""

# ruff: noqa: ANN401 - JSON is anything, and so are messages
from __future__ import annotations

from base64 import b64encode
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol import codec
from kafkalite.protocol.spec import load_spec, snake_case
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.capture.model import Direction
    from kafkalite.protocol.spec import FieldSpec, StructSpec

    RecordsWriter = Callable[[str, Any], Mapping[str, Any]]


class _Field(NamedTuple):
    """A field of one version of a struct, with the function that converts its value."""

    attribute: str
    name: str
    is_tagged: bool
    is_records: bool
    convert: Callable[[Any, RecordsWriter], Any]


def records_as_size(name: str, records: Any) -> Mapping[str, Any]:
    """Return the size of a field with records, in place of the field."""
    return {f"{name}SizeInBytes": 0 if records is None else len(records)}


def records_as_base64(name: str, records: Any) -> Mapping[str, Any]:
    """Return a field with records in base64."""
    return {name: None if records is None else _base64(records)}


def as_json(
    message: Any,
    api_key: int,
    direction: Direction,
    version: int,
    *,
    records: RecordsWriter = records_as_size,
) -> dict[str, Any]:
    """Return a message as a dict for `json.dumps`.

    `records` returns the fields in place of a field with records: (name, value) → fields.
    """
    return _to_dict(message, _fields(api_key, direction, version), records)


def record_as_json(record: Any, version: int) -> dict[str, Any]:
    """Return a key or a value of a log of coordinators as a dict for `json.dumps`."""
    return _to_dict(record, _record_fields(record.CODEC, version), records_as_size)


@cache
def _record_fields(name: str, version: int) -> tuple[_Field, ...]:
    spec = load_spec("records", name)
    return _fields_of_version(spec.fields, spec.structs, version)


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
) -> Callable[[Any, RecordsWriter], Any]:
    struct = structs.get(field.type)
    if struct is None:
        convert = _CONVERTERS.get(field.type)
        if convert is None:
            return lambda value, _: value

        def convert_value(value: Any, records: RecordsWriter) -> Any:  # noqa: ARG001 - see below
            return None if value is None else convert(value)
    else:
        struct_fields = _fields_of_version(struct.fields, structs, version)

        def convert_value(value: Any, records: RecordsWriter) -> Any:
            return None if value is None else _to_dict(value, struct_fields, records)

    if not field.is_array:
        return convert_value
    return lambda values, records: (
        None if values is None else [convert_value(value, records) for value in values]
    )


def _base64(value: Any) -> str:
    return b64encode(value).decode("ascii")


_CONVERTERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "uuid": uuid_to_text,
    "bytes": _base64,
}
"""Type → function that converts a value which JSON cannot represent."""


def _to_dict(message: Any, fields: Sequence[_Field], records: RecordsWriter) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for attribute, name, is_tagged, is_records, convert in fields:
        value = getattr(message, attribute)
        if is_tagged and value == getattr(_default_message(message.__class__), attribute):
            continue
        if is_records:
            result.update(records(name, value))
        else:
            result[name] = convert(value, records)
    return result


@cache
def _default_message(message_class: type[Any]) -> Any:
    return message_class()
