"""Records cut short: what is in keys, values and headers stays behind, all else is kept.

Batches are taken apart and put together again: counts, offsets, times, headers, producers, the
compression and a right checksum (or a wrong one, where it was) are those of the original. Control
batches are no payload and stay as they are. What cannot be taken apart is left out.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.cutting import LENGTH_BYTES, REQUEST_HEAD_BYTES, Plain, blanked
from kafkalite.capture.messages import CORRELATION_BYTES, request_header, response_start
from kafkalite.capture.notes import PacketNote
from kafkalite.protocol import codec
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage import compression
from kafkalite.storage.batch import (
    HEAD_SIZE,
    LENGTH_END,
    BatchView,
    Producer,
    assemble,
    split_batches,
)
from kafkalite.storage.records import (
    MalformedRecordsError,
    decode_headers,
    read_varint,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalite.capture.cutting import Treated, Treatment

    Places = Callable[[Any], Iterator[Any]]

_PRODUCE, _FETCH, _SHARE_FETCH = 0, 1, 78
_CONTINUES: Final = 0x80  # set in every byte of a varint but the last
_MAX_HEAD_BYTES: Final = 21
"""What stands before a record's key at most: attributes, and two varints."""
_NO_HEADERS: Final = varint(0)
_NULL: Final = varint(-1)
_CRC_AT: Final = 17
_CRC_END: Final = 21
_pack_length = Struct(">i").pack


def _produced(message: Any) -> Iterator[Any]:  # noqa: ANN401 - messages of several APIs
    for topic in message.topic_data:
        yield from topic.partition_data


def _fetched(message: Any) -> Iterator[Any]:  # noqa: ANN401
    for topic in message.responses:
        yield from topic.partitions


SNAPPED_REQUESTS: Final[Mapping[int, Places]] = {_PRODUCE: _produced}
SNAPPED_RESPONSES: Final[Mapping[int, Places]] = {_FETCH: _fetched, _SHARE_FETCH: _fetched}
"""By API: what yields the structs whose `records` are payload."""


class Snap:
    """Cuts keys, values and those of headers to so many bytes; the names of headers stay."""

    __slots__ = ("_limit",)

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def of_request(self, api_key: int) -> Treatment:
        """Say what is done with requests of an API."""
        return self._request if api_key in SNAPPED_REQUESTS else Plain.KEEP

    def of_response(self, api_key: int, version: int) -> Treatment:
        """Say what is done with responses to such a request."""
        if api_key not in SNAPPED_RESPONSES:
            return Plain.KEEP
        return partial(self._response, api_key, version)

    def _request(self, frame: bytes) -> Treated:
        start = LENGTH_BYTES
        try:
            header = request_header(frame[LENGTH_BYTES:])
            start += header.start
            key, version = header.api_key, header.api_version
            parse, build = codec.request_parser(key, version), codec.request_builder(key, version)
            return self._snapped(frame, start, SNAPPED_REQUESTS[key], parse, build)
        except (KeyError, *codec.PARSE_ERRORS):
            return blanked(frame, max(start, LENGTH_BYTES + REQUEST_HEAD_BYTES))

    def _response(self, api_key: int, version: int, frame: bytes) -> Treated:
        start = LENGTH_BYTES + CORRELATION_BYTES
        try:
            start = LENGTH_BYTES + response_start(frame[LENGTH_BYTES:], api_key, version)
            parse = codec.response_parser(api_key, version)
            build = codec.response_builder(api_key, version)
            return self._snapped(frame, start, SNAPPED_RESPONSES[api_key], parse, build)
        except (KeyError, *codec.PARSE_ERRORS):
            return blanked(frame, start)

    def _snapped(
        self, frame: bytes, start: int, places: Places, parse: codec.Parser, build: codec.Builder
    ) -> Treated:
        message, end = parse(frame, start, len(frame))
        is_cut = end != len(frame)
        for place in places(message):
            if place.records:
                snapped = self.records(place.records)
                is_cut = is_cut or len(snapped) != len(place.records)
                place.records = snapped
        if not is_cut:
            return frame, None
        out: list[bytes | memoryview] = [frame[LENGTH_BYTES:start]]
        build(message, out)
        body = b"".join(out)
        return _pack_length(len(body)) + body, PacketNote(snapped=len(frame))

    def records(self, data: bytes | memoryview) -> bytes:
        """Return batches with their records cut."""
        try:
            batches = split_batches(data)
        except KafkaError:
            return b""
        whole = sum(batch.size for batch in batches)
        snapped = [self._batch(batch) for batch in batches]
        # Fetch may end within a batch, and then readers pass over its beginning.
        rest = bytes(data[whole : whole + HEAD_SIZE])
        return b"".join((*snapped, rest if len(rest) > LENGTH_END else b""))

    def _batch(self, batch: BatchView) -> bytes:
        if batch.is_control:
            return bytes(batch.data)
        try:
            body = batch.body()
            snapped = shortened(body, batch.record_count, self._limit)
            if snapped == body:
                return bytes(batch.data)
            payload = compression.compress(batch.compression, snapped)
        except MalformedRecordsError:
            return b""
        built = assemble(
            payload,
            base_offset=batch.base_offset,
            leader_epoch=batch.leader_epoch,
            attributes=batch.attributes,
            last_offset_delta=batch.last_offset_delta,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            producer=Producer(batch.producer_id, batch.producer_epoch, batch.base_sequence),
            record_count=batch.record_count,
        )
        if not batch.has_valid_crc():
            built = built[:_CRC_AT] + batch.crc.to_bytes(4) + built[_CRC_END:]
        return built


