"""What looks like Kafka: requests recognised by their headers and bodies, responses by requests."""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING, Final

from kafkalite.capture.framing import LENGTH_BYTES, Verdict
from kafkalite.capture.messages import is_request, is_response
from kafkalite.protocol import codec
from kafkalite.wire.headers import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_API_KEYS: Final = frozenset(codec.api_keys())
_HIGHEST_KEY: Final = max(_API_KEYS) + 32
"""Brokers of the future have more APIs than we know, but not without end."""
_HIGHEST_VERSION: Final = 63
_MAX_CLIENT_ID: Final = 1024
_frame = Struct(">ihhih").unpack_from
_response = Struct(">ii").unpack_from
_FIXED_BYTES: Final = LENGTH_BYTES + HEADER_BYTES
_ANY_REQUEST: Final = re.compile(
    # Length, API key, version, correlation id, client id: at each place, overlapping ones too.
    rb"(?s)(?=(?!\x00\x00\x00[\x00-\x09])[\x00-\x07]...[\x00\x01].\x00[\x00-\x3f].{4}(?:\xff\xff|[\x00-\x03].))"
)
_TLS_TYPES: Final = range(20, 24)
_TLS_MAJOR: Final = 3
_TLS_MINORS: Final = range(5)
_TLS_HEAD: Final = 5
_TLS_MAX_RECORD: Final = 16384 + 2048


def is_tls(data: bytes | bytearray) -> bool:
    """Whether a TLS record seems to begin here."""
    return (
        len(data) >= _TLS_HEAD
        and data[0] in _TLS_TYPES
        and data[1] == _TLS_MAJOR
        and data[2] in _TLS_MINORS
        and 0 < int.from_bytes(data[3:5]) <= _TLS_MAX_RECORD
    )


def first_request(data: bytes | bytearray, max_frame: int) -> Verdict:
    """Judge the first bytes that a client sent; APIs and versions yet unknown may be among them."""
    if len(data) < _FIXED_BYTES:
        return Verdict.UNKNOWN
    size, api_key, api_version, _, client_size = _frame(data)
    is_header = (
        HEADER_BYTES <= size <= max_frame
        and 0 <= api_key <= _HIGHEST_KEY
        and _is_low(api_version)
        and -1 <= client_size <= min(_MAX_CLIENT_ID, size - HEADER_BYTES)
        and _is_text(data[_FIXED_BYTES : _FIXED_BYTES + max(0, client_size)])
    )
    return Verdict.YES if is_header else Verdict.NO


def _is_low(number: int) -> bool:
    return 0 <= number <= _HIGHEST_VERSION


def _is_text(data: bytes | bytearray) -> bool:
    try:
        return data.decode().isprintable()
    except UnicodeDecodeError as error:
        return error.end >= len(data) > 0 and error.reason == "unexpected end of data"


class Requests:
    """Recognises requests: known API and version, and a body that parses to its end."""

    __slots__ = ("_maximum", "clients")

    look_back = _FIXED_BYTES - 1

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self.clients: set[bytes] = set()
        """Ids that the connection's client is known to give itself."""

    def places(self, buffer: bytearray, start: int) -> Iterator[int]:
        """Return where the beginning of a header may be."""
        return (match.start() for match in _ANY_REQUEST.finditer(buffer, start))

    def judge(self, buffer: bytearray, place: int) -> Verdict:
        """Return whether a request begins at a place."""
        size, api_key, _, _, client_size = _frame(buffer, place)
        stop = place + LENGTH_BYTES + size
        body = place + _FIXED_BYTES + max(0, client_size)
        if not HEADER_BYTES <= size <= self._maximum or body > stop or client_size < -1:
            return Verdict.NO
        if api_key not in _API_KEYS:
            return Verdict.NO
        client = bytes(buffer[place + _FIXED_BYTES : min(body, stop)])
        if client_size > _MAX_CLIENT_ID or not _is_text(client):
            return Verdict.NO
        if stop > len(buffer):
            return Verdict.YES if client and client in self.clients else Verdict.UNKNOWN
        is_whole = is_request(bytes(buffer[place + LENGTH_BYTES : stop]))
        return Verdict.YES if is_whole else Verdict.NO


_LEAST: Final = LENGTH_BYTES.to_bytes(LENGTH_BYTES)
"""The length of a response that is a correlation id and nothing else."""


class Responses:
    """Recognises responses to requests that are known: correlation id, and a body that parses."""

    __slots__ = ("_asked", "_most")

    look_back = LENGTH_BYTES * 2 - 1

    def __init__(self, asked: Mapping[int, tuple[int, int]], maximum: int) -> None:
        self._asked = asked
        self._most = maximum.to_bytes(LENGTH_BYTES)

    def places(self, buffer: bytearray, start: int) -> Iterator[int]:
        """Return where a correlation id stands that is waited for."""
        found = set()
        for correlation_id in self._asked:
            wanted = correlation_id.to_bytes(4, signed=True)
            at = buffer.find(wanted, start + LENGTH_BYTES)
            while at >= 0:
                if _LEAST <= buffer[at - LENGTH_BYTES : at] <= self._most:
                    found.add(at - LENGTH_BYTES)
                at = buffer.find(wanted, at + 1)
        return iter(sorted(found))

    def judge(self, buffer: bytearray, place: int) -> Verdict:
        """Return whether a response begins at a place."""
        size, correlation_id = _response(buffer, place)
        asked = self._asked.get(correlation_id)
        if asked is None:
            return Verdict.NO
        stop = place + LENGTH_BYTES + size
        if stop > len(buffer):
            return Verdict.UNKNOWN
        return Verdict.YES if is_response(bytes(buffer[place + 4 : stop]), *asked) else Verdict.NO
