"""Session: the requests of one connection, without I/O: received bytes in, bytes to send out.

Kafka answers the requests of a connection one at a time and in order: while an answer is pending,
later requests are neither read nor served. A Session does the same. While an answer is pending,
received bytes are stored, up to a limit at which reading is paused. The first requests that were
stored are then served one per turn, so that their answers do not arrive together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import NeedsWorkerError
from kafkalite.protocol.errors import ProtocolViolation, is_bug
from kafkalite.protocol.other_protocols import other_protocol
from kafkalite.wire.frames import LENGTH_BYTES, FrameBuffer

if TYPE_CHECKING:
    from kafkalite.ports.waiting import Waiting
    from kafkalite.wire.frames import ReceiveBuffers

Pieces = list[bytes | memoryview]
"""One or more answers, as consecutive pieces."""

BURST_BYTES = 1024 * 1024
"""The size of answers after which the session stops serving until they are being sent."""

_FRAMES_BEFORE_TIME_CHECK = range(4)
_FRAMES_PER_TIME_CHECK = range(16)
"""Frames served before the first check of the time, and between two checks."""

_ONE_FRAME = range(1)
_SEPARATE_FRAMES = 8
"""The number of requests after a pending answer that are served one per turn.

Kafka reads a request only after it has sent the answer to the previous one. A client that gets
several of these answers at once can act on an outdated one: librdkafka may then look for its
coordinator again and again. The number is limited, because each turn copies the later requests.
"""

_unpack_length = Struct(">i").unpack_from


class PendingAnswer:
    """An answer that is not available yet, and a function that encodes it when it is."""

    __slots__ = ("encode", "flushed_bytes", "on_close", "waiting")

    def __init__(
        self,
        waiting: Waiting[Any],
        encode: Callable[[Any, Pieces], int],
        flushed_bytes: int = 0,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.waiting = waiting
        self.encode = encode
        self.flushed_bytes = flushed_bytes
        """Bytes of earlier answers that were encoded when this request was served."""
        self.on_close = on_close
        """Called if the session is closed before the answer was encoded."""


class Deferred:
    """An answer that depends on a batch of writes; later requests are served meanwhile.

    It is encoded by `SessionSettings.flush`, or by `Serve` before the answer to a later request.
    """

    __slots__ = ("_answer", "_batch", "encode")

    def __init__(
        self, answer: object, batch: Batch | None, encode: Callable[[Any, Pieces], int]
    ) -> None:
        """Without a batch, the answer is final; `encode` encodes an answer or an error."""
        self._answer = answer
        self._batch = batch
        self.encode = encode

    @property
    def value(self) -> object:
        """The answer, or the error of the batch if it failed."""
        batch = self._batch
        return self._answer if batch is None or batch.error is None else batch.error


class Batch(Protocol):
    """Writes that are appended together."""

    @property
    def error(self) -> Exception | None:
        """The reason why the writes failed; None if they did not fail."""


ServeResult = int | PendingAnswer | Deferred
"""The number of bytes of an answer, or the answer that is pending or deferred."""

Serve = Callable[[Any, bytearray, int, int, Pieces], ServeResult]
"""(context, buffer, start, end, out): serve the frame between start and end, without its length.

Adds the pieces of the answer to `out` and returns their size in bytes, or a pending or deferred
answer. Raises ProtocolViolation for a frame that can only be answered by closing the connection.
"""


RejectLength = Callable[[Any, int, int], PendingAnswer]
"""(context, length, maximum): called for a frame of an invalid length.

