"""AvroReader: values in Avro's binary encoding as values that JSON can represent, within limits.

Clients register schemas and write values, and libraries for Avro trust both: an array of nulls has
billions of items in a few bytes, and a recursive schema exhausts the stack of the process. So this
reader counts the values, and limits the depth.
"""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

from kafkalite.config.typed_json import quote
from kafkalite.control.console.schemas import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MAX_DEPTH: Final = 64
"""The maximum depth of a schema, and of a value."""
MAX_NAME: Final = 512
"""The maximum number of characters of a name in a schema: a value repeats it many times."""
_VARINT_BITS: Final = 7
_MAX_VARINT_SHIFT: Final = 63
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_DURATION: Final = struct.Struct("<III")
_MILLIS, _MICROS, _NANOS = 1_000, 1_000_000, 1_000_000_000
_SECONDS_PER_DAY: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_DECIMAL_BYTES: Final = 512
_MAX_SCALE: Final = 1_000
_UUID_BYTES: Final = 16

_Read: TypeAlias = "Callable[[_Input, int], Any]"
"""Reads a value at a depth."""


class ValueCount:
    """The number of values that may still be read; several readers can share it."""

    def __init__(self, remaining: int) -> None:
        self.remaining = remaining

    def add(self) -> None:
        """Count one value; raises SchemaError for too many."""
        self.remaining -= 1
        if self.remaining < 0:
            raise SchemaError("the values are not decoded: they have too many parts")


class AvroReader:
    """Reads values of one schema."""

    def __init__(self, text: str, used: Sequence[str] = ()) -> None:
        """Use the schema `text`, and before it those that it uses; raises SchemaError."""
        self._named: dict[str, _Read] = {}
        try:
            for each in (*used, text):
                self._read = self._reader(json.loads(each), "", 0)
        except (ValueError, RecursionError) as error:
            if isinstance(error, SchemaError):
                raise
            raise SchemaError(f"the schema is not JSON: {error}") from error

    def value(self, data: bytes, count: ValueCount) -> Any:  # noqa: ANN401 - any JSON
        """Return a value; raises SchemaError for bytes that are no value of the schema."""
        source = _Input(data, count)
        found = self._read(source, 0)
        if source.position != len(data):
            raise SchemaError(f"{len(data) - source.position} bytes follow the value")
        return found

    def _reader(self, schema: Any, namespace: str, depth: int) -> _Read:  # noqa: ANN401 - JSON
        if depth > MAX_DEPTH:
            raise SchemaError(f"the schema has more than {MAX_DEPTH} levels")
        if isinstance(schema, str):
            return self._named_reader(schema, namespace)
        if isinstance(schema, list):
            return _union([self._reader(each, namespace, depth + 1) for each in schema])
        if not isinstance(schema, dict):
            raise SchemaError(f"the schema has {quote(schema)} in place of a type")
        kind = schema.get("type")
        if not isinstance(kind, str):
            return self._reader(kind, namespace, depth + 1)
        if kind in {"array", "map"}:
            element = self._reader(
                schema.get("items" if kind == "array" else "values"), namespace, depth + 1
            )
            return partial(_array if kind == "array" else _map, element)
        if kind in {"record", "error", "enum", "fixed"}:
            return self._definition(kind, schema, namespace, depth)
        read = self._named_reader(kind, namespace)
        return _logical(read, kind, schema)

    def _named_reader(self, name: str, namespace: str) -> _Read:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        # The definition of a recursive type is not complete yet.
        if full not in self._named and name not in self._named:
            raise SchemaError(f"the schema has the unknown type {quote(name)}")
        return partial(self._read_named, full if full in self._named else name)

    def _read_named(self, name: str, source: _Input, depth: int) -> Any:  # noqa: ANN401 - a value
        return self._named[name](source, depth)

    def _definition(
        self, kind: str, schema: Mapping[str, Any], namespace: str, depth: int
    ) -> _Read:
        name = _name_in(schema)
        given = schema.get("namespace")
        if "." in name:
            namespace = name.rpartition(".")[0]
        elif isinstance(given, str):
            namespace = given
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if kind == "enum":
            read: _Read = _enum([_checked_name(each) for each in _list_in(schema, "symbols")])
        elif kind == "fixed":
            size = schema.get("size")
            if not isinstance(size, int) or size < 0:
                raise SchemaError(f"the schema has {quote(size)} as the size of {quote(name)}")
            read = _logical(partial(_fixed, size), kind, schema)
        else:
            self._named[full] = _incomplete
            fields = [
                (_name_in(each), self._reader(each.get("type"), namespace, depth + 1))
                for each in _list_in(schema, "fields")
                if isinstance(each, dict)
            ]
            read = partial(_record, fields)
        self._named[full] = read
        return read


