"""The requests of one connection and their responses, without I/O.

`Exchanges` queues frames to send and matches received bytes with pending requests. The functions
encode requests and parse responses.
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kafkalite.protocol import codec
from kafkalite.protocol.codec import API_VERSIONS_KEY
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.protocol.message import Message

_LENGTH: Final = Struct(">i")
_CORRELATION_ID: Final = Struct(">i")
_REQUEST_HEADER: Final = Struct(">hhih")
_MAX_RESPONSE_BYTES: Final = 512 * 1024 * 1024
_MAX_PENDING: Final = 200_000
"""Maximum pending requests; above this, the oldest are resolved without a response."""
_TLS_ALERT: Final = 0x1503
"""The first two bytes of the answer of a TLS listener to a client without TLS."""


class UnexpectedBytesError(Exception):
    """Bytes that no Kafka broker sends in this state; the text describes them."""


class TlsAlertError(UnexpectedBytesError):
    """The alert of a listener that accepts only TLS."""


class PendingResponse:
    """A requested response: received, pending, or lost."""

    __slots__ = ("_waiter", "correlation_id", "frame", "is_resolved")

    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id
        self.frame: bytes | None = None
        """The response without its length field; None while it is pending or if it is lost."""
        self.is_resolved = False
        self._waiter: asyncio.Future[None] | None = None

    def resolve(self, frame: bytes | None) -> None:
        """Set the response; None if the connection ended first."""
        self.frame = frame
        self.is_resolved = True
        self._wake()

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait until it is resolved, at most `timeout_s`; return whether it is."""
        if self.is_resolved:
            return True
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        # call_later instead of `wait_for`, which takes longer than many responses.
        timer = None if timeout_s is None else loop.call_later(timeout_s, self._wake)
        try:
            await self._waiter
        finally:
            if timer is not None:
                timer.cancel()
        return self.is_resolved

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Exchanges:
    """The requests in flight on one connection; the broker answers them in order."""

    def __init__(self) -> None:
        self._incomplete = bytearray()
        self._queued_frames: list[bytes] = []
        self._pending: deque[PendingResponse] = deque()
        self.queued_bytes = 0
        """The size of the queued frames, without length fields."""

    def queue(self, frame: bytes, correlation_id: int) -> PendingResponse:
        """Queue a request frame without its length field for the next `take_queued`."""
        pending = PendingResponse(correlation_id)
        self._pending.append(pending)
        if len(self._pending) > _MAX_PENDING:
            self._pending.popleft().resolve(None)
        self._queued_frames += (_LENGTH.pack(len(frame)), frame)
        self.queued_bytes += len(frame)
        return pending

    def take_queued(self) -> bytes:
        """Return the queued bytes and empty the queue."""
        data = b"".join(self._queued_frames)
        self._queued_frames.clear()
        self.queued_bytes = 0
        return data

    def feed(self, data: bytes) -> None:
        """Resolve requests with complete responses; raises UnexpectedBytesError for other bytes."""
        incomplete = self._incomplete
        incomplete += data
        position, end = 0, len(incomplete)
        while end - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(incomplete, position)
            if length >> 16 == _TLS_ALERT:
                raise TlsAlertError("a TLS alert")
            if not _CORRELATION_ID.size <= length <= _MAX_RESPONSE_BYTES:
                raise UnexpectedBytesError(f"a frame with an invalid length of {length} bytes")
            stop = position + _LENGTH.size + length
            if stop > end:
                break
            self._resolve(bytes(incomplete[position + _LENGTH.size : stop]))
            position = stop
        del incomplete[:position]

    def _resolve(self, frame: bytes) -> None:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        pending_responses = self._pending
        for position, pending in enumerate(pending_responses):
            if pending.correlation_id == correlation_id:
                # Responses are in order, so earlier pending requests get no response.
                for _ in range(position):
                    pending_responses.popleft().resolve(None)
                pending_responses.popleft().resolve(frame)
                return
        raise UnexpectedBytesError(f"an answer with the unknown correlation id {correlation_id}")

    def end(self) -> None:
        """Resolve all pending requests without a response."""
        self._incomplete.clear()
        while self._pending:
            self._pending.popleft().resolve(None)


def encode_request(
    request: Message, version: int, correlation_id: int, client_id: str = "kafkalite"
) -> bytes:
    """Return a request frame without its length field."""
    key = api_key_of(request)
    out: list[bytes | memoryview] = []
    codec.request_builder(key, version)(request, out)
    tags = b"\0" if codec.is_flexible(key, version) else b""
    client = client_id.encode()
    header = _REQUEST_HEADER.pack(key, version, correlation_id, len(client))
    return b"".join((header, client, tags, *out))


def parse_response(frame: bytes, key: int, version: int) -> Any:  # noqa: ANN401 - any response class
    """Return the message of a response frame, given without its length field.

    Raises one of codec.PARSE_ERRORS for invalid bytes.
    """
    has_tags = codec.is_flexible(key, version) and key != API_VERSIONS_KEY
    start = _CORRELATION_ID.size + has_tags
    response, _ = codec.response_parser(key, version)(frame, start, len(frame))
    return response


def api_key_of(request: Message) -> int:
    """Return the API key of a request."""
    key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
    return key


def supported_versions(response: Any) -> dict[int, Versions]:  # noqa: ANN401 - an ApiVersionsResponse
    """Return the versions that a broker supports, by API key, without invalid ranges."""
    return {
        row.api_key: Versions(row.min_version, row.max_version)
        for row in response.api_keys
        if 0 <= row.min_version <= row.max_version
    }


def error_text(code: int) -> str:
    """Return the message and the name of an error code."""
    error = ErrorCode(code)
    return f"{error.message} ({error.name})"
