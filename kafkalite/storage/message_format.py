"""Format of one message: formats 0 and 1 of records, as clients before Kafka 0.11 have them.

A message set is messages in a row. A compressed message has a message set as its value: its wrapper
has the offset of the last inner message.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from zlib import crc32

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import COMPRESSION_MASK, LOG_APPEND_TIME
from kafkalite.storage.record_format import MalformedRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.ports.files import Buffer

MAGIC_0 = 0
MAGIC_1 = 1
ENTRY = struct.Struct(">qi")
"""Offset and length of a message, before each message of a set."""

_CRC = struct.Struct(">I")
_START = struct.Struct(">Ibb")  # CRC, magic, attributes
_FORMAT_AND_ATTRIBUTES = struct.Struct(">bb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)
_MIN_LENGTH = 14
"""The length of a message of format 0 without key and value."""


class Message(NamedTuple):
    """A message; `timestamp` is in milliseconds since the Unix epoch, -1 in format 0."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def compression(self) -> int:
        """Number of the codec that compresses the message set in the value; 0 for none."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the timestamp is the append time; in a wrapper, that of the inner messages."""
        return self.magic > MAGIC_0 and bool(self.attributes & LOG_APPEND_TIME)


def split_messages(data: Buffer) -> Iterator[tuple[int, memoryview]]:
    """Yield offset and bytes of the messages of a set; an incomplete last one is ignored.

    Raises KafkaError CORRUPT_MESSAGE for a length that is too short for a message.
    """
    view = memoryview(data)
    position, size = 0, len(view)
    while size - position >= ENTRY.size:
        offset, length = ENTRY.unpack_from(view, position)
        if length < _MIN_LENGTH:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a message of length {length}")
        position += ENTRY.size
        if position + length > size:
            break
        yield offset, view[position : position + length]
        position += length


def decode_message(offset: int, content: memoryview) -> Message:
    """Return a message.

    Raises KafkaError CORRUPT_MESSAGE if it does not match its CRC, MalformedRecordsError if its key
    or value does not fit.
    """
    crc, magic, attributes = _START.unpack_from(content)
    if crc32(content[_CRC.size :]) != crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a message fails its CRC")
    position = _START.size
    timestamp = -1
    try:
        if magic > MAGIC_0:
            (timestamp,) = _TIMESTAMP.unpack_from(content, position)
            position += _TIMESTAMP.size
        key, position = _read_bytes(content, position)
        value, _ = _read_bytes(content, position)
    except struct.error:
        raise MalformedRecordsError("a message ends too early") from None
    return Message(offset, magic, attributes, timestamp, key, value)


def _read_bytes(content: memoryview, position: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(content, position)
    position += _LENGTH.size
    if length < 0:
        return None, position
    end = position + length
    if end > len(content):
        raise MalformedRecordsError("a message is shorter than its key and value")
    return bytes(content[position:end]), end


def encode_message(message: Message) -> bytes:
    """Return a message with its offset, length and CRC."""
    parts = [_FORMAT_AND_ATTRIBUTES.pack(message.magic, message.attributes)]
    if message.magic > MAGIC_0:
        parts.append(_TIMESTAMP.pack(message.timestamp))
    for content in (message.key, message.value):
        parts += (_NULL,) if content is None else (_LENGTH.pack(len(content)), content)
    body = b"".join(parts)
    entry = ENTRY.pack(message.offset, _CRC.size + len(body))
    return b"".join((entry, _CRC.pack(crc32(body)), body))