class _Input:
    """The bytes of a value, and the position of what comes next."""

    __slots__ = ("count", "data", "position")

    def __init__(self, data: bytes, count: ValueCount) -> None:
        self.data = data
        self.count = count
        self.position = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise SchemaError(f"the value ends early, at byte {len(self.data)}")
        found = self.data[self.position : end]
        self.position = end
        return found

    def long(self) -> int:
        """Return the next int or long: a variable number of bytes, zigzag."""
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the last byte
                return (number >> 1) ^ -(number & 1)
            shift += _VARINT_BITS
            if shift > _MAX_VARINT_SHIFT:
                raise SchemaError(f"the value has an invalid number before byte {self.position}")


def _name_in(schema: Mapping[str, Any]) -> str:
    return _checked_name(schema.get("name"))


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise SchemaError(f"the schema has {quote(name)} in place of a name")
    return name


def _list_in(schema: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = schema.get(name)
    if not isinstance(found, list):
        raise SchemaError(f"the schema has {quote(found)} in place of a list of {name}")
    return found


def _counted(read: Callable[[_Input], Any]) -> _Read:
    def read_one(source: _Input, depth: int) -> Any:  # noqa: ANN401 - a value
        del depth
        source.count.add()
        return read(source)

    return read_one


def _deeper(source: _Input, depth: int) -> int:
    """Count a value with others in it, and return their depth."""
    source.count.add()
    if depth >= MAX_DEPTH:
        raise SchemaError(f"the value has more than {MAX_DEPTH} levels")
    return depth + 1


def _incomplete(source: _Input, depth: int) -> Any:  # noqa: ANN401 - as the other functions
    raise AssertionError(source, depth)


def _record(fields: Sequence[tuple[str, _Read]], source: _Input, depth: int) -> Mapping[str, Any]:
    inner = _deeper(source, depth)
    return {name: read(source, inner) for name, read in fields}


def _union(branches: Sequence[_Read]) -> _Read:
    def read(source: _Input, depth: int) -> Any:  # noqa: ANN401 - a value
        inner = _deeper(source, depth)
        index = source.long()
        if not 0 <= index < len(branches):
            raise SchemaError(f"the value has branch {index} of a union of {len(branches)}")
        return branches[index](source, inner)

    return read


def _enum(symbols: Sequence[str]) -> _Read:
    def read(source: _Input) -> str:
        index = source.long()
        if not 0 <= index < len(symbols):
            raise SchemaError(f"the value has symbol {index} of an enum of {len(symbols)}")
        return symbols[index]

    return _counted(read)


def _block_counts(source: _Input) -> Iterator[int]:
    """Yield the number of items of each block of an array or a map."""
    while number := source.long():
        if number < 0:
            source.long()  # the size of the block, with which readers can skip it
        yield abs(number)


def _array(read: _Read, source: _Input, depth: int) -> Sequence[Any]:
    inner = _deeper(source, depth)
    return [read(source, inner) for number in _block_counts(source) for _ in range(number)]


def _map(read: _Read, source: _Input, depth: int) -> Mapping[str, Any]:
    inner = _deeper(source, depth)
    return {
        _string(source): read(source, inner)
        for number in _block_counts(source)
        for _ in range(number)
    }


def _fixed(size: int, source: _Input, depth: int) -> bytes:
    del depth
    source.count.add()
    return source.take(size)


def _bytes(source: _Input) -> bytes:
    return source.take(source.long())


def _string(source: _Input) -> str:
    return _bytes(source).decode(errors="backslashreplace")


def _boolean(source: _Input) -> bool:
    return source.take(1) != b"\x00"


def _null(source: _Input) -> None:
    del source


_PRIMITIVES: Final[Mapping[str, _Read]] = {
    "null": _counted(_null),
    "boolean": _counted(_boolean),
    "int": _counted(_Input.long),
    "long": _counted(_Input.long),
    "float": _counted(lambda source: _FLOAT.unpack(source.take(_FLOAT.size))[0]),
    "double": _counted(lambda source: _DOUBLE.unpack(source.take(_DOUBLE.size))[0]),
    "bytes": _counted(_bytes),
    "string": _counted(_string),
}


# Logical types


def _logical(read: _Read, kind: str, schema: Mapping[str, Any]) -> _Read:
    """Return a reader that shows values of a logical type as people write them."""
    convert = _LOGICAL.get((kind, f"{schema.get('logicalType')}"))
    if convert is None:
        return read
    scale = schema.get("scale", 0)

    def read_logical(source: _Input, depth: int) -> Any:  # noqa: ANN401 - a value
        return convert(read(source, depth), scale)

    return read_logical


def _date(days: int, scale: object) -> object:
    del scale
    try:
        return (_EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return days


def _fraction(part: int, per_second: int) -> str:
    return f".{part:0{len(f'{per_second}') - 1}d}"


def _time(per_second: int, units: int, scale: object) -> object:
    del scale
    seconds, part = divmod(units, per_second)
    if not 0 <= seconds < _SECONDS_PER_DAY:
        return units
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment:%H:%M:%S}{_fraction(part, per_second)}"


def _timestamp(per_second: int, suffix: str, units: int, scale: object) -> object:
    del scale
    seconds, part = divmod(units, per_second)
    try:
        moment = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)
    except OverflowError:
        return units
    return f"{moment.isoformat()}{_fraction(part, per_second)}{suffix}"


