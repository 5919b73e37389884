"""Keys and values of records as JSON, by the schemas of a registry."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from kafkalite.control.console.avro_values import AvroReader, ValueCount
from kafkalite.control.console.protobuf_values import ProtobufReader
from kafkalite.control.console.schemas import AVRO, JSON, PROTOBUF, SchemaError, frame_of
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalite.control.console.schema_registry import SchemaRegistry
    from kafkalite.control.console.schemas import Frame, Schema

MAX_BYTES: Final = 64 * 1024
"""The maximum size of a value that is decoded."""
MAX_PAGE_BYTES: Final = 256 * 1024
"""The maximum size of all values of a page that are decoded."""
MAX_PAGE_VALUES: Final = 50_000
"""The maximum number of values within the Avro values of a page."""
MAX_TEXT: Final = 256 * 1024
"""The maximum number of characters of a value as JSON."""

_NAMES: Final = {AVRO: "Avro", JSON: "JSON Schema", PROTOBUF: "Protobuf"}


class Decoded(NamedTuple):
    """A key or a value as JSON, or the reason why it is not decoded."""

    text: str
    """JSON; empty if it is not decoded."""
    about: str
    """The format and the schema, such as `Avro, schema 7`, or the reason in one sentence."""


class SchemaDecoder:
    """Decodes keys and values by the schemas of a registry."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    async def decode(self, contents: Iterable[bytes | None]) -> Mapping[bytes | None, Decoded]:
        """Return what the keys and values of a page mean that name a schema."""
        frames: dict[bytes | None, Frame] = {
            each: frame for each in contents if (frame := frame_of(each)) is not None
        }
        if not frames:
            return {}
        schemas = await self._registry.schemas({each.schema_id for each in frames.values()})
        return await asyncio.to_thread(_decoded, frames, schemas)


def _decoded(
    frames: Mapping[bytes | None, Frame], schemas: Mapping[int, Schema | SchemaError]
) -> Mapping[bytes | None, Decoded]:
    page = _Page(schemas)
    return {content: page.decoded(frame) for content, frame in frames.items()}


class _Page:
    """The limits of a page, and the readers of its schemas."""

    def __init__(self, schemas: Mapping[int, Schema | SchemaError]) -> None:
        self._schemas = schemas
        self._readers: dict[int, Callable[[bytes], str]] = {}
        self._count = ValueCount(MAX_PAGE_VALUES)
        self._bytes = MAX_PAGE_BYTES

    def decoded(self, frame: Frame) -> Decoded:
        """Return the JSON of a value, or why there is none."""
        schema = self._schemas[frame.schema_id]
        if isinstance(schema, SchemaError):
            return Decoded("", f"{schema}")
        about = f"{_NAMES[schema.kind]}, schema {schema.schema_id}"
        try:
            self._check_size(len(frame.payload))
            return Decoded(self._reader(schema)(frame.payload), about)
        except SchemaError as error:
            return Decoded("", f"{about}: {error}")

    def _check_size(self, size: int) -> None:
        if size > MAX_BYTES:
            raise SchemaError(f"only values of up to {MAX_BYTES:,} bytes are decoded")
        self._bytes -= size
        if self._bytes < 0:
            raise SchemaError(f"only {MAX_PAGE_BYTES:,} bytes of a page are decoded")

    def _reader(self, schema: Schema) -> Callable[[bytes], str]:
        found = self._readers.get(schema.schema_id)
        if found is None:
            found = self._readers[schema.schema_id] = _NEW_READERS[schema.kind](schema, self._count)
        return found


def _avro(schema: Schema, count: ValueCount) -> Callable[[bytes], str]:
    reader = AvroReader(schema.text, [each.text for each in schema.used])
    return lambda data: _json(reader.value(data, count))


def _protobuf(schema: Schema, count: ValueCount) -> Callable[[bytes], str]:
    del count
    reader = ProtobufReader(schema)
    return lambda data: _json(reader.value(data))


def _json_schema(schema: Schema, count: ValueCount) -> Callable[[bytes], str]:
    del schema, count

    def read(data: bytes) -> str:
        try:
            text = data.decode()
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"the value is not JSON: {error}") from error
        return text

    return read


_NEW_READERS: Final[Mapping[str, Callable[[Schema, ValueCount], Callable[[bytes], str]]]] = {
    AVRO: _avro,
    PROTOBUF: _protobuf,
    JSON: _json_schema,
}


def _json(value: Any) -> str:  # noqa: ANN401 - any JSON, with bytes
    """Return JSON text; raises SchemaError if it is long."""
    parts: list[str] = []
    size = 0
    for part in _ENCODER.iterencode(value):
        parts.append(part)
        size += len(part)
        if size > MAX_TEXT:
            raise SchemaError(f"the value has more than {MAX_TEXT:,} characters as JSON")
    return "".join(parts)


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, default=lambda content: content.decode("iso-8859-1")
)
"""Writes bytes as Avro's JSON encoding does."""
