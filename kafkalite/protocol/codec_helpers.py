"""Helpers of generated codecs, for long, rare and invalid values.

Generated code handles short strings, short arrays and structs without tags without these helpers.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalite.protocol.message import Message

MAX_STRING_BYTES: Final = 0x7FFF
"""Maximum UTF-8 bytes of a string in Kafka's protocol."""

MAX_LIST_ELEMENTS: Final = 1_000_000
"""Maximum elements of a list in Kafka's protocol."""

MAX_TAGGED_FIELDS: Final = 10_000
"""Maximum tagged fields of a struct in Kafka's protocol."""

_LAST_SHIFT: Final = 28
_MAX_LAST_BYTE: Final = 15


def encode_varint(value: int) -> bytes:
    """Return the bytes of an unsigned varint."""
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - the continuation bit
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


SHORT: Final = 1024
"""Number of entries of VARINTS: numbers below this are encoded by a table lookup."""

VARINTS: Final = (
    *(bytes((value,)) for value in range(0x80)),
    *(bytes((value & 0x7F | 0x80, value >> 7)) for value in range(0x80, SHORT)),
)
"""Encoded varints by value."""


def rest_of_varint(buf: bytes | bytearray, pos: int, first: int) -> tuple[int, int]:
    """Read the rest of a varint whose first byte was above 127; return value and position."""
    value = first & 0x7F
    for shift in range(7, _LAST_SHIFT + 7, 7):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            if shift == _LAST_SHIFT and byte > _MAX_LAST_BYTE:
                break
            return value, pos
    raise ProtocolViolation("a varint of more than 32 bits")


def rest_of_string_length(buf: bytes | bytearray, pos: int, first: int) -> tuple[int, int]:
    """Do the same as `rest_of_varint`, and refuse a string that is too long for Kafka."""
    length, pos = rest_of_varint(buf, pos, first)
    if length > MAX_STRING_BYTES + 1:
        raise ProtocolViolation(f"a string of {length - 1} bytes")
    return length, pos


def rest_of_tag_count(buf: bytes | bytearray, pos: int, first: int) -> tuple[int, int]:
    """Do the same as `rest_of_varint`, and refuse more tagged fields than Kafka reads."""
    count, pos = rest_of_varint(buf, pos, first)
    if count > MAX_TAGGED_FIELDS:
        raise ProtocolViolation(f"{count} tagged fields, above the maximum of {MAX_TAGGED_FIELDS}")
    return count, pos


def encode_string_length(length: int) -> bytes:
    """Encode a compact string's length plus one; refuses strings that are too long for Kafka."""
    if length > MAX_STRING_BYTES + 1:
        raise ProtocolViolation(f"a string of {length - 1} bytes")
    return encode_varint(length)


@lru_cache(maxsize=64)
def _encode_tag(tag: int) -> bytes:
    """Encode a tag that is not in VARINTS; few are in use."""
    return encode_varint(tag)


def encode_tag_section(
    sections: Sequence[tuple[int, bytes]], unknown: dict[int, bytes] | None
) -> bytes:
    """Encode a tag section: known and unknown tags in the order of their numbers."""
    if len(sections) == 1 and not unknown:
        # Nearly every struct with tags has one tag.
        ((tag, section),) = sections
        size = len(section)
        return b"".join(
            (
                b"\x01",
                VARINTS[tag] if tag < SHORT else _encode_tag(tag),
                VARINTS[size] if size < SHORT else encode_varint(size),
                section,
            )
        )
    # Unknown tags have no number of a known tag, so all numbers are distinct.
    tags = sorted({**unknown, **dict(sections)}.items() if unknown else sections)
    count = len(tags)
    out = [VARINTS[count] if count < SHORT else encode_varint(count)]
    for tag, section in tags:
        size = len(section)
        out += (
            VARINTS[tag] if tag < SHORT else encode_varint(tag),
            VARINTS[size] if size < SHORT else encode_varint(size),
            section,
        )
    return b"".join(out)


def add_unknown_tags(known: bytes, unknown: dict[int, bytes]) -> bytes:
    """Encode a tag section: encoded known tags with sizes below 128, and unknown ones."""
    sections = []
    position = 0
    while position < len(known):
        tag, position = known[position], position + 1
        if tag > 0x7F:  # noqa: PLR2004 - the continuation bit
            tag, position = rest_of_varint(known, position, tag)
        end = position + 1 + known[position]
        sections.append((tag, known[position + 1 : end]))
        position = end
    return encode_tag_section(sections, unknown)