def _decimal(unscaled: bytes, scale: object) -> object:
    is_valid = isinstance(scale, int) and 0 <= scale <= _MAX_SCALE
    if not is_valid or len(unscaled) > _MAX_DECIMAL_BYTES:
        return unscaled
    number = int.from_bytes(unscaled, "big", signed=True)
    return f"{Decimal(f'{number}E-{scale}'):f}"


def _uuid(content: bytes, scale: object) -> object:
    del scale
    return f"{UUID(bytes=content)}" if len(content) == _UUID_BYTES else content


def _duration(content: bytes, scale: object) -> object:
    del scale
    if len(content) != _DURATION.size:
        return content
    months, days, milliseconds = _DURATION.unpack(content)
    return {"months": months, "days": days, "milliseconds": milliseconds}


_LOGICAL: Final[Mapping[tuple[str, str], Callable[[Any, object], object]]] = {
    ("int", "date"): _date,
    ("int", "time-millis"): partial(_time, _MILLIS),
    ("long", "time-micros"): partial(_time, _MICROS),
    ("long", "timestamp-millis"): partial(_timestamp, _MILLIS, "Z"),
    ("long", "timestamp-micros"): partial(_timestamp, _MICROS, "Z"),
    ("long", "timestamp-nanos"): partial(_timestamp, _NANOS, "Z"),
    ("long", "local-timestamp-millis"): partial(_timestamp, _MILLIS, ""),
    ("long", "local-timestamp-micros"): partial(_timestamp, _MICROS, ""),
    ("long", "local-timestamp-nanos"): partial(_timestamp, _NANOS, ""),
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("fixed", "uuid"): _uuid,
    ("fixed", "duration"): _duration,
}
