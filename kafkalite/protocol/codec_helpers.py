"""Helpers of generated codecs, for long, rare and invalid values.

Generated code handles short strings, short arrays and structs without tags itself.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NoReturn

from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.protocol.message import Message

LONGEST_STRING: Final = 0x7FFF
"""Maximum UTF-8 bytes of a string in Kafka's protocol."""

_LAST_SHIFT: Final = 28
_LAST_BITS: Final = 15


def encode_varint(value: int) -> bytes:
    """Return the bytes of an unsigned varint."""
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - the continuation bit
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


SHORT: Final = 1024
"""Lengths below this are in the table VARINTS."""

VARINTS: Final = tuple(encode_varint(value) for value in range(SHORT))
"""Encoded varints by value."""


def rest_of_varint(buf: bytes | bytearray, pos: int, first: int) -> tuple[int, int]:
    """Read the rest of a varint whose first byte was above 127; return value and position."""
    value = first & 0x7F
    for shift in range(7, _LAST_SHIFT + 7, 7):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            if shift == _LAST_SHIFT and byte > _LAST_BITS:
                break
            return value, pos
    raise ProtocolViolation("a varint of more than 32 bits")


def rest_of_string_length(buf: bytes | bytearray, pos: int, first: int) -> tuple[int, int]:
    """Do the same as `rest_of_varint`; refuse the length of a string too long for Kafka."""
    length, pos = rest_of_varint(buf, pos, first)
    if length > LONGEST_STRING + 1:
        raise ProtocolViolation(f"a string of {length - 1} bytes")
    return length, pos


def string_length(length: int) -> bytes:
    """Encode a compact string's length plus one; refuses strings that are too long for Kafka."""
    if length > LONGEST_STRING + 1:
        raise ProtocolViolation(f"a string of {length - 1} bytes")
    return encode_varint(length)


def join_tags(sections: Sequence[tuple[int, bytes]], unknown: dict[int, bytes] | None) -> bytes:
    """Encode a tag section: known and unknown tags in the order of their numbers."""
    if len(sections) == 1 and not unknown:
        # The case of nearly every struct with tags.
        ((tag, section),) = sections
        size = len(section)
        return b"".join(
            (
                b"\x01",
                VARINTS[tag] if tag < SHORT else encode_varint(tag),
                VARINTS[size] if size < SHORT else encode_varint(size),
                section,
            )
        )
    # A known tag is never among the unknown ones, so no two have the same number.
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


def unknown_tags(message: Message) -> bytes:
    """Encode the tag section of a struct that has only unknown tags."""
    return join_tags((), message.unknown_tags)


def read_unknown_tags(
    buf: bytes | bytearray, pos: int, end: int, count: int, message: Message
) -> int:
    """Store the tags of a struct without known tags; `count` is the first byte of their number."""
    if count > 0x7F:  # noqa: PLR2004 - the continuation bit
        count, pos = rest_of_varint(buf, pos, count)
    tags: dict[int, bytes] = {}
    for _ in range(count):
        tag, pos = _varint(buf, pos)
        size, pos = _varint(buf, pos)
        stop = pos + size
        if stop > end:
            refuse_length()
        tags[tag] = bytes(buf[pos:stop])
        pos = stop
    message.unknown_tags = tags or None  # type: ignore[misc]  # a slot of every subclass
    return pos


def _varint(buf: bytes | bytearray, pos: int) -> tuple[int, int]:
    first = buf[pos]
    return (first, pos + 1) if first < 0x80 else rest_of_varint(buf, pos + 1, first)  # noqa: PLR2004


def refuse_null() -> NoReturn:
    """Refuse a null, or a negative length, in a field that does not allow it."""
    raise ProtocolViolation("null or a negative length where none is allowed")


def refuse_length() -> NoReturn:
    """Refuse a count or size larger than the remaining bytes."""
    raise ProtocolViolation("a length that runs past the end of the frame")


def refuse_end() -> NoReturn:
    """Refuse a frame that ends before its last field does."""
    raise ProtocolViolation("the frame ends inside a field")


def refuse_tag(tag: int) -> NoReturn:
    """Refuse a tagged field whose length differs from its declared size."""
    raise ProtocolViolation(f"tag {tag} is not of its declared size")


_FEW: Final = 17
_UNPACKERS: Final = {
    code: tuple(Struct(f">{count}{code}").unpack_from for count in range(_FEW)) for code in "hiq"
}


def numbers(code: str, buf: bytes | bytearray, pos: int, count: int) -> list[int]:
    """Read `count` numbers of one struct code."""
    if count < _FEW and code in _UNPACKERS:
        return list(_UNPACKERS[code][count](buf, pos))
    return list(Struct(f">{count}{code}").unpack_from(buf, pos))


def uuids(buf: bytes | bytearray, pos: int, count: int) -> list[bytes]:
    """Read `count` uuids."""
    return [bytes(buf[at : at + 16]) for at in range(pos, pos + 16 * count, 16)]


def pack_numbers(code: str, values: list[int]) -> bytes:
    """Return the bytes of numbers of one struct code."""
    return Struct(f">{len(values)}{code}").pack(*values)


@lru_cache(maxsize=1024)
def row_packer(template: str, *counts: int) -> Callable[..., bytes]:
    """Return the packer of a row with this many numbers in each of its arrays."""
    return Struct(">" + template % counts).pack
