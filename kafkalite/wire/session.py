"""Session: one connection's conversation, whose turn it is included; bytes in, bytes out.

Kafka answers a connection's requests one at a time and in order: while one has no answer yet,
those behind it are neither read nor served. So does a Session: an answer that must wait parks the
session, and what arrives meanwhile is kept, up to a bound at which the reader is asked to pause.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any

from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.wire.frames import LENGTH_BYTES, FrameBuffer

if TYPE_CHECKING:
    from kafkalite.ports.waiting import Waiting
    from kafkalite.wire.frames import ReceiveBuffers

Pieces = list[bytes | memoryview]
"""An answer, or several: to be sent one after the other."""

BURST_BYTES = 1024 * 1024
"""Answers made in one go before the writer is asked whether it keeps up."""

_TLS_HANDSHAKE = b"\x16\x03"

_unpack_length = Struct(">i").unpack_from


class Owed:
    """An answer that is not there yet, and how to put it into pieces once it is."""

    __slots__ = ("finish", "waiting")

    def __init__(self, waiting: Waiting[Any], finish: Callable[[Any, Pieces], int]) -> None:
        self.waiting = waiting
        self.finish = finish


Serve = Callable[[bytearray, int, int, Pieces], int | Owed]
"""(buffer, start, end, out): serve the frame body between start and end.

Adds the answer's pieces to `out` and returns how many bytes they hold, or what is owed instead.
Raises ProtocolViolation for a frame that has no answer but the end of the connection.
"""


class Session:
    """The conversation of one connection.

    `wake` is called when an answer that was owed has arrived; the owner then calls `resume` in
    its own time, never within that call, so that no handler runs inside another. `settle` is called
    with the buffer when all whole frames in it were served, before their answers may leave.
    """

    __slots__ = (
        "_frames", "_is_closed", "_max_kept_bytes", "_max_request_bytes", "_owed", "_serve",
        "_settle", "_wake", "is_held", "is_interrupted", "made", "out", "violation",
    )  # fmt: skip

    def __init__(
        self,
        buffers: ReceiveBuffers,
        serve: Serve,
        *,
        max_request_bytes: int,
        max_kept_bytes: int,
        wake: Callable[[], None],
        settle: Callable[[bytearray, Pieces], None] | None = None,
    ) -> None:
        self._frames = FrameBuffer(buffers)
        self._serve = serve
        self._max_request_bytes = max_request_bytes
        self._max_kept_bytes = max_kept_bytes
        self._wake = wake
        self._settle = settle
        self._owed: Owed | None = None
        self._is_closed = False
        self.out: Pieces = []
        """Answers ready to be sent; the owner takes them away."""
        self.made = 0
        """How many bytes `out` holds."""
        self.is_held = False
        """Set by the owner: the peer does not read, so nothing more is served."""
        self.is_interrupted = False
        """Whether frames that could be served were left, because enough answers were made."""
        self.violation: str | None = None
        """Why the connection must end once `out` is sent."""

    @property
    def is_owing(self) -> bool:
        """Whether an answer is still owed."""
        return self._owed is not None

    @property
    def is_between(self) -> bool:
        """Whether no request has come in part, waits to be served, or is owed its answer."""
        return self._owed is None and not self.out and not self._frames.buffered

    @property
    def wants_pause(self) -> bool:
        """Whether more is kept than should be while nothing can be served."""
        return (
            self._owed is not None or self.is_held
        ) and self._frames.buffered > self._max_kept_bytes

    def space(self) -> memoryview:
        """Return where to receive; `received` follows before anything else happens."""
        return self._frames.space()

    def received(self, count: int) -> None:
        """Serve what `count` more bytes in the space last given out make possible."""
        frames = self._frames
        buffer, end = frames.received(count)
        if self._owed is None and not self.is_held and self.violation is None:
            self._serve_frames(buffer, end)
        else:
            frames.keep(0, end)

    def resume(self) -> None:
        """Go on after an owed answer has arrived, or after the owner took answers away."""
        if self._is_closed:
            return
        owed = self._owed
        if owed is not None:
            if not owed.waiting.is_resolved:
                return
            self._owed = None
            try:
                self.made += owed.finish(owed.waiting.value, self.out)
            except ProtocolViolation as violation:
                self.violation = violation.reason
        self.is_interrupted = False
        if not self.is_held and self.violation is None and self._frames.buffered:
            self._serve_frames(*self._frames.kept())

    def take(self) -> Pieces:
        """Return the answers that are ready; they are no longer the session's."""
        out, self.out, self.made = self.out, [], 0
        return out

    def close(self) -> None:
        """End the conversation; whoever still works on an answer is told that nobody waits."""
        if self._is_closed:
            return
        self._is_closed = True
        self.out.clear()
        self._frames.clear()
        owed, self._owed = self._owed, None
        if owed is not None:
            owed.waiting.abandon()

    def _serve_frames(self, buffer: bytearray, end: int) -> None:
        """Serve whole frames from the start of `buffer`, and keep what is left."""
        serve, out, maximum, made = self._serve, self.out, self._max_request_bytes, self.made
        position = 0
        try:
            while end - position >= LENGTH_BYTES:
                length = _unpack_length(buffer, position)[0]
                if not 0 <= length <= maximum:
                    self.violation = refused_length(length, maximum)
                    position = end
                    break
                stop = position + LENGTH_BYTES + length
                if stop > end:
                    break
                answer = serve(buffer, position + LENGTH_BYTES, stop, out)
                position = stop
                if isinstance(answer, Owed):
                    self._owed = answer
                    break
                made += answer
                if made > BURST_BYTES:
                    self.is_interrupted = True
                    break
        except ProtocolViolation as violation:
            self.violation = violation.reason
            position = end
        if self._settle is not None:
            self._settle(buffer, out)
        self.made = made
        self._frames.keep(position, end)
        if self._owed is not None:
            self._owed.waiting.then(self._answer_arrived)

    def _answer_arrived(self, _: object) -> None:
        if not self._is_closed:
            self._wake()


def refused_length(length: int, maximum: int) -> str:
    """Say why no frame of this length is taken, and what the peer might be."""
    if length < 0:
        return f"negative frame length {length}"
    reason = f"frame length {length} is above socket.request.max.bytes={maximum}"
    start = length.to_bytes(LENGTH_BYTES)
    if start.startswith(_TLS_HANDSHAKE):
        return f"{reason}: the peer seems to speak TLS"
    if start.rstrip().isalpha():
        return f"{reason}: the peer seems to speak HTTP"
    return reason
