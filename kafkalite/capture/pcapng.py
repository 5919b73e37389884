"""pcapng as we write it: little-endian blocks, one for each thing that a file says.

Made by hand, for python-pcapng builds every block out of objects and streams, which takes tens of
microseconds a packet, and knows nothing of appending to what is there. A file is a section header,
interfaces as they come, packets, and at the end, where it was closed in order, statistics: a file
whose last block is an interface's statistics is complete. At any moment it is a valid file but for
its last block.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

Buffer = bytes | bytearray | memoryview
"""What pieces of a block are: data is not copied to be written."""

LINK_TYPE_RAW: Final = 101
"""Packets begin with their IPv4 or IPv6 header."""

SECTION, INTERFACE, STATISTICS, ENHANCED_PACKET = 0x0A0D0D0A, 1, 5, 6
"""The types of the blocks that we write."""

_BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D
_COMMENT, _INTERFACE_NAME, _RESOLUTION, _APPLICATION = 1, 2, 9, 4
_END_TIME: Final = 3
_NANOSECONDS: Final = b"\x09"
_END_OF_OPTIONS: Final = bytes(4)

_section = Struct("<IHHq").pack
_interface = Struct("<HHI").pack
_statistics = Struct("<III").pack
_option = Struct("<HH").pack
_frame = Struct("<II").pack
_word = Struct("<I").pack
_times = Struct("<II").pack
pack_packet_head: Final = Struct("<7I").pack
"""(type, block length, interface, time's high and low half, bytes kept, bytes there were)."""


def section(application: str, comment: str) -> bytes:
    """Return the block that a file begins with."""
    body = _section(_BYTE_ORDER_MAGIC, 1, 0, -1)
    texts = ((_COMMENT, comment.encode()), (_APPLICATION, application.encode()))
    return _block(SECTION, body + options(texts))


def interface(name: str, comment: str) -> bytes:
    """Return the description of an interface whose times count nanoseconds."""
    body = _interface(LINK_TYPE_RAW, 0, 0)
    texts = (
        (_COMMENT, comment.encode()),
        (_INTERFACE_NAME, name.encode()),
        (_RESOLUTION, _NANOSECONDS),
    )
    return _block(INTERFACE, body + options(texts))


def statistics(number: int, at_ns: int) -> bytes:
    """Return what ends a file: when an interface was last listened to."""
    halves = _times(at_ns >> 32, at_ns & 0xFFFFFFFF)
    body = _statistics(number, at_ns >> 32, at_ns & 0xFFFFFFFF)
    return _block(STATISTICS, body + options(((_END_TIME, halves),)))


def packet(number: int, at_ns: int, data: bytes, comment: str | None = None) -> bytes:
    """Return the block of one packet that interface `number` saw."""
    size = len(data)
    behind = bytes(-size % 4)
    if comment is not None:
        behind += comment_option(comment)
    length = 32 + size + len(behind)
    high, low = at_ns >> 32, at_ns & 0xFFFFFFFF
    head = pack_packet_head(ENHANCED_PACKET, length, number, high, low, size, size)
    return b"".join((head, data, behind, _word(length)))


def comment_option(comment: str) -> bytes:
    """Return a packet's options: the comment, and the end of the options."""
    return options(((_COMMENT, comment.encode()),))


def options(pairs: Iterable[tuple[int, bytes]]) -> bytes:
    """Return options as a block ends with them: code and value each, and the end of them."""
    pieces: list[bytes] = []
    for code, value in pairs:
        pieces += (_option(code, len(value)), value, bytes(-len(value) % 4))
    return b"".join((*pieces, _END_OF_OPTIONS))


def _block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return b"".join((_frame(kind, length), body, _word(length)))
