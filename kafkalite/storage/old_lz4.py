"""The LZ4 frames of message format 0, whose header has a checksum of more bytes than it should.

Kafka before 0.10 computed the checksum of the header from its magic number on (KIP-57). Its clients
check it so in messages of format 0, and write it so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.ports.files import Buffer

_MAGIC_SIZE = 4
_CONTENT_SIZE_FLAG = 0x08
_FLAGS_AND_BLOCK_SIZE = 2
_CONTENT_SIZE_BYTES = 8
_MASK = 0xFFFF_FFFF

# Constants of xxHash32 for inputs of less than sixteen bytes.
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    2654435761, 2246822519, 3266489917, 668265263, 374761393,
)  # fmt: skip


def to_standard_lz4(frame: Buffer) -> bytes:
    """Return a frame with the checksum of the LZ4 specification in its header."""
    return _with_checksum(frame, covered_from=_MAGIC_SIZE)


def to_old_lz4(frame: Buffer) -> bytes:
    """Return a frame with the checksum that clients expect in format 0."""
    return _with_checksum(frame, covered_from=0)


def _with_checksum(frame: Buffer, *, covered_from: int) -> bytes:
    content = bytearray(frame)
    end = _MAGIC_SIZE + _FLAGS_AND_BLOCK_SIZE
    if len(content) > end and content[_MAGIC_SIZE] & _CONTENT_SIZE_FLAG:
        end += _CONTENT_SIZE_BYTES
    if len(content) > end:
        content[end] = _short_xxhash32(content[covered_from:end]) >> 8 & 0xFF
    return bytes(content)


def _short_xxhash32(data: bytearray) -> int:
    """Return xxHash32 with seed 0 of less than sixteen bytes."""
    value = _PRIME_5 + len(data)
    words_end = len(data) & ~3
    for position in range(0, words_end, 4):
        word = int.from_bytes(data[position : position + 4], "little")
        value = _rotated(value + word * _PRIME_3, 17) * _PRIME_4
    for byte in data[words_end:]:
        value = _rotated(value + byte * _PRIME_5, 11) * _PRIME_1
    value &= _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotated(value: int, count: int) -> int:
    value &= _MASK
    return (value << count | value >> (32 - count)) & _MASK
