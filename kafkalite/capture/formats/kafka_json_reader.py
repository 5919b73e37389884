"""Messages from JSON in Kafka's own format, as `kafka_json.as_json` returns them."""

# ruff: noqa: ANN401 - JSON is anything, and so are messages
from __future__ import annotations

import binascii
import re
from base64 import b64decode
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.model import Direction
from kafkalite.ports.similar_names import similar_names_hint
from kafkalite.protocol import codec
from kafkalite.protocol.spec import load_spec, snake_case
from kafkalite.protocol.uuids import parse_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.protocol.spec import FieldSpec, StructSpec

_MAX_TEXT_BYTES: Final = 32_767
_INTEGER: Final = re.compile(r"(u?)int(\d+)")


class MessageJsonError(ValueError):
    """JSON that is no message; the text is one sentence that names the field."""


def message_of(fields: Any, api_key: int, direction: Direction, version: int) -> Any:
    """Return the message with these fields of a version; missing fields have their defaults.

    Bytes may be `bytes` as well as base64. Raises MessageJsonError for an unknown field or another
    type of value.
    """
    name = snake_case(codec.api_name(api_key))
    spec = load_spec("apis", f"{name}_{direction.name.lower()}")
    is_request = direction is Direction.REQUEST
    kind = codec.request_class(api_key) if is_request else codec.response_class(api_key)
    return _Reader(kind, spec.structs, version).struct(kind, spec.fields, fields, "")


class _Reader:
    """Reads the structs of one version of a message."""

    def __init__(self, kind: Any, structs: Mapping[str, StructSpec], version: int) -> None:
        self._kind = kind
        self._structs = structs
        self._version = version

    def struct(self, kind: Any, fields: Sequence[FieldSpec], given: Any, path: str) -> Any:
        """Return the struct at a path."""
        if not isinstance(given, dict):
            raise _wrong(path, "an object", given)
        known = {
            field.name[0].lower() + field.name[1:]: field
            for field in fields
            if self._version in field.versions
        }
        read = kind()
        for name, value in given.items():
            field = known.get(name)
            if field is None:
                hint = (
                    similar_names_hint(str(name), known) or f"; the fields are {', '.join(known)}"
                )
                place = f" of {path}" if path else ""
                raise MessageJsonError(f"there is no field {short_repr(name)}{place}{hint}")
            place = f"{path}.{name}" if path else name
            setattr(read, field.attribute, self._value(field, value, place))
        return read

    def _value(self, field: FieldSpec, value: Any, path: str) -> Any:
        if value is None and field.nullable is not None and self._version in field.nullable:
            return None
        if not field.is_array:
            return self._element(field, value, path)
        if not isinstance(value, list):
            raise _wrong(path, "a list", value)
        return [self._element(field, each, f"{path}[{i}]") for i, each in enumerate(value)]

    def _element(self, field: FieldSpec, value: Any, path: str) -> Any:
        struct = self._structs.get(field.type)
        if struct is not None:
            return self.struct(getattr(self._kind, struct.name), struct.fields, value, path)
        integer = _INTEGER.fullmatch(field.type)
        if integer is not None:
            return _integer(value, path, bits=int(integer[2]), is_signed=not integer[1])
        return _READERS[field.type](value, path)


def _integer(value: Any, path: str, *, bits: int, is_signed: bool) -> int:
    lowest = -(1 << bits - 1) if is_signed else 0
    highest = lowest + (1 << bits) - 1
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise _wrong(path, f"a whole number from {lowest} to {highest}", value)
    return int(value)


def _bool(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(path, "true or false", value)
    return value


def _float(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(path, "a number", value)
    return float(value)


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong(path, "text", value)
    if len(value.encode(errors="surrogatepass")) > _MAX_TEXT_BYTES:
        raise _wrong(path, f"text of at most {_MAX_TEXT_BYTES} bytes", value)
    return value


def _uuid(value: Any, path: str) -> bytes:
    try:
        return parse_uuid(_text(value, path))
    except ValueError as error:
        raise _wrong(path, "a uuid in base64", value) from error


def _bytes(value: Any, path: str) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return b64decode(_text(value, path), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _wrong(path, "bytes in base64", value) from error


_READERS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "bool": _bool,
    "float64": _float,
    "string": _text,
    "uuid": _uuid,
    "bytes": _bytes,
    "records": _bytes,
}
"""Type → function that reads a value at a path."""


def _wrong(path: str, expected: str, value: Any) -> MessageJsonError:
    return MessageJsonError(f"{path or 'the message'} must be {expected}, not {short_repr(value)}")
