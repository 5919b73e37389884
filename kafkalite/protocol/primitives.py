"""Construct subclasses for the types of Kafka's protocol.

Trees of these constructs define the wire format. Generated code is compiled from the trees and
tested against them. Interpreting a tree is simple and slow, so that is done only to describe
invalid frames.
"""

# ruff: noqa: ANN401, SLF001 - construct's protocol is `_parse` and `_build`, of values of any type
from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from construct import (
    Bytes,
    Construct,
    Flag,
    Float64b,
    Int8sb,
    Int16sb,
    Int16ub,
    Int32sb,
    Int64sb,
    Renamed,
    SizeofError,
    stream_read,
    stream_tell,
    stream_write,
)

from kafkalite.protocol.codec_helpers import MAX_STRING_BYTES, MAX_TAGGED_FIELDS, encode_varint
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from kafkalite.protocol.message import Message

FIXED: Final[dict[str, Construct]] = {
    "bool": Flag,
    "int8": Int8sb,
    "int16": Int16sb,
    "uint16": Int16ub,
    "int32": Int32sb,
    "int64": Int64sb,
    "float64": Float64b,
    "uuid": Bytes(16),
}
"""Types of fixed size, by Kafka's names."""

FIRST_PRIVATE_TAG: Final = 10_000
"""Tags from here on are kafkalite's. Others may use them as well: Kafka skips all of them."""

_LAST_SHIFT: Final = 28
_MAX_LAST_BYTE: Final = 15


@dataclass(slots=True)
class Trace:
    """Context for parsing a tree; it has the field and the offset that the parser has reached."""

    path: str = ""
    offset: int = 0


def _parse_traced(subcon: Construct, stream: BinaryIO, context: Any, path: str) -> Any:
    """Parse one element, and record its position in the context if that is a `Trace`."""
    if isinstance(context, Trace):
        context.path = path
        context.offset = stream.tell()
    return subcon._parse(stream, context, path)


def _remaining(stream: BinaryIO) -> int:
    position = stream.tell()
    end = stream.seek(0, 2)
    stream.seek(position)
    return end - position


class UnsignedVarint(Construct):  # type: ignore[misc]  # construct has no types
    """An unsigned number of up to 32 bits, seven bits per byte, lowest first."""

    def _parse(self, stream: BinaryIO, _context: Any, path: str) -> int:
        value = 0
        byte: int
        for shift in range(0, _LAST_SHIFT + 7, 7):
            byte = stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the continuation bit
                if shift == _LAST_SHIFT and byte > _MAX_LAST_BYTE:
                    break
                return value
        raise ProtocolViolation("a varint of more than 32 bits")

    def _build(self, obj: int, stream: BinaryIO, _context: Any, path: str) -> int:
        encoded = encode_varint(obj)
        stream_write(stream, encoded, len(encoded), path)
        return obj


VARINT: Final = UnsignedVarint()


class _LengthPrefixed(Construct):  # type: ignore[misc]  # construct has no types
    """A value that begins with its length: length + 1 as a varint, or a plain integer."""

    plain_length: Construct = Int32sb

    def __init__(self, *, compact: bool, nullable: bool) -> None:
        super().__init__()
        self.compact = compact
        self.nullable = nullable

    def _parse_length(self, stream: BinaryIO, context: Any, path: str) -> int | None:
        if self.compact:
            length = VARINT._parse(stream, context, path) - 1
        else:
            length = self.plain_length._parse(stream, context, path)
        if length == -1 and self.nullable:
            return None
        if length == -1:
            raise ProtocolViolation("null where null is not allowed")
        if length < 0:
            raise ProtocolViolation(f"a length of {length}")
        return length

    def _build_length(self, length: int, stream: BinaryIO, context: Any, path: str) -> None:
        if self.compact:
            VARINT._build(length + 1, stream, context, path)
        else:
            self.plain_length._build(length, stream, context, path)


class KafkaString(_LengthPrefixed):
    """UTF-8 text of at most 32767 bytes."""

    plain_length = Int16sb

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> str | None:
        length = self._parse_length(stream, context, path)
        if length is None:
            return None
        if length > MAX_STRING_BYTES:
            raise ProtocolViolation(f"a string of {length} bytes")
        text: bytes = stream_read(stream, length, path)
        return text.decode()

    def _build(self, obj: str | None, stream: BinaryIO, context: Any, path: str) -> str | None:
        if obj is None:
            self._build_length(-1, stream, context, path)
            return None
        text = obj.encode()
        if len(text) > MAX_STRING_BYTES:
            raise ProtocolViolation(f"a string of {len(text)} bytes")
        self._build_length(len(text), stream, context, path)
        stream_write(stream, text, len(text), path)
        return obj


class KafkaBytes(_LengthPrefixed):
    """Opaque bytes; with `is_records` codecs return a view without a copy."""

    def __init__(self, *, compact: bool, nullable: bool, is_records: bool = False) -> None:
        super().__init__(compact=compact, nullable=nullable)
        self.is_records = is_records

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> bytes | None:
        length = self._parse_length(stream, context, path)
        return None if length is None else stream_read(stream, length, path)

    def _build(self, obj: bytes | None, stream: BinaryIO, context: Any, path: str) -> Any:
        self._build_length(-1 if obj is None else len(obj), stream, context, path)
        if obj is not None:
            stream_write(stream, bytes(obj), len(obj), path)
        return obj


