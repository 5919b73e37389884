"""What generated codecs call when a value is off the straight line: long, rare or wrong.

Nothing here runs for a short string, a short array or a struct without tags.
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
"""Bytes of UTF-8 in the longest string Kafka reads or writes."""

_LAST_SHIFT: Final = 28
_LAST_BITS: Final = 15


def encode_varint(value: int) -> bytes:
    """Write an unsigned varint."""
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - the continuation bit
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


SHORT: Final = 1024
"""Lengths below this are looked up."""

VARINTS: Final = tuple(encode_varint(value) for value in range(SHORT))
"""Encoded varints by value."""


def rest_of_varint(buf: bytes | bytearray, pos: int, first: int) -> tuple[int, int]:
    """Read on after a first byte above 127, which stands before `pos`; value and position."""
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
    """Read on like `rest_of_varint`; refuses the length of a string Kafka would not read."""
    length, pos = rest_of_varint(buf, pos, first)
    if length > LONGEST_STRING + 1:
        raise ProtocolViolation(f"a string of {length - 1} bytes")
    return length, pos


def string_length(length: int) -> bytes:
    """Write a compact string's length plus one; refuses strings Kafka would not read."""
    if length > LONGEST_STRING + 1:
        raise ProtocolViolation(f"a string of {length - 1} bytes")
    return encode_varint(length)


def join_tags(sections: Sequence[tuple[int, bytes]], unknown: dict[int, bytes] | None) -> bytes:
    """Write a tag section: tags known and unknown in the order of their numbers."""
    if len(sections) == 1 and not unknown:
        # As in nearly every struct that has any.
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
    # A tag known is written as such; no two that are compared here have the same number.
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
    """Write the tag section of a struct that has only tags we know nothing of."""
    return join_tags((), message.unknown_tags)


def read_unknown_tags(
    buf: bytes | bytearray, pos: int, end: int, count: int, message: Message
) -> int:
    """Keep the tags of a struct that knows none; `count` is the first byte of their number."""
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
    """Refuse a null, or a negative length, where neither is allowed."""
    raise ProtocolViolation("null or a negative length where none is allowed")


def refuse_length() -> NoReturn:
    """Refuse a count or size larger than the bytes that remain."""
    raise ProtocolViolation("a length that runs past the end of the frame")


def refuse_end() -> NoReturn:
    """Refuse a frame whose last field ends behind it."""
    raise ProtocolViolation("the frame ends inside a field")


def refuse_tag(tag: int) -> NoReturn:
    """Refuse a tagged field that is not as long as it says."""
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
    """Write numbers of one struct code."""
    return Struct(f">{len(values)}{code}").pack(*values)


@lru_cache(maxsize=1024)
def row_packer(template: str, *counts: int) -> Callable[..., bytes]:
    """Return the packer of a row whose arrays have these many numbers."""
    return Struct(">" + template % counts).pack
