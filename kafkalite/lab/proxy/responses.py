"""`ResponseStream`: splits the cluster's bytes into responses, and rewrites those with addresses.

A response to rewrite is buffered until it is complete, because rewriting changes the length at its
start. The bytes of other responses are forwarded as they arrive.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kafkalite.lab.proxy.address_rewriting import CORRELATION_BYTES, PREFIX_BYTES
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.wire.frames import LENGTH_BYTES, frame_length

if TYPE_CHECKING:
    from collections import deque

    from kafkalite.lab.proxy.address_rewriting import GetProxyAddresses, Rewriter
    from kafkalite.lab.proxy.requests import PendingRequest

MAX_BUFFERED_BYTES = 256 * 1024 * 1024
"""Maximum size of a buffered response; responses can be large, because clients choose the limit."""

_unpack_correlation_id = Struct(">i").unpack_from
_unpack_prefix = Struct(">ii").unpack_from


class ResponseStream:
    """The responses of one connection, in order of the requests in `pending`."""

    __slots__ = (
        "_buffered_pieces",
        "_missing_bytes",
        "_partial_frame",
        "_pending",
        "_proxy_addresses",
        "_rewriter",
        "_skip_bytes",
    )

    def __init__(self, pending: deque[PendingRequest], proxy_addresses: GetProxyAddresses) -> None:
        self._pending = pending
        self._proxy_addresses = proxy_addresses
        self._partial_frame = b""
        """The first bytes of an incomplete frame, too few to identify the response."""
        self._skip_bytes = 0
        """Remaining bytes of the current frame, which are forwarded unchanged."""
        self._buffered_pieces: list[bytes] = []
        self._missing_bytes = 0
        """Remaining bytes of the buffered frame."""
        self._rewriter: Rewriter | None = None

    @property
    def is_at_frame_boundary(self) -> bool:
        """Whether no response is pending or partly received."""
        return not (self._pending or self._partial_frame or self._skip_bytes or self._missing_bytes)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bytes to forward after `data` has arrived; raises ProtocolViolation."""
        out: list[bytes] = []
        if self._missing_bytes:
            data = self._append_to_buffered_frame(data, out)
        buffer = self._partial_frame + data if self._partial_frame else data
        self._partial_frame = b""
        end = len(buffer)
        unchanged_start, position = 0, self._skip_bytes
        while (position := self._skip_unchanged(buffer, position, end)) < end:
            stop, rewriter = self._next_frame(buffer, position)
            if stop is None:
                self._partial_frame = buffer[position:]
                break
            if rewriter is not None:
                out.append(buffer[unchanged_start:position])
                self._start_buffering(buffer[position:stop], stop - position, rewriter, out)
                unchanged_start = min(stop, end)
                position = unchanged_start
                continue
            position = stop
        self._skip_bytes = max(position - end, 0)
        out.append(buffer[unchanged_start : min(position, end)])
        return [piece for piece in out if piece]

    def _skip_unchanged(self, buffer: bytes, position: int, end: int) -> int:
        """Skip responses that are forwarded unchanged; return the position after them."""
        pending = self._pending
        while pending and end - position >= PREFIX_BYTES:
            length, correlation_id = _unpack_prefix(buffer, position)
            pending_id, rewriter = pending[0]
            if correlation_id != pending_id or rewriter is not None or length < CORRELATION_BYTES:
                break
            pending.popleft()
            position += LENGTH_BYTES + length
        return position

    def _next_frame(self, buffer: bytes, position: int) -> tuple[int | None, Rewriter | None]:
        """Return the end of the frame at `position`, and its rewriter.

        The end is None if too few bytes have arrived. The rewriter is None if the frame is
        forwarded unchanged.
        """
        end = len(buffer)
        if end - position < LENGTH_BYTES:
            return None, None
        length = frame_length(buffer, position)
        if length < 0:
            raise ProtocolViolation(f"a response has the negative length {length}")
        stop = position + LENGTH_BYTES + length
        if not self._pending:
            raise ProtocolViolation("a response without a pending request")
        if self._pending[0].correlation_id is not None or len(self._pending) > 1:
            if end < min(stop, position + PREFIX_BYTES):
                return None, None
            return stop, self._match_request(buffer, position, stop)
        self._pending.popleft()
        return stop, None

    def _match_request(self, buffer: bytes, position: int, stop: int) -> Rewriter | None:
        """Remove from `pending` the request that this frame answers; return its rewriter.

        A SASL mechanism may not respond to its last token. Then the frame answers the next request.
        """
        correlation_id = None
        if stop - position >= PREFIX_BYTES:
            (correlation_id,) = _unpack_correlation_id(buffer, position + LENGTH_BYTES)
        request = self._pending.popleft()
        if request.correlation_id is None:
            next_request = next(
                (request for request in self._pending if request.correlation_id is not None), None
            )
            if next_request is None or next_request.correlation_id != correlation_id:
                return None
            while request is not next_request:
                request = self._pending.popleft()
        if request.correlation_id != correlation_id:
            raise ProtocolViolation(
                f"a response has the correlation id {correlation_id} "
                f"instead of {request.correlation_id}"
            )
        return request.rewriter

    def _start_buffering(
        self, piece: bytes, size: int, rewriter: Rewriter, out: list[bytes]
    ) -> None:
        """Start to buffer a frame, of which `piece` has arrived."""
        if size > MAX_BUFFERED_BYTES:
            raise ProtocolViolation(
                f"a response of {size} bytes is above the proxy's limit of {MAX_BUFFERED_BYTES}; "
                "let the client fetch less at a time"
            )
        if len(piece) == size:
            out.append(rewriter.rewrite(piece, self._proxy_addresses))
            return
        self._buffered_pieces = [piece]
        self._missing_bytes = size - len(piece)
        self._rewriter = rewriter

    def _append_to_buffered_frame(self, data: bytes, out: list[bytes]) -> bytes:
        """Add data to the buffered frame; return the bytes after the frame."""
        part = data[: self._missing_bytes]
        self._buffered_pieces.append(part)
        self._missing_bytes -= len(part)
        if not self._missing_bytes:
            assert self._rewriter is not None
            frame = b"".join(self._buffered_pieces)
            self._buffered_pieces = []
            out.append(self._rewriter.rewrite(frame, self._proxy_addresses))
        return data[len(part) :]
