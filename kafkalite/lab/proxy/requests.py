"""`RequestStream`: finds the requests in a client's bytes, which are forwarded unchanged.

Only headers are decoded, and `acks` of Produce requests, because a request with acks=0 gets no
response. Frames are not buffered.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Final

from kafkalite.lab.proxy.address_rewriting import find_rewriter
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec_helpers import rest_of_varint
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.versions import Versions
from kafkalite.wire.frames import LENGTH_BYTES, frame_length
from kafkalite.wire.headers import HEADER_BYTES, skip_tagged_fields
from kafkalite.wire.session import invalid_length_reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.lab.proxy.address_rewriting import Rewriter

MAX_HEADER_BYTES = 256 * 1024
"""Maximum size of a request's fields up to the last one that is decoded."""

_CACHE_SIZE: Final = 128
"""Maximum number of cached rewriters by API and version, because clients choose these numbers."""

_PRODUCE: Final = int(ApiKey.PRODUCE)
_SASL_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)
_VERSIONS_WITH_TRANSACTIONAL_ID: Final = Versions(3)
_HEADER_START_BYTES: Final = 8
"""API key, version and correlation id."""

_unpack_header_start = Struct(">hhi").unpack_from
_unpack_framed_header_start = Struct(">iIi").unpack_from
_unpack_int16 = Struct(">h").unpack_from


class PendingRequest(NamedTuple):
    """A request that has no response yet."""

    correlation_id: int | None
    """None for a SASL token without a header."""
    rewriter: Rewriter | None
    """Rewrites the response; None if it is forwarded unchanged."""


_pending_request: Callable[[tuple[int | None, Rewriter | None]], PendingRequest] = partial(
    tuple.__new__, PendingRequest
)
"""Constructs a `PendingRequest` twice as fast as its class does; called for every request."""

SASL_TOKEN: Final = PendingRequest(None, None)
"""A token of a SASL mechanism, which is sent without a header after SaslHandshake version 0."""


class RequestStream:
    """The requests of one connection; `pending` has those without a response yet."""

    __slots__ = (
        "_cached_rewriters",
        "_max_frame_bytes",
        "_may_be_token",
        "_partial_frame",
        "_skip_bytes",
        "pending",
        "request_count",
    )

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._partial_frame = b""
        """The first bytes of an incomplete frame, too few to identify the request."""
        self._skip_bytes = 0
        """Remaining bytes of the current frame."""
        self._may_be_token = False
        """Whether the next frame may be a SASL token without a header."""
        self._cached_rewriters: dict[int, Rewriter | None] = {}
        """API key and version as one number → rewriter, for APIs of which only the API key, version
        and correlation id are decoded."""
        self.pending: deque[PendingRequest] = deque()
        self.request_count = 0
        """Number of requests."""

    @property
    def is_at_frame_boundary(self) -> bool:
        """Whether the next byte is the first of a request."""
        return not (self._partial_frame or self._skip_bytes or self._may_be_token)

    def feed(self, data: bytes) -> None:
        """Find the requests that start in `data`; raises ProtocolViolation if it is malformed."""
        buffer = self._partial_frame + data if self._partial_frame else data
        position, end = self._skip_bytes, len(buffer)
        while end - position >= LENGTH_BYTES:
            if (
                not self._may_be_token
                and (next_position := self._add_cached_requests(buffer, position, end)) > position
            ):
                position = next_position
                continue
            length = frame_length(buffer, position)
            if not 0 <= length <= self._max_frame_bytes:
                raise ProtocolViolation(invalid_length_reason(length, self._max_frame_bytes))
            start = position + LENGTH_BYTES
            stop = start + length
            if not self._add_request(buffer, start, stop):
                break
            self.request_count += 1
            position = stop
        if position >= end:
            self._partial_frame, self._skip_bytes = b"", position - end
            return
        self._partial_frame, self._skip_bytes = buffer[position:], 0
        if len(self._partial_frame) > MAX_HEADER_BYTES:
            raise ProtocolViolation(f"a request's header is longer than {MAX_HEADER_BYTES} bytes")

    def _add_cached_requests(self, buffer: bytes, position: int, end: int) -> int:
        """Add consecutive requests from `position` on whose API and version are cached.

        Returns the position of the first request that is not cached or is incomplete.
        """
        cached, add = self._cached_rewriters, self.pending.append
        max_bytes = self._max_frame_bytes
        count = 0
        while end - position >= LENGTH_BYTES + _HEADER_START_BYTES:
            length, api_key_and_version, correlation_id = _unpack_framed_header_start(
                buffer, position
            )
            if api_key_and_version not in cached or not _HEADER_START_BYTES <= length <= max_bytes:
                break
            add(_pending_request((correlation_id, cached[api_key_and_version])))
            position += LENGTH_BYTES + length
            count += 1
        self.request_count += count
        return position

    def _add_request(self, buffer: bytes, start: int, stop: int) -> bool:
        """Add the request in a frame to `pending`; return False if too few bytes have arrived."""
        available_end = min(stop, len(buffer))
        if self._may_be_token:
            if available_end < min(stop, start + HEADER_BYTES):
                return False
            if not _is_request(buffer, start, stop):
                self.pending.append(SASL_TOKEN)
                return True
            self._may_be_token = False
        if available_end < start + _HEADER_START_BYTES:
            if available_end == stop:
                raise ProtocolViolation(
                    f"a request of {stop - start} bytes is too short for a header"
                )
            return False
        api_key, version, correlation_id = _unpack_header_start(buffer, start)
        rewriter = find_rewriter(api_key, version)
        if api_key == _PRODUCE:
            expects_response = _expects_response(buffer, start, stop, version)
            if expects_response is None:
                return False
            if not expects_response:
                return True
        elif api_key != _SASL_HANDSHAKE and len(self._cached_rewriters) < _CACHE_SIZE:
            self._cached_rewriters[api_key << 16 | version] = rewriter
        self._may_be_token = api_key == _SASL_HANDSHAKE and not version
        self.pending.append(PendingRequest(correlation_id, rewriter))
        return True


