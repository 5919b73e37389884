"""Headers of requests and responses, and their versions.

If the API version is flexible, the request header is version 2, with tagged fields, and the
response header is version 1. Otherwise they are versions 1 and 0. The response header of
ApiVersions always is version 0, because its client does not know the versions of the broker yet
(KIP-511).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kafkalite.protocol.codec import API_VERSIONS_KEY
from kafkalite.protocol.codec_helpers import MAX_TAGGED_FIELDS
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable

API_VERSIONS_FLEXIBLE_FROM = 3

HEADER_BYTES = 10
"""Size of the fixed part of a request header."""

CORRELATION_START, CORRELATION_END = 4, 8
"""The position of the correlation id in a request header, and in a response frame with its length.
The correlation id differs even if a client repeats a request."""

unpack_header = Struct(">Iih").unpack_from
"""(buffer, position) → (api key << 16 | api version, correlation id, client id length)."""

_pack_v0 = Struct(">ii").pack
_pack_v1 = Struct(">iix").pack


def pack_response_header_v0(body_bytes: int, correlation_id: int) -> bytes:
    """Return a frame's length field and response header version 0."""
    return _pack_v0(body_bytes + 4, correlation_id)


def pack_response_header_v1(body_bytes: int, correlation_id: int) -> bytes:
    """Return a frame's length field and response header version 1, without tagged fields."""
    return _pack_v1(body_bytes + 5, correlation_id)


def response_header_packer(api_key: int, *, is_flexible: bool) -> Callable[[int, int], bytes]:
    """Return a function that packs response headers: (body bytes, correlation id) → bytes."""
    if is_flexible and api_key != API_VERSIONS_KEY:
        return pack_response_header_v1
    return pack_response_header_v0


def skip_tagged_fields(buffer: bytes | bytearray, position: int, end: int) -> int:
    """Return the position after the tagged fields of a header; all tags are ignored."""
    count, position = _unsigned_varint(buffer, position, end)
    if count > MAX_TAGGED_FIELDS:
        raise ProtocolViolation(f"{count} tagged fields, above the maximum of {MAX_TAGGED_FIELDS}")
    for _ in range(count):
        _, position = _unsigned_varint(buffer, position, end)
        size, position = _unsigned_varint(buffer, position, end)
        position += size
        if position > end:
            raise ProtocolViolation("a tagged field of the header ends after the frame")
    return position


def _unsigned_varint(buffer: bytes | bytearray, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, position
        shift += 7
        if shift > 28:  # noqa: PLR2004 - five bytes carry 32 bits
            raise ProtocolViolation("a varint of the header is longer than five bytes")
    raise ProtocolViolation("the frame ends inside the header")