def shortened(data: bytes, count: int, limit: int) -> bytes:
    """Return the `count` records that `data` holds with nothing longer than `limit` bytes in them.

    Hardly anything is called for a record, for there may be a hundred thousand in a second. Raises
    MalformedRecordsError when the records do not fill `data` exactly.
    """
    out: list[bytes] = []
    limit_length = varint(limit)
    cut_bytes = len(limit_length) + limit
    position = 0
    try:
        for _ in range(count):
            length, begin = _length(data, position)
            at, end = begin + 1, begin + length
            while data[at] >= _CONTINUES:  # the time is skipped
                at += 1
            at += 1
            while data[at] >= _CONTINUES:  # and so is the offset
                at += 1
            at += 1
            if at - begin > _MAX_HEAD_BYTES:
                raise MalformedRecordsError("a varint is longer than ten bytes")
            size, key = _length(data, at)
            key_end = key + size if size > 0 else key
            value_size, value = _length(data, key_end)
            value_end = value + value_size if value_size > 0 else value
            if not value_end < end <= len(data) or size < -1 or value_size < -1:
                raise MalformedRecordsError("a record's length does not fit its content")
            if size > limit:
                length += at - key_end + cut_bytes
                head = data[begin:at] + limit_length + data[key : key + limit]
            else:
                head = data[begin:key_end]
            if value_size > limit:
                length += key_end - value_end + cut_bytes
                kept = limit_length + data[value : value + limit]
            else:
                kept = data[key_end:value_end]
            headers = data[value_end:end]
            short = headers if headers == _NO_HEADERS else _shortened_headers(headers, limit)
            length += len(short) - len(headers)
            out += (varint(length), head, kept, short)
            position = end
    except IndexError:
        raise MalformedRecordsError("the records end too early") from None
    if position != len(data):
        raise MalformedRecordsError("bytes follow the last record")
    return b"".join(out)


def _shortened_headers(data: bytes, limit: int) -> bytes:
    headers = decode_headers(data, 0, len(data))
    out = [varint(len(headers))]
    for name, value in headers:
        raw_name = name.encode()
        out += (varint(len(raw_name)), raw_name)
        out += (_NULL,) if value is None else (varint(min(len(value), limit)), value[:limit])
    return b"".join(out)


def _length(data: bytes, position: int) -> tuple[int, int]:
    """Return the length at `position` and where it ends: `read_varint`, for such as are usual."""
    byte = data[position]
    if byte >= _CONTINUES:
        more = data[position + 1]
        if more >= _CONTINUES:
            return read_varint(data, position)
        value = byte & 0x7F | more << 7
        return value >> 1 ^ -(value & 1), position + 2
    return byte >> 1 ^ -(byte & 1), position + 1
