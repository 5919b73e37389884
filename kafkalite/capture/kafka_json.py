"""Messages as Kafka writes them in JSON: the form of its request log and of its own tools.

Names are Kafka's, bytes and uuids are base64, a version has the fields it has, and a tagged field
is there if it is not at its default. Records are told by their size, unless they are asked for.
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
    """A field of one version of a struct, and how its value is written."""

    attribute: str
    name: str
    is_tagged: bool
    is_records: bool
    write: Callable[[Any, bool], Any]


def as_json(
    message: Any, api_key: int, direction: Direction, version: int, *, records: bool = False
) -> dict[str, Any]:
    """Return a message as what `json.dumps` takes; `records` includes them, in base64."""
    return _object(message, _fields(api_key, direction, version), with_records=records)


@cache
def _fields(api_key: int, direction: Direction, version: int) -> tuple[_Field, ...]:
    stem = snake_case(codec.api_name(api_key))
    spec = load_spec("apis", f"{stem}_{direction.name.lower()}")
    return _of_version(spec.fields, spec.structs, version)


def _of_version(
    fields: Sequence[FieldSpec], structs: Mapping[str, StructSpec], version: int
) -> tuple[_Field, ...]:
    return tuple(
        _Field(
            field.attribute,
            field.name[0].lower() + field.name[1:],
            field.tagged is not None and version in field.tagged,
            field.type == "records",
            _writer(field, structs, version),
        )
        for field in fields
        if version in field.versions
    )


def _writer(
    field: FieldSpec, structs: Mapping[str, StructSpec], version: int
) -> Callable[[Any, bool], Any]:
    struct = structs.get(field.type)
    if struct is None:
        plain = _PLAIN.get(field.type)
        if plain is None:
            return lambda value, _: value
        one: Callable[[Any, bool], Any] = lambda value, _: None if value is None else plain(value)  # noqa: E731
    else:
        inner = _of_version(struct.fields, structs, version)

        def one(value: Any, with_records: bool) -> Any:  # noqa: FBT001 - called in one place
            return None if value is None else _object(value, inner, with_records=with_records)

    if not field.is_array:
        return one
    return lambda values, with_records: (
        None if values is None else [one(value, with_records) for value in values]
    )


_PLAIN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "uuid": uuid_to_text,
    "bytes": lambda value: b64encode(value).decode("ascii"),
    "records": lambda value: b64encode(value).decode("ascii"),
}
"""Type → how a value of it is written that JSON has no words for."""


def _object(message: Any, fields: Sequence[_Field], *, with_records: bool) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for attribute, name, is_tagged, is_records, write in fields:
        value = getattr(message, attribute)
        if is_tagged and value == getattr(_defaults(message.__class__), attribute):
            continue
        if is_records and not with_records:
            written[f"{name}SizeInBytes"] = 0 if value is None else len(value)
        else:
            written[name] = write(value, with_records)
    return written


@cache
def _defaults(kind: type[Any]) -> Any:
    return kind()
