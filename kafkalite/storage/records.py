"""Single records inside a batch: varint-framed, each relative to the batch's first.

Only compaction, control batches, replay and record-level validation come here; a produced batch
passes through the broker as opaque bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class MalformedRecordsError(ValueError):
    """The bytes of a batch do not hold the records that its head promises."""


CONTROL_KEY = struct.Struct(">hh")
"""Of the one record of a control batch: its version and kind."""
END_MARKER = struct.Struct(">hi")
"""The value of a transaction's end: its version and the coordinator's epoch."""

NO_MARKER = (-1, -1)

_CONTINUES = 0x80  # set in every byte of a varint but the last
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
    """A record in place: `body` is where its key's length stands, `end` is where it ends."""

    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    body: int
    headers: int
    end: int


def _encode_varint(value: int) -> bytes:
    rest = value << 1 ^ value >> 63
    out = bytearray()
    while rest >= _CONTINUES:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


class _Varints(dict[int, bytes]):
    """Small varints, made beforehand; others are made as they are asked for."""

    def __missing__(self, value: int) -> bytes:
        return _encode_varint(value)


_NULL = b"\x01"  # the varint -1

# The method of a dict itself, for each record takes five: no Python runs for a small one.
varint: Callable[[int], bytes] = _Varints((n, _encode_varint(n)) for n in range(256)).__getitem__
"""Return the zigzag varint of a signed 64-bit integer."""


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the zigzag varint at `position` and where it ends; IndexError when cut short."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < _CONTINUES:
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
    """Return one record with its length before it."""
    parts = [_NULL] if key is None else [varint(len(key)), key]
    if value is None:
        parts.append(_NULL)
    else:
        parts += (varint(len(value)), value)
    parts.append(varint(len(headers)))
    for name, header_value in headers:
        raw_name = name.encode()
        parts += (varint(len(raw_name)), raw_name)
        if header_value is None:
            parts.append(_NULL)
        else:
            parts += (varint(len(header_value)), header_value)
    return frame_record(offset_delta, timestamp_delta, b"".join(parts))


def frame_record(offset_delta: int, timestamp_delta: int, body: bytes) -> bytes:
    """Return a record whose key, value and headers are encoded in `body` already."""
    framed = b"\x00" + varint(timestamp_delta) + varint(offset_delta) + body
    return varint(len(framed)) + framed


def encode_key_values(pairs: Sequence[tuple[bytes | None, bytes | None]]) -> bytes:
    """Return keys and values as records of one moment, without headers.

    So coordinators write what they decide: `encode_records` would say the same, in more steps.
    """
    out: list[bytes] = []
    for delta, (key, value) in enumerate(pairs):
        framed = b"".join(
            (
                b"\x00\x00",
                varint(delta),
                _NULL if key is None else varint(len(key)) + key,
                _NULL if value is None else varint(len(value)) + value,
                b"\x00",
            )
        )
        out += (varint(len(framed)), framed)
    return b"".join(out)


def encode_records(records: Sequence[NewRecord], base_timestamp: int) -> bytes:
    """Return the records one after the other, with offsets counted from the first."""
    return b"".join(
        encode_record(delta, record.timestamp - base_timestamp, *record[:2], record.headers)
        for delta, record in enumerate(records)
    )


def scan_records(data: bytes, count: int) -> Iterator[ScannedRecord]:
    """Yield the `count` records of an uncompressed batch body, where they stand.

    Raises MalformedRecordsError when they do not fill `data` exactly.
    """
    position = 0
    try:
        for _ in range(count):
            length, position = read_varint(data, position)
            end = position + length
            timestamp_delta, position = read_varint(data, position + 1)
            offset_delta, body = read_varint(data, position)
            key, position = _read_bytes(data, body)
            value, headers = _read_bytes(data, position)
            if headers >= end or end > len(data):
                raise MalformedRecordsError("a record's length does not fit its content")
            yield ScannedRecord(timestamp_delta, offset_delta, key, value, body, headers, end)
            position = end
    except IndexError:
        raise MalformedRecordsError("the records end too early") from None
    if position != len(data):
        raise MalformedRecordsError("bytes follow the last record")


def decode_headers(data: bytes, position: int, end: int) -> Headers:
    """Return the headers of a record; MalformedRecordsError when they do not fill it."""
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
        raise MalformedRecordsError("a record's headers do not fill it")
    return tuple(headers)


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
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
    """Return a record's key and value, and where it ends; IndexError when it is cut short.

    Varints of one byte are read in place, and nothing else of the record is looked at.
    """
    length = data[position]
    position += 1
    if length >= _CONTINUES:
        length, position = read_varint(data, position - 1)
        end = position + length
    else:
        end = position + (length >> 1)
    position += 1
    while data[position] >= _CONTINUES:  # the timestamp is skipped
        position += 1
    position += 1
    while data[position] >= _CONTINUES:  # and so is the offset
        position += 1
    key, position = _read_bytes(data, position + 1)
    value, position = _read_bytes(data, position)
    if position >= end:
        raise MalformedRecordsError("a record's length does not fit its content")
    return key, value, end


def key_values(data: bytes, count: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield the keys and values of an uncompressed batch body.

    Raises MalformedRecordsError when they do not fill `data` exactly.
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
    """Return the kind and the coordinator's epoch that a control batch's body tells.

    NO_MARKER where it is too short to tell both; MalformedRecordsError as `key_values`.
    """
    for key, value in key_values(data, count):
        if key is not None and value is not None and len(value) >= END_MARKER.size:
            return CONTROL_KEY.unpack_from(key)[1], END_MARKER.unpack_from(value)[1]
    return NO_MARKER
