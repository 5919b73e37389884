"""Recognition of Kafka traffic.

A request is recognised by its header and body, a response by the correlation id of a request.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING, Final

from kafkalite.capture.reading.framing import LENGTH_BYTES, Verdict
from kafkalite.capture.reading.messages import is_request, is_response
from kafkalite.protocol import codec
from kafkalite.wire.headers import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_API_KEYS: Final = frozenset(codec.api_keys())
_MAX_API_KEY: Final = max(_API_KEYS) + 32
"""Maximum plausible API key; future brokers have more APIs than are known here."""
_MAX_VERSION: Final = 63
_MAX_CLIENT_ID_BYTES: Final = 1024
_unpack_request_start = Struct(">ihhih").unpack_from
_unpack_response_start = Struct(">ii").unpack_from
_MIN_PREFIX_BYTES: Final = LENGTH_BYTES + HEADER_BYTES
"""Size of a frame's length, and of the fields of a request header up to the client id's length."""
_REQUEST_START_PATTERN: Final = re.compile(
    # Length, API key, version, correlation id, client id; matches may overlap.
    rb"(?s)(?=(?!\x00\x00\x00[\x00-\x09])[\x00-\x07]...[\x00\x01].\x00[\x00-\x3f].{4}(?:\xff\xff|[\x00-\x03].))"
)
_TLS_RECORD_TYPES: Final = range(20, 24)
_TLS_MAJOR_VERSION: Final = 3
_TLS_MINOR_VERSIONS: Final = range(5)
_TLS_HEADER_BYTES: Final = 5
_MAX_TLS_RECORD_BYTES: Final = 16384 + 2048


def is_tls(data: bytes | bytearray) -> bool:
    """Whether the bytes look like the start of a TLS record."""
    return (
        len(data) >= _TLS_HEADER_BYTES
        and data[0] in _TLS_RECORD_TYPES
        and data[1] == _TLS_MAJOR_VERSION
        and data[2] in _TLS_MINOR_VERSIONS
        and 0 < int.from_bytes(data[3:5]) <= _MAX_TLS_RECORD_BYTES
    )


def check_first_request(data: bytes | bytearray, max_frame_bytes: int) -> Verdict:
    """Check whether a client's first bytes are a request; its API or version may be unknown."""
    if len(data) < _MIN_PREFIX_BYTES:
        return Verdict.UNKNOWN
    size, api_key, api_version, _, client_id_size = _unpack_request_start(data)
    is_request_header = (
        HEADER_BYTES <= size <= max_frame_bytes
        and 0 <= api_key <= _MAX_API_KEY
        and _is_plausible_version(api_version)
        and -1 <= client_id_size <= min(_MAX_CLIENT_ID_BYTES, size - HEADER_BYTES)
        and _is_text(data[_MIN_PREFIX_BYTES : _MIN_PREFIX_BYTES + max(0, client_id_size)])
    )
    return Verdict.YES if is_request_header else Verdict.NO


def _is_plausible_version(number: int) -> bool:
    return 0 <= number <= _MAX_VERSION


def _is_text(data: bytes | bytearray) -> bool:
    try:
        return data.decode().isprintable()
    except UnicodeDecodeError as error:
        return error.end >= len(data) > 0 and error.reason == "unexpected end of data"


class RequestFinder:
    """Recognises requests: their API and version are known, and their body parses to its end."""

    __slots__ = ("_max_frame_bytes", "client_ids")

    overlap_bytes = _MIN_PREFIX_BYTES - 1

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self.client_ids: set[bytes] = set()
        """Client ids that the connection has used."""

    def candidates(self, buffer: bytearray, start: int) -> Iterator[int]:
        """Return the positions at which a header may begin."""
        return (match.start() for match in _REQUEST_START_PATTERN.finditer(buffer, start))

    def check(self, buffer: bytearray, position: int) -> Verdict:
        """Check whether a request begins at a position."""
        size, api_key, _, _, client_id_size = _unpack_request_start(buffer, position)
        stop = position + LENGTH_BYTES + size
        body_start = position + _MIN_PREFIX_BYTES + max(0, client_id_size)
        if (
            not HEADER_BYTES <= size <= self._max_frame_bytes
            or body_start > stop
            or client_id_size < -1
        ):
            return Verdict.NO
        if api_key not in _API_KEYS:
            return Verdict.NO
        client_id = bytes(buffer[position + _MIN_PREFIX_BYTES : min(body_start, stop)])
        if client_id_size > _MAX_CLIENT_ID_BYTES or not _is_text(client_id):
            return Verdict.NO
        if stop > len(buffer):
            return Verdict.YES if client_id and client_id in self.client_ids else Verdict.UNKNOWN
        is_valid = is_request(bytes(buffer[position + LENGTH_BYTES : stop]))
        return Verdict.YES if is_valid else Verdict.NO


_MIN_RESPONSE_LENGTH: Final = LENGTH_BYTES.to_bytes(LENGTH_BYTES)
"""The length of a response that has only a correlation id."""


class ResponseFinder:
    """Recognises responses: the correlation id is that of a request, and the body parses."""

    __slots__ = ("_max_response_length", "_pending")

    overlap_bytes = LENGTH_BYTES * 2 - 1

    def __init__(self, pending: Mapping[int, tuple[int, int]], max_frame_bytes: int) -> None:
        self._pending = pending
        self._max_response_length = max_frame_bytes.to_bytes(LENGTH_BYTES)

    def candidates(self, buffer: bytearray, start: int) -> Iterator[int]:
        """Return the positions of plausible lengths that a pending correlation id follows."""
        positions = set()
        for correlation_id in self._pending:
            pattern = correlation_id.to_bytes(4, signed=True)
            found_at = buffer.find(pattern, start + LENGTH_BYTES)
            while found_at >= 0:
                if (
                    _MIN_RESPONSE_LENGTH
                    <= buffer[found_at - LENGTH_BYTES : found_at]
                    <= self._max_response_length
                ):
                    positions.add(found_at - LENGTH_BYTES)
                found_at = buffer.find(pattern, found_at + 1)
        return iter(sorted(positions))

    def check(self, buffer: bytearray, position: int) -> Verdict:
        """Check whether a response begins at a position."""
        size, correlation_id = _unpack_response_start(buffer, position)
        pending = self._pending.get(correlation_id)
        if pending is None:
            return Verdict.NO
        stop = position + LENGTH_BYTES + size
        if stop > len(buffer):
            return Verdict.UNKNOWN
        return (
            Verdict.YES if is_response(bytes(buffer[position + 4 : stop]), *pending) else Verdict.NO
        )