Raises ProtocolViolation, or returns an answer that raises it later.
"""


def reject_length(context: object, length: int, maximum: int) -> PendingAnswer:
    """Raise ProtocolViolation with the reason why the length is invalid."""
    del context
    raise ProtocolViolation(invalid_length_reason(length, maximum))


class SessionSettings(NamedTuple):
    """Settings that all sessions of one listener share."""

    buffers: ReceiveBuffers
    serve: Serve
    """Raises NeedsWorkerError, before any change, for a request that may take long."""
    serve_in_worker: Serve
    """As `serve`, but also for requests that may take long; called in a worker."""
    wake: Callable[[Any], None]
    """(owner): called when a pending answer has arrived.

    The owner calls `serve` later, not within this call, so that no handler runs inside another.
    """
    max_request_bytes: int
    max_buffered_bytes: int
    is_turn_over: Callable[[], bool] = lambda: False
    reject_length: RejectLength = reject_length
    flush: Callable[[Pieces], int] | None = None
    """(out): called when all complete frames in the buffer were served, before answers are sent.

    Adds the deferred answers and returns their size in bytes; `serve` may do so before. Raises
    ProtocolViolation as `serve` does.
    """


class Session:
    """The requests of one connection.

    The owner receives into the buffer of `get_buffer` and calls `buffer_updated` with the number of
    bytes. Then it calls `serve`, or `store_received` to serve later. `serve` stops at the end of
    the turn; `is_interrupted` is then true. `serve` also stops before a request that may take long;
    `needs_worker` is then true, and the owner calls `serve_in_worker` in a worker. While the worker
    is paused, `pin` protects the bytes of its request from other connections.
    """

    __slots__ = (
        "_context",
        "_end",
        "_frames",
        "_is_closed",
        "_owner",
        "_pending",
        "_receive_buffer",
        "_separate_frames",
        "_settings",
        "is_interrupted",
        "is_paused",
        "needs_worker",
        "out",
        "out_bytes",
        "violation",
    )  # fmt: skip

    def __init__(self, settings: SessionSettings, context: object, owner: object) -> None:
        """`context` is passed to `SessionSettings.serve`, `owner` to `SessionSettings.wake`."""
        self._settings = settings
        self._context = context
        self._owner = owner
        self._frames = FrameBuffer(settings.buffers)
        self._pending: PendingAnswer | None = None
        self._separate_frames = 0
        """The number of next frames that are served one per turn."""
        self._is_closed = False
        self._receive_buffer: bytearray | None = None
        """The buffer whose bytes up to `_end` wait for `serve` or `store_received`."""
        self._end = 0
        self.out: Pieces = []
        """Answers to be sent; the owner takes them by `take_answers`."""
        self.out_bytes = 0
        """The size of `out` in bytes."""
        self.is_paused = False
        """Set by the owner while the client does not read; nothing is served."""
        self.is_interrupted = False
        """Whether frames may remain: the turn ended, `out` is large, or they are served alone."""
        self.needs_worker = False
        """Whether the next request may take long and needs `serve_in_worker`."""
        self.violation: str | None = None
        """The reason to close the connection after `out` is sent."""

    @property
    def has_pending_answer(self) -> bool:
        """Whether an answer is pending."""
        return self._pending is not None

    @property
    def is_idle(self) -> bool:
        """Whether there is no incomplete, unserved or unanswered request."""
        return self._pending is None and not self.out and not self._frames.stored_bytes

    def replace_settings(self, settings: SessionSettings) -> None:
        """Serve with other settings, from the next `serve` on or after a pending answer."""
        self._settings = settings

    def postpone(self, answer: PendingAnswer) -> None:
        """Wait for `answer` in place of the one that is being encoded, and which returns 0 bytes.

        Only `PendingAnswer.encode` calls this.
        """
        self._pending = answer
        answer.waiting.then(self._on_answer)

    def reserve(self) -> bool:
        """Take the memory that the next read needs; return False if the limit does not allow it."""
        return self._frames.reserve()

    @property
    def stored_bytes(self) -> int:
        """The number of stored bytes."""
        return self._frames.stored_bytes

    @property
    def should_pause_reading(self) -> bool:
        """Whether reading should pause: nothing can be served, and enough bytes are stored."""
        return (
            self._pending is not None or self.is_paused
        ) and self._frames.stored_bytes > self._settings.max_buffered_bytes

    def get_buffer(self) -> memoryview:
        """Return the buffer to receive into; `buffer_updated` must follow immediately."""
        return self._frames.get_buffer()

    def buffer_updated(self, count: int) -> None:
        """Accept `count` more bytes in the buffer; call `serve` or `store_received` next."""
        self._receive_buffer, self._end = self._frames.buffer_updated(count)

    def store_received(self) -> None:
        """Store received bytes, to be served later."""
        if self._receive_buffer is not None:
            self._receive_buffer = None
            self._frames.store(0, self._end)

    def pin_received_bytes(self) -> None:
        """Leave the bytes that are being served in place until they are served."""
        self._frames.pin()

    def serve(self) -> None:
        """Serve received bytes, up to the first request that may take long.

        A pending answer that has arrived is sent first. Nothing is served while an answer is
        pending, while the session is paused, and after a violation.
        """
        if self._pending is not None and self._pending.waiting.is_resolved:
            self.store_received()
            self.needs_worker = True
        elif self._pending is not None or self.is_paused or self.violation is not None:
            self.store_received()
        else:
            self._serve_received(self._settings.serve)

    def serve_in_worker(self) -> None:
        """Do the same as `serve`, also for requests that may take long; called in a worker."""
        self.store_received()
        self.needs_worker = False
        pending = self._pending
        if self._is_closed or (pending is not None and not pending.waiting.is_resolved):
            return
        if pending is not None:
            self._pending = None
            self._separate_frames = _SEPARATE_FRAMES
            try:
                self.out_bytes += pending.encode(pending.waiting.value, self.out)
            except ProtocolViolation as violation:
                self.violation = violation.reason
        self.is_interrupted = False
        if self._pending is None and not self.is_paused and self.violation is None:
            self._serve_received(self._settings.serve_in_worker)

    def _serve_received(self, serve: Serve) -> None:
        self.is_interrupted = False
        buffer, self._receive_buffer = self._receive_buffer, None
        if buffer is not None:
            self._serve_frames(serve, buffer, self._end)
        elif self._frames.stored_bytes:
            self._serve_frames(serve, *self._frames.restore())
        if self._separate_frames and not self.needs_worker:
            self._separate_frames = self._separate_frames - 1 if self.is_interrupted else 0

    def take_answers(self) -> Pieces:
        """Return the answers to be sent, and remove them from the session."""
        out, self.out, self.out_bytes = self.out, [], 0
        return out

    def close(self) -> None:
        """End the session; the handler of a pending answer is notified."""
        if self._is_closed:
            return
        self._is_closed = True
        self._receive_buffer = None
        self.out.clear()
        self._frames.clear()
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.waiting.abandon()
            if pending.on_close is not None:
                pending.on_close()
            pending.waiting.then(partial(_report_bug, pending.encode))
        del self._owner  # the owner refers to the session: both are freed without the collector

    def _serve_frames(  # noqa: C901, PLR0912 - one loop: each call costs a tenth of a heartbeat
        self, serve: Serve, buffer: bytearray, end: int
    ) -> None:
        """Serve complete frames from the start of `buffer`, and store the rest."""
        settings, context, out, size = self._settings, self._context, self.out, self.out_bytes
        maximum, position, is_done = settings.max_request_bytes, 0, False
        frames = _ONE_FRAME if self._separate_frames else _FRAMES_BEFORE_TIME_CHECK
        try:
            while not is_done:
                is_done = True
                for _ in frames:
                    if end - position < LENGTH_BYTES:
                        break
                    length = _unpack_length(buffer, position)[0]
                    if not 0 <= length <= maximum:
                        self._pending = settings.reject_length(context, length, maximum)
                        position = end
                        break
                    stop = position + LENGTH_BYTES + length
                    if stop > end:
                        break
                    answer = serve(context, buffer, position + LENGTH_BYTES, stop, out)
                    position = stop
                    if not isinstance(answer, int):
                        if isinstance(answer, Deferred):
                            continue
                        size += answer.flushed_bytes
                        self._pending = answer
                        break
                    size += answer
                    if size > BURST_BYTES:
                        self.is_interrupted = True
                        break
                else:
                    is_alone = frames is _ONE_FRAME and position < end
                    self.is_interrupted = is_done = is_alone or settings.is_turn_over()
                    frames = _FRAMES_PER_TIME_CHECK
        except NeedsWorkerError:
            self.needs_worker = True
        except ProtocolViolation as violation:
            self.violation = violation.reason
            position = end
        finally:
            # Also after an exception: a batch must not remain open for the next connection.
            if settings.flush is not None:
                size += self._flush(settings.flush)
        self.out_bytes = size
        self._frames.store(position, end)
        if self._pending is not None:
            self._pending.waiting.then(self._on_answer)

    def _flush(self, flush: Callable[[Pieces], int]) -> int:
        try:
            return flush(self.out)
        except ProtocolViolation as violation:
            self.violation = violation.reason
            return 0

    def _on_answer(self, _: object) -> None:
        if not self._is_closed:
            self._settings.wake(self._owner)


def invalid_length_reason(length: int, maximum: int, key: str = "socket.request.max.bytes") -> str:
    """Return the reason why a frame length is invalid, and the protocol that the client may use.

    `key` is the configuration that sets the maximum.
    """
    if length < 0:
        return f"negative frame length {length}"
    reason = f"frame length {length} is above {key}={maximum}"
    protocol = other_protocol(length.to_bytes(LENGTH_BYTES))
    return reason if protocol is None else f"{reason}: the client seems to speak {protocol}"


def _report_bug(encode: Callable[[Any, Pieces], int], answer: object) -> None:
    """Let the gateway report a bug in an answer whose client has disconnected."""
    if is_bug(answer):
        with suppress(ProtocolViolation):
            encode(answer, [])