def _is_request(buffer: bytes, start: int, stop: int) -> bool:
    """Whether a frame that may be a SASL token starts with a request header.

    At the positions of API key, version and length of the client id, tokens of PLAIN, SCRAM,
    OAUTHBEARER and GSSAPI have bytes that are not valid for these fields.
    """
    if stop - start < HEADER_BYTES:
        return False
    api_key, version, _ = _unpack_header_start(buffer, start)
    (client_id_bytes,) = _unpack_int16(buffer, start + _HEADER_START_BYTES)
    return (
        api_key in codec.api_keys()
        and version in codec.api_versions(api_key, unstable=True)
        and -1 <= client_id_bytes <= stop - start - HEADER_BYTES
    )


def _expects_response(buffer: bytes, start: int, stop: int, version: int) -> bool | None:
    """Whether a Produce request has acks other than 0; None if too few bytes have arrived."""
    end = min(stop, len(buffer))
    reason: Exception | None = None
    try:
        position = _acks_position(buffer, start + _HEADER_START_BYTES, end, version)
        (acks,) = _unpack_int16(buffer, position)
        if position + 2 <= end:
            return bool(acks)
    except (ProtocolViolation, IndexError, struct_error) as parse_error:
        reason = parse_error
    if end == stop:
        raise ProtocolViolation("a Produce request ends before its acks field") from reason
    return None


def _acks_position(buffer: bytes, position: int, end: int, version: int) -> int:
    """Return the position of `acks` in a Produce request."""
    is_flexible = codec.is_flexible(_PRODUCE, version)
    position = _skip_string(buffer, position)
    if is_flexible:
        position = skip_tagged_fields(buffer, position, end)
    if version in _VERSIONS_WITH_TRANSACTIONAL_ID:
        skip = _skip_compact_string if is_flexible else _skip_string
        position = skip(buffer, position)
    return position


def _skip_string(buffer: bytes, position: int) -> int:
    """Return the position after a nullable string with a length of two bytes."""
    length: int = _unpack_int16(buffer, position)[0]
    return position + 2 + max(length, 0)


def _skip_compact_string(buffer: bytes, position: int) -> int:
    """Return the position after a nullable string whose length plus one is a varint."""
    length = buffer[position]
    position += 1
    if length > 0x7F:  # noqa: PLR2004 - the continuation bit
        length, position = rest_of_varint(buffer, position, length)
    return position + max(length - 1, 0)
