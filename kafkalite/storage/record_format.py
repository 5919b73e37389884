"""Format of the records in a batch: varint fields, relative to the first record of the batch.

Compaction, control batches, the loading of coordinators and the validation of records use it. Other
produced batches pass through the broker as opaque bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from mmap import mmap


class MalformedRecordsError(ValueError):
    """The bytes of a batch are not the records that its header describes."""


CONTROL_KEY = struct.Struct(">hh")
"""Key of a control batch's record: its version and kind."""
END_MARKER = struct.Struct(">hi")
"""Value of a transaction marker: its version and the coordinator's epoch."""

NO_MARKER = (-1, -1)

_CONTINUATION_BIT = 0x80  # set in every byte of a varint except the last
_LAST_SHIFT = 63  # ten bytes hold 64 bits

Headers = tuple[tuple[str, bytes | None], ...]


class NewRecord(NamedTuple):
    """A record to be written; `timestamp` is in milliseconds since the Unix epoch."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


class Record(NamedTuple):
    """A record that was read; `timestamp` is in milliseconds since the Unix epoch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ScannedRecord(NamedTuple):
    """A record's key and value, and the positions of its parts.

    The body begins with the length of the key; the headers begin with their count.
    """

    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    body_position: int
    headers_position: int
    end_position: int


def _compute_varint(value: int) -> bytes:
    remaining = value << 1 ^ value >> 63
    out = bytearray()
    while remaining >= _CONTINUATION_BIT:
        out.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    out.append(remaining)
    return bytes(out)


class _VarintCache(dict[int, bytes]):
    """Cache of small varints; others are computed."""

    def __missing__(self, value: int) -> bytes:
        return _compute_varint(value)


_NULL = b"\x01"  # the varint -1

# A bound method of the dict is fast, because no Python code runs for small values. Encoding a
# record takes at least five varints.
encode_varint: Callable[[int], bytes] = _VarintCache(
    (n, _compute_varint(n)) for n in range(256)
).__getitem__
"""Return the zigzag varint of a signed 64-bit integer."""