class KafkaArray(_LengthPrefixed):
    """Elements of one type; a count larger than the number of remaining bytes is refused."""

    def __init__(self, subcon: Construct, *, compact: bool, nullable: bool) -> None:
        super().__init__(compact=compact, nullable=nullable)
        self.subcon = subcon

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> list[Any] | None:
        count = self._parse_length(stream, context, path)
        if count is None:
            return None
        if count > _remaining(stream):
            raise ProtocolViolation(f"{count} rows, but fewer bytes remain")
        return [
            _parse_traced(self.subcon, stream, context, f"{path}[{row}]") for row in range(count)
        ]

    def _build(self, obj: list[Any] | None, stream: BinaryIO, context: Any, path: str) -> Any:
        self._build_length(-1 if obj is None else len(obj), stream, context, path)
        for row, item in enumerate(obj or ()):
            self.subcon._build(item, stream, context, f"{path}[{row}]")
        return obj


@dataclass(frozen=True, slots=True)
class MessageClass:
    """Module and name of a struct's class; it is imported only when a tree is interpreted."""

    module: str
    qualname: str

    def load(self) -> type[Message]:
        """Import the class."""
        found: Any = import_module(self.module)
        for name in self.qualname.split("."):
            found = getattr(found, name)
        return found  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Tagged:
    """A tagged field; it is not written while it equals its default."""

    attribute: str
    subcon: Construct
    default: object

    def required_size(self, tag: int) -> int | None:
        """Return the size of the field of a private tag; None if it varies, or for Kafka's tags.

        A field of another size is not kafkalite's, and is read as one with an unknown tag.
        """
        if tag < FIRST_PRIVATE_TAG:
            return None
        try:
            size: int = self.subcon.sizeof()
        except SizeofError:
            return None
        return size

    def new_default(self) -> object:
        """Return the default; a new object if it is mutable."""
        if isinstance(self.default, MessageClass):
            return self.default.load()()
        return list(self.default) if isinstance(self.default, list) else self.default


@dataclass(slots=True, kw_only=True)
class StructShape:
    """The fields of a struct in one version.

    The version does not have the fields in `absent`: they get their defaults, where a class means
    a new instance. A nullable struct begins with a byte, which is -1 for null; in a tagged field it
    is 0 for null.
    """

    message: MessageClass
    fields: list[Renamed] = field(default_factory=list)
    tagged: dict[int, Tagged] = field(default_factory=dict)
    absent: dict[str, object] = field(default_factory=dict)
    flexible: bool = False
    nullable: bool = False
    is_tagged: bool = False


class KafkaStruct(Construct):  # type: ignore[misc]  # construct has no types
    """Named fields in order; in flexible versions, a section of tagged fields follows."""

    def __init__(self, shape: StructShape) -> None:
        super().__init__()
        self.shape = shape

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> Message | None:
        if self.shape.nullable and self._is_null(stream, context, path):
            return None
        # Absent fields get their defaults from the class.
        values = {
            field.name: _parse_traced(field.subcon, stream, context, f"{path}.{field.name}")
            for field in self.shape.fields
        }
        if self.shape.flexible:
            self._parse_tags(values, stream, context, path)
        return self.shape.message.load()(**values)

    def _is_null(self, stream: BinaryIO, context: Any, path: str) -> bool:
        if self.shape.is_tagged:
            return bool(VARINT._parse(stream, context, path) == 0)
        return bool(Int8sb._parse(stream, context, path) < 0)

    def _parse_tags(
        self, values: dict[str, Any], stream: BinaryIO, context: Any, path: str
    ) -> None:
        unknown: dict[int, bytes] = {}
        for absent in self.shape.tagged.values():
            values[absent.attribute] = absent.new_default()
        count = _parse_traced(VARINT, stream, context, f"{path}.tags")
        if count > MAX_TAGGED_FIELDS:
            raise ProtocolViolation(f"{count} tagged fields, above {MAX_TAGGED_FIELDS}")
        for _ in range(count):
            tag = _parse_traced(VARINT, stream, context, f"{path}.tags")
            size = _parse_traced(VARINT, stream, context, f"{path}.tags[{tag}]")
            if size > _remaining(stream):
                raise ProtocolViolation(f"a tagged field of {size} bytes, but fewer remain")
            known = self.shape.tagged.get(tag)
            if known is None or known.required_size(tag) not in {None, size}:
                unknown[tag] = stream_read(stream, size, path)
                continue
            end = stream_tell(stream, path) + size
            field_path = f"{path}.{known.attribute}"
            values[known.attribute] = _parse_traced(known.subcon, stream, context, field_path)
            if stream_tell(stream, path) != end:
                raise ProtocolViolation(f"a tagged field whose length is not {size} bytes")
        if unknown:
            values["unknown_tags"] = unknown

    def _build(self, obj: Message | None, stream: BinaryIO, context: Any, path: str) -> Any:
        if self.shape.nullable:
            null = 0 if self.shape.is_tagged else -1
            Int8sb._build(null if obj is None else 1, stream, context, path)
            if obj is None:
                return obj
        for subcon in self.shape.fields:
            value = getattr(obj, subcon.name)
            subcon.subcon._build(value, stream, context, f"{path}.{subcon.name}")
        if self.shape.flexible:
            self._build_tags(obj, stream, context, path)
        return obj

    def _build_tags(self, obj: Any, stream: BinaryIO, context: Any, path: str) -> None:
        sections: dict[int, bytes] = dict(obj.unknown_tags or {})
        for tag, known in self.shape.tagged.items():
            value = getattr(obj, known.attribute)
            if value != known.new_default():
                sections[tag] = known.subcon.build(value)
        VARINT._build(len(sections), stream, context, path)
        for tag, section in sorted(sections.items()):
            VARINT._build(tag, stream, context, path)
            VARINT._build(len(section), stream, context, path)
            stream_write(stream, section, len(section), path)