def encode_unknown_tags(message: Message) -> bytes:
    """Encode the tag section of a struct that has only unknown tags."""
    return encode_tag_section((), message.unknown_tags)


def read_unknown_tags(
    buf: bytes | bytearray, pos: int, end: int, count: int, message: Message
) -> int:
    """Read the tags of a struct without known tags, and return the position after them.

    `count` is the first byte of the number of tags.
    """
    if count > 0x7F:  # noqa: PLR2004 - the continuation bit
        count, pos = rest_of_tag_count(buf, pos, count)
    tags: dict[int, bytes] = {}
    for _ in range(count):
        tag, pos = decode_varint(buf, pos)
        size, pos = decode_varint(buf, pos)
        stop = pos + size
        if stop > end:
            refuse_length()
        tags[tag] = bytes(buf[pos:stop])
        pos = stop
    message.unknown_tags = tags or None  # type: ignore[misc]  # a slot of every subclass
    return pos


def decode_varint(buf: bytes | bytearray, pos: int) -> tuple[int, int]:
    """Read a varint; return value and position."""
    first = buf[pos]
    return (first, pos + 1) if first < 0x80 else rest_of_varint(buf, pos + 1, first)  # noqa: PLR2004


def refuse_null() -> NoReturn:
    """Refuse a null, or a negative length, in a field that does not allow it."""
    raise ProtocolViolation("null or a negative length where none is allowed")


def refuse_length() -> NoReturn:
    """Refuse a count or size larger than the remaining bytes."""
    raise ProtocolViolation("a length that runs past the end of the frame")


def refuse_truncation() -> NoReturn:
    """Refuse a frame that ends inside a field."""
    raise ProtocolViolation("the frame ends inside a field")


def refuse_tag_size(tag: int) -> NoReturn:
    """Refuse a tagged field whose length differs from its declared size."""
    raise ProtocolViolation(f"tag {tag} is not of its declared size")


_UNPACKER_COUNT: Final = 17
_UNPACKERS: Final = {
    code: tuple(Struct(f">{count}{code}").unpack_from for count in range(_UNPACKER_COUNT))
    for code in "hiq"
}


def read_numbers(
    code: str,
    buf: bytes | bytearray,
    pos: int,
    count: int,
    _field: str = "",  # for hooks
) -> list[int]:
    """Read `count` numbers of one struct code."""
    if count < _UNPACKER_COUNT and code in _UNPACKERS:
        return list(_UNPACKERS[code][count](buf, pos))
    return list(Struct(f">{count}{code}").unpack_from(buf, pos))


def read_uuids(buf: bytes | bytearray, pos: int, count: int) -> list[bytes]:
    """Read `count` uuids."""
    return [bytes(buf[at : at + 16]) for at in range(pos, pos + 16 * count, 16)]


def pack_numbers(code: str, values: list[int]) -> bytes:
    """Return the bytes of numbers of one struct code."""
    return row_packer(f"%d{code}", len(values))(*values) if values else b""


@lru_cache(maxsize=1024)
def row_packer(template: str, *counts: int) -> Callable[..., bytes]:
    """Return the packer of a row; `counts` are the numbers of elements of its arrays."""
    return Struct(">" + template % counts).pack


class Hooks(NamedTuple):
    """Functions that the codecs of brokers call for lists, tagged fields and loops.

    `create_codec` of a generated module makes a codec with any hooks; `long_messages` has those of
    long messages. None is for code that needs no call.
    """

    new_list: Callable[[str, int], list[Any]] | None
    """Returns the list for a field that has this number of elements, or refuses it."""
    rows: Callable[[int], Iterable[int]]
    """Returns the range of the elements of a list, for an iteration."""
    tags: Callable[[int], Iterable[int]]
    """Returns the range of tagged fields, for an iteration."""
    each: Callable[..., Iterable[Any]] | None
    """Returns elements for an iteration; builders also pass the list of the built pieces."""
    read_unknown_tags: Callable[[bytes | bytearray, int, int, int, Message], int]
    read_numbers: Callable[[str, bytes | bytearray, int, int, str], list[int]]
    read_uuids: Callable[[bytes | bytearray, int, int], list[bytes]]


NO_HOOKS: Final = Hooks(None, range, range, None, read_unknown_tags, read_numbers, read_uuids)
