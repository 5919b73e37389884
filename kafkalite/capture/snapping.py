"""Records cut short: what is in keys and values stays behind, all that is said about them is kept.

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
    frame_record,
    scan_records,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalite.capture.cutting import Piece, Treatment

    Places = Callable[[Any], Iterator[Any]]

_PRODUCE, _FETCH, _SHARE_FETCH = 0, 1, 78
_NULL: Final = b"\x01"  # the length of what is null
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
    """Cuts keys and values to so many bytes."""

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

    def _request(self, frame: bytes) -> Piece:
        start = LENGTH_BYTES
        try:
            header = request_header(frame[LENGTH_BYTES:])
            start += header.start
            key, version = header.api_key, header.api_version
            parse, build = codec.request_parser(key, version), codec.request_builder(key, version)
            return self._snapped(frame, start, SNAPPED_REQUESTS[key], parse, build)
        except (KeyError, *codec.PARSE_ERRORS):
            return blanked(frame, max(start, LENGTH_BYTES + REQUEST_HEAD_BYTES))

    def _response(self, api_key: int, version: int, frame: bytes) -> Piece:
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
    ) -> Piece:
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
            snapped = self._body(body, batch.record_count)
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

    def _body(self, body: bytes, count: int) -> bytes:
        return b"".join(
            frame_record(
                record.offset_delta,
                record.timestamp_delta,
                b"".join(
                    (
                        *self._cut(record.key),
                        *self._cut(record.value),
                        body[record.headers : record.end],
                    )
                ),
            )
            for record in scan_records(body, count)
        )

    def _cut(self, value: bytes | None) -> tuple[bytes, ...]:
        if value is None:
            return (_NULL,)
        kept = value[: self._limit]
        return (varint(len(kept)), kept)
