"""Writer of pcapng blocks, little-endian.

A file has a section header, then interface descriptions and packets. A file that was closed
normally ends with interface statistics. At any time, at most the last block of the file is
incomplete. python-pcapng is not used: it builds every block from objects and streams, which takes
tens of microseconds per packet, and it cannot append to a file.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

Buffer = bytes | bytearray | memoryview
"""The types of data in blocks. A view is written without being copied."""

LINK_TYPE_RAW: Final = 101
"""Link type: packets begin with their IPv4 or IPv6 header."""

SECTION, INTERFACE, STATISTICS, ENHANCED_PACKET = 0x0A0D0D0A, 1, 5, 6
"""The block types that are written."""

_BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D
_COMMENT, _INTERFACE_NAME, _RESOLUTION, _APPLICATION = 1, 2, 9, 4
_END_TIME: Final = 3
_NANOSECONDS: Final = b"\x09"
_END_OF_OPTIONS: Final = bytes(4)

_pack_section = Struct("<IHHq").pack
_pack_interface = Struct("<HHI").pack
_pack_statistics = Struct("<III").pack
_pack_option = Struct("<HH").pack
_pack_block_start = Struct("<II").pack
_pack_uint32 = Struct("<I").pack
_pack_time = Struct("<II").pack
pack_packet_header: Final = Struct("<7I").pack
"""Arguments: block type, block length, interface, high and low 32 bits of the time, captured bytes,
original bytes."""


def section(application: str, comment: str) -> bytes:
    """Return a section header, the first block of a file."""
    body = _pack_section(_BYTE_ORDER_MAGIC, 1, 0, -1)
    texts = ((_COMMENT, comment.encode()), (_APPLICATION, application.encode()))
    return _block(SECTION, body + options(texts))


def interface(name: str, comment: str) -> bytes:
    """Return an interface description block with timestamps in nanoseconds."""
    body = _pack_interface(LINK_TYPE_RAW, 0, 0)
    texts = (
        (_COMMENT, comment.encode()),
        (_INTERFACE_NAME, name.encode()),
        (_RESOLUTION, _NANOSECONDS),
    )
    return _block(INTERFACE, body + options(texts))


def statistics(number: int, at_ns: int) -> bytes:
    """Return an interface statistics block with the end time of the capture."""
    time_bytes = _pack_time(at_ns >> 32, at_ns & 0xFFFFFFFF)
    body = _pack_statistics(number, at_ns >> 32, at_ns & 0xFFFFFFFF)
    return _block(STATISTICS, body + options(((_END_TIME, time_bytes),)))


def packet(number: int, at_ns: int, data: bytes, comment: str | None = None) -> bytes:
    """Return an enhanced packet block for interface `number`."""
    size = len(data)
    trailer = bytes(-size % 4)
    if comment is not None:
        trailer += comment_option(comment)
    length = 32 + size + len(trailer)
    high, low = at_ns >> 32, at_ns & 0xFFFFFFFF
    header = pack_packet_header(ENHANCED_PACKET, length, number, high, low, size, size)
    return b"".join((header, data, trailer, _pack_uint32(length)))


def comment_option(comment: str) -> bytes:
    """Return the options of a packet block: the comment and the end-of-options mark."""
    return options(((_COMMENT, comment.encode()),))


def options(pairs: Iterable[tuple[int, bytes]]) -> bytes:
    """Encode (code, value) pairs as options, with the end-of-options mark."""
    pieces: list[bytes] = []
    for code, value in pairs:
        pieces += (_pack_option(code, len(value)), value, bytes(-len(value) % 4))
    return b"".join((*pieces, _END_OF_OPTIONS))


def _block(block_type: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return b"".join((_pack_block_start(block_type, length), body, _pack_uint32(length)))
