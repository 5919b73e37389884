"""Truncation of the keys, values and header values of records.

Batches are decoded and encoded again. Counts, offsets, timestamps, headers, producer fields and
compression are those of the original; the checksum is valid if the original one was. Control
batches are unchanged. Batches that cannot be decoded are dropped.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.formats.comments import PacketNote
from kafkalite.capture.reading.messages import CORRELATION_BYTES, request_header, response_start
from kafkalite.capture.recording.frame_splitting import (
    LENGTH_BYTES,
    MIN_REQUEST_BYTES,
    SimpleTreatment,
    blank_frame,
)
from kafkalite.protocol import codec
from kafkalite.protocol.catalogue import ROWS, structs_at
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage import compression
from kafkalite.storage.batch import (
    HEADER_SIZE,
    LENGTH_END,
    BatchProducer,
    BatchView,
    assemble,
    split_batches,
)
from kafkalite.storage.record_format import (
    MalformedRecordsError,
    decode_headers,
    encode_varint,
    read_varint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalite.capture.recording.frame_splitting import TreatedFrame, Treatment

    FindStructs = Callable[[Any], Iterator[Any]]

_CONTINUATION_BIT: Final = 0x80  # set in every byte of a varint but the last
_MAX_PREFIX_BYTES: Final = 21
"""Maximum size of a record's fields before the key: attributes and two varints."""
_NO_HEADERS: Final = encode_varint(0)
_NULL: Final = encode_varint(-1)
_CRC_START: Final = 17
_CRC_END: Final = 21
_pack_length = Struct(">i").pack


TRUNCATED_REQUESTS: Final[Mapping[int, FindStructs]] = {
    key: partial(structs_at, place=row.request.records)
    for key, row in ROWS.items()
    if row.request.records
}
TRUNCATED_RESPONSES: Final[Mapping[int, FindStructs]] = {
    key: partial(structs_at, place=row.response.records)
    for key, row in ROWS.items()
    if row.response.records
}
"""API key → function that returns the structs whose `records` field is truncated."""


class RecordTruncation:
    """Truncates keys, values and header values to a size in bytes; header names are unchanged."""

    __slots__ = ("_limit",)

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def request_treatment(self, api_key: int) -> Treatment:
        """Return the treatment of an API's requests."""
        return self._truncate_request if api_key in TRUNCATED_REQUESTS else SimpleTreatment.KEEP

    def response_treatment(self, api_key: int, version: int) -> Treatment:
        """Return the treatment of an API's responses."""
        if api_key not in TRUNCATED_RESPONSES:
            return SimpleTreatment.KEEP
        return partial(self._truncate_response, api_key, version)

    def _truncate_request(self, frame: bytes) -> TreatedFrame:
        start = LENGTH_BYTES
        try:
            header = request_header(frame[LENGTH_BYTES:])
            start += header.start
            key, version = header.api_key, header.api_version
            parse, build = codec.request_parser(key, version), codec.request_builder(key, version)
            return self._truncate(frame, start, TRUNCATED_REQUESTS[key], parse, build)
        except (KeyError, *codec.PARSE_ERRORS):
            return blank_frame(frame, max(start, LENGTH_BYTES + MIN_REQUEST_BYTES))

    def _truncate_response(self, api_key: int, version: int, frame: bytes) -> TreatedFrame:
        start = LENGTH_BYTES + CORRELATION_BYTES
        try:
            start = LENGTH_BYTES + response_start(frame[LENGTH_BYTES:], api_key, version)
            parse = codec.response_parser(api_key, version)
            build = codec.response_builder(api_key, version)
            return self._truncate(frame, start, TRUNCATED_RESPONSES[api_key], parse, build)
        except (KeyError, *codec.PARSE_ERRORS):
            return blank_frame(frame, start)

    def _truncate(
        self,
        frame: bytes,
        start: int,
        find_structs: FindStructs,
        parse: codec.Parser,
        build: codec.Builder,
    ) -> TreatedFrame:
        message, end = parse(frame, start, len(frame))
        is_changed = end != len(frame)
        for struct in find_structs(message):
            if struct.records:
                truncated = self.truncate_batches(struct.records)
                is_changed = is_changed or len(truncated) != len(struct.records)
                struct.records = truncated
        if not is_changed:
            return frame, None
        out: list[bytes | memoryview] = [frame[LENGTH_BYTES:start]]
        build(message, out)
        body = b"".join(out)
        return _pack_length(len(body)) + body, PacketNote(snapped=len(frame))

    def truncate_batches(self, data: bytes | memoryview) -> bytes:
        """Return batches with truncated records."""
        try:
            batches = split_batches(data)
        except KafkaError:
            return b""
        complete_bytes = sum(batch.size for batch in batches)
        truncated = [self._truncate_batch(batch) for batch in batches]
        # A Fetch response may end within a batch; clients ignore the incomplete one.
        partial_batch = bytes(data[complete_bytes : complete_bytes + HEADER_SIZE])
        return b"".join((*truncated, partial_batch if len(partial_batch) > LENGTH_END else b""))

    def _truncate_batch(self, batch: BatchView) -> bytes:
        if batch.is_control:
            return bytes(batch.data)
        try:
            body = batch.body()
            truncated = truncate_records(body, batch.record_count, self._limit)
            if truncated == body:
                return bytes(batch.data)
            payload = compression.compress(batch.compression, truncated)
        except MalformedRecordsError:
            return b""
        assembled = assemble(
            payload,
            base_offset=batch.base_offset,
            leader_epoch=batch.leader_epoch,
            attributes=batch.attributes,
            last_offset_delta=batch.last_offset_delta,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            producer=BatchProducer(batch.producer_id, batch.producer_epoch, batch.base_sequence),
            record_count=batch.record_count,
        )
        if not batch.has_valid_crc():
            assembled = assembled[:_CRC_START] + batch.crc.to_bytes(4) + assembled[_CRC_END:]
        return assembled


