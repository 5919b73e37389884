"""Message sets of formats 0 and 1 built and read by hand; no code of the emulator is used."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from zlib import crc32

from tests.conformance.batches import BASE_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENTRY = struct.Struct(">qi")
_GZIP = 1
_PARTIAL = "a part of a message"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to be encoded; `crc_error` is added to the correct checksum."""

    value: bytes | None = b"value"
    key: bytes | None = b"key"
    magic: int = 0
    timestamp: int = BASE_TIMESTAMP
    attributes: int = 0
    offset: int = 0
    crc_error: int = 0

    def encode(self) -> bytes:
        """Encode the message as a client would."""
        body = struct.pack(">bb", self.magic, self.attributes)
        if self.magic:
            body += struct.pack(">q", self.timestamp)
        body += _sized(self.key) + _sized(self.value)
        content = struct.pack(">I", (crc32(body) + self.crc_error) % 2**32) + body
        return _ENTRY.pack(self.offset, len(content)) + content

    def wrapping(self, *inner: Message) -> bytes:
        """Encode the message with others as its value, which gzip compresses."""
        content = gzip.compress(b"".join(each.encode() for each in inner), mtime=0)
        wrapper = replace(self, key=None, value=content, attributes=self.attributes | _GZIP)
        return wrapper.encode()


def _sized(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content


def described(data: bytes) -> list[str]:
    """Return a line for each message, with the inner ones of those that gzip compresses."""
    return list(_lines(data))


def _lines(data: bytes) -> Iterator[str]:
    position = 0
    while position < len(data):
        if len(data) - position < _ENTRY.size:
            yield _PARTIAL
            return
        offset, length = _ENTRY.unpack_from(data, position)
        position += _ENTRY.size
        if position + length > len(data):
            yield _PARTIAL
            return
        content = data[position : position + length]
        position += length
        crc, magic, attributes = struct.unpack_from(">Ibb", content)
        assert crc == crc32(content[4:])
        rest = content[6:]
        timestamp = ""
        if magic:
            timestamp = f" at {struct.unpack_from('>q', rest)[0]}"
            rest = rest[8:]
        key, rest = _take(rest)
        value, rest = _take(rest)
        assert not rest
        head = f"{offset}: format {magic}, attributes {attributes}{timestamp}, key {key!r}"
        if attributes & 7 == _GZIP and value is not None:
            yield f"{head}, compressed:"
            yield from (f"  {line}" for line in _lines(gzip.decompress(value)))
        else:
            yield f"{head}, value {value!r}"


def _take(data: bytes) -> tuple[bytes | None, bytes]:
    (length,) = struct.unpack_from(">i", data)
    return (None, data[4:]) if length < 0 else (data[4 : 4 + length], data[4 + length :])