def read_varint(data: bytes | mmap, position: int) -> tuple[int, int]:
    """Return the zigzag varint at `position` and its end; raises IndexError if it is truncated."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < _CONTINUATION_BIT:
            return value >> 1 ^ -(value & 1), position
        shift += 7
        if shift > _LAST_SHIFT:
            raise MalformedRecordsError("a varint is longer than ten bytes")


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
) -> bytes:
    """Return one record, with its length first."""
    parts = [_NULL] if key is None else [encode_varint(len(key)), key]
    if value is None:
        parts.append(_NULL)
    else:
        parts += (encode_varint(len(value)), value)
    parts.append(encode_varint(len(headers)))
    for name, header_value in headers:
        raw_name = name.encode()
        parts += (encode_varint(len(raw_name)), raw_name)
        if header_value is None:
            parts.append(_NULL)
        else:
            parts += (encode_varint(len(header_value)), header_value)
    return frame_record(offset_delta, timestamp_delta, b"".join(parts))


def frame_record(offset_delta: int, timestamp_delta: int, body: bytes) -> bytes:
    """Return a record whose key, value and headers are already encoded in `body`."""
    framed = b"\x00" + encode_varint(timestamp_delta) + encode_varint(offset_delta) + body
    return encode_varint(len(framed)) + framed


def encode_key_values(pairs: Sequence[tuple[bytes | None, bytes | None]]) -> bytes:
    """Return keys and values as records with the same timestamp and without headers.

    Coordinators write such records. The result is that of `encode_records`, which is slower.
    """
    out: list[bytes] = []
    for delta, (key, value) in enumerate(pairs):
        framed = b"".join(
            (
                b"\x00\x00",
                encode_varint(delta),
                _NULL if key is None else encode_varint(len(key)) + key,
                _NULL if value is None else encode_varint(len(value)) + value,
                b"\x00",
            )
        )
        out += (encode_varint(len(framed)), framed)
    return b"".join(out)


def encode_records(records: Sequence[NewRecord], base_timestamp: int) -> bytes:
    """Return the encoded records, with offsets relative to the first."""
    return b"".join(
        encode_record(delta, record.timestamp - base_timestamp, *record[:2], record.headers)
        for delta, record in enumerate(records)
    )


def scan_records(data: bytes | mmap, count: int) -> Iterator[ScannedRecord]:
    """Yield the positions of the `count` records in an uncompressed batch body.

    Raises MalformedRecordsError if they do not fill `data` exactly.
    """
    position = 0
    try:
        for _ in range(count):
            length, position = read_varint(data, position)
            end = position + length
            timestamp_delta, position = read_varint(data, position + 1)
            offset_delta, body_position = read_varint(data, position)
            key, position = _read_bytes(data, body_position)
            value, headers_position = _read_bytes(data, position)
            if headers_position >= end or end > len(data):
                raise MalformedRecordsError("a record's length does not fit its content")
            yield ScannedRecord(
                timestamp_delta, offset_delta, key, value, body_position, headers_position, end
            )
            position = end
    except IndexError:
        raise MalformedRecordsError("the records end too early") from None
    if position != len(data):
        raise MalformedRecordsError("bytes follow the last record")


def decode_headers(data: bytes, position: int, end: int) -> Headers:
    """Return a record's headers; raises MalformedRecordsError unless they end with the record."""
    try:
        count, position = read_varint(data, position)
        if count < 0:
            raise MalformedRecordsError("a negative number of headers")
        headers = []
        for _ in range(count):
            name, position = _read_bytes(data, position)
            value, position = _read_bytes(data, position)
            if name is None:
                raise MalformedRecordsError("a header without a name")
            headers.append((name.decode(), value))
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedRecordsError("the headers of a record are damaged") from error
    if position != end:
        raise MalformedRecordsError("a record does not end with its headers")
    return tuple(headers)


def _read_bytes(data: bytes | mmap, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:
        if length != -1:
            raise MalformedRecordsError("a negative length")
        return None, position
    end = position + length
    if end > len(data):
        raise MalformedRecordsError("the records end too early")
    return data[position:end], end


def read_key_value(data: bytes, position: int) -> tuple[bytes | None, bytes | None, int]:
    """Return a record's key and value, and its end; raises IndexError if it is truncated.

    Varints of one byte are decoded inline, and the rest of the record is skipped.
    """
    length = data[position]
    position += 1
    if length >= _CONTINUATION_BIT:
        length, position = read_varint(data, position - 1)
        end = position + length
    else:
        end = position + (length >> 1)
    position += 1
    while data[position] >= _CONTINUATION_BIT:  # skip the timestamp
        position += 1
    position += 1
    while data[position] >= _CONTINUATION_BIT:  # skip the offset
        position += 1
    key, position = _read_bytes(data, position + 1)
    value, position = _read_bytes(data, position)
    if position >= end:
        raise MalformedRecordsError("a record's length does not fit its content")
    return key, value, end


def key_values(data: bytes, count: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield the keys and values of an uncompressed batch body.

    Raises MalformedRecordsError if they do not fill `data` exactly.
    """
    position = 0
    try:
        for _ in range(count):
            key, value, position = read_key_value(data, position)
            yield key, value
    except IndexError:
        raise MalformedRecordsError("the records end too early") from None
    if position != len(data):
        raise MalformedRecordsError("bytes follow the last record")


def read_marker(data: bytes, count: int) -> tuple[int, int]:
    """Return the kind and the coordinator's epoch in a control batch's body.

    Returns NO_MARKER if it is too short for both; raises MalformedRecordsError as `key_values`.
    """
    for key, value in key_values(data, count):
        if key is not None and value is not None and len(value) >= END_MARKER.size:
            return CONTROL_KEY.unpack_from(key)[1], END_MARKER.unpack_from(value)[1]
    return NO_MARKER