def truncate_records(data: bytes, count: int, limit: int) -> bytes:
    """Return the `count` records in `data` with keys and values of at most `limit` bytes.

    There are no function calls per record, because there may be a hundred thousand records per
    second. Raises MalformedRecordsError if the records do not fill `data` exactly.
    """
    out: list[bytes] = []
    limit_length = encode_varint(limit)
    truncated_bytes = len(limit_length) + limit
    record_start = 0
    try:
        for _ in range(count):
            length, begin = _read_length(data, record_start)
            position, end = begin + 1, begin + length
            while data[position] >= _CONTINUATION_BIT:  # timestamp delta
                position += 1
            position += 1
            while data[position] >= _CONTINUATION_BIT:  # offset delta
                position += 1
            position += 1
            if position - begin > _MAX_PREFIX_BYTES:
                raise MalformedRecordsError("a varint is longer than ten bytes")
            size, key = _read_length(data, position)
            key_end = key + size if size > 0 else key
            value_size, value = _read_length(data, key_end)
            value_end = value + value_size if value_size > 0 else value
            if not value_end < end <= len(data) or size < -1 or value_size < -1:
                raise MalformedRecordsError("a record's length does not fit its content")
            if size > limit:
                length += position - key_end + truncated_bytes
                prefix_and_key = data[begin:position] + limit_length + data[key : key + limit]
            else:
                prefix_and_key = data[begin:key_end]
            if value_size > limit:
                length += key_end - value_end + truncated_bytes
                value_part = limit_length + data[value : value + limit]
            else:
                value_part = data[key_end:value_end]
            headers = data[value_end:end]
            truncated_headers = (
                headers if headers == _NO_HEADERS else _truncate_headers(headers, limit)
            )
            length += len(truncated_headers) - len(headers)
            out += (encode_varint(length), prefix_and_key, value_part, truncated_headers)
            record_start = end
    except IndexError:
        raise MalformedRecordsError("the records end too early") from None
    if record_start != len(data):
        raise MalformedRecordsError("bytes follow the last record")
    return b"".join(out)


def _truncate_headers(data: bytes, limit: int) -> bytes:
    headers = decode_headers(data, 0, len(data))
    out = [encode_varint(len(headers))]
    for name, value in headers:
        name_bytes = name.encode()
        out += (encode_varint(len(name_bytes)), name_bytes)
        out += (_NULL,) if value is None else (encode_varint(min(len(value), limit)), value[:limit])
    return b"".join(out)


def _read_length(data: bytes, position: int) -> tuple[int, int]:
    """Return the varint at `position` and its end; one or two bytes, the usual sizes, are fast."""
    byte = data[position]
    if byte >= _CONTINUATION_BIT:
        second_byte = data[position + 1]
        if second_byte >= _CONTINUATION_BIT:
            return read_varint(data, position)
        value = byte & 0x7F | second_byte << 7
        return value >> 1 ^ -(value & 1), position + 2
    return byte >> 1 ^ -(byte & 1), position + 1
