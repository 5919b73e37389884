"""Lane: one direction of a connection whose bytes arrive later, slowly, or not at all."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.units import MILLISECONDS_PER_SECOND
from kafkalite.server.link_rules import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.ports.entropy import Entropy
    from kafkalite.server.link_rules import Shape

_PIECES_PER_SECOND: Final = 20
"""The number of pieces in which the bytes of one second arrive with a bandwidth."""


class _Chunk(NamedTuple):
    """Bytes that were sent together, and of which no piece has a time yet."""

    sent_ms: int
    shape: Shape
    data: memoryview


class Lane:
    """Bytes on their way, and the times at which they arrive.

    `deliver(data)` returns the rest that cannot be delivered now; `resume` tries it again. The data
    is valid during the call only.
    """

    __slots__ = (
        "_chunks",
        "_clock",
        "_deliver",
        "_entropy",
        "_free_ms",
        "_is_blocked",
        "_latest_ms",
        "_next",
        "_timer",
        "shape",
        "size",
    )

    def __init__(
        self, clock: Clock, entropy: Entropy, deliver: Callable[[memoryview], memoryview]
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._deliver = deliver
        self._next: tuple[int, memoryview] | None = None
        """The next piece, and when it arrives; later pieces are made when it has arrived."""
        self._chunks: deque[_Chunk] = deque()
        self._timer: Timer | None = None
        self._is_blocked = False
        """Whether bytes that have arrived could not be delivered."""
        self._free_ms = 0.0
        """When the earlier bytes have been sent with the bandwidth."""
        self._latest_ms = 0
        """When the last byte arrives: bytes do not overtake each other."""
        self.shape = UNCHANGED
        self.size = 0
        """The number of bytes on their way."""

    def send(self, data: memoryview) -> None:
        """Let bytes begin their way; they are copied unless they arrive at once."""
        if self.shape == UNCHANGED and not self.size:
            rest = self._deliver(data)
            if rest:
                self._is_blocked = True
                self._next = 0, memoryview(bytes(rest))
                self.size = len(rest)
        elif data:
            chunk = _Chunk(self._clock.now_ms(), self.shape, memoryview(bytes(data)))
            self._chunks.append(chunk)
            self.size += len(data)
            self._schedule()

    def _next_piece(self) -> tuple[int, memoryview] | None:
        """Return the next piece, and when it arrives."""
        if self._next is None and self._chunks:
            chunk = self._chunks.popleft()
            rate = chunk.shape.bytes_per_second
            length = len(chunk.data) if rate is None else max(1, rate // _PIECES_PER_SECOND)
            piece, rest = chunk.data[:length], chunk.data[length:]
            if rest:
                self._chunks.appendleft(chunk._replace(data=rest))
            self._next = self._arrival_ms(chunk, len(piece)), piece
        return self._next

    def _arrival_ms(self, chunk: _Chunk, length: int) -> int:
        """Return when the next bytes arrive."""
        shape = chunk.shape
        self._free_ms = max(self._free_ms, chunk.sent_ms)
        if shape.bytes_per_second is not None:
            self._free_ms += length * MILLISECONDS_PER_SECOND / shape.bytes_per_second
        jitter_ms = self._entropy.integer(shape.jitter_ms + 1) if shape.jitter_ms else 0
        arrival_ms = round(self._free_ms) + shape.latency_ms + jitter_ms
        self._latest_ms = max(self._latest_ms, arrival_ms)
        return self._latest_ms

    def change(self, shape: Shape) -> None:
        """Use another shape; bytes on a way that nothing disturbs any more arrive at once."""
        self.shape = shape
        if shape == UNCHANGED:
            self._free_ms = self._latest_ms = 0
            if self._next is not None:
                self._next = 0, self._next[1]
            self._chunks = deque(_Chunk(0, shape, chunk.data) for chunk in self._chunks)
        self._arrive()

    def resume(self) -> None:
        """Deliver bytes again, after some could not be delivered."""
        self._is_blocked = False
        self._arrive()

    def close(self) -> None:
        """Drop all bytes."""
        self._next = None
        self._chunks.clear()
        self.size = 0
        self._cancel()

    def _cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    @property
    def _is_stopped(self) -> bool:
        return self.shape.is_cut or self._is_blocked

    def _schedule(self) -> None:
        if self._timer is None and not self._is_stopped and (following := self._next_piece()):
            self._timer = self._clock.call_at(following[0], self._arrive)

    def _arrive(self) -> None:
        """Deliver the bytes whose time has come."""
        self._cancel()
        now_ms = self._clock.now_ms()
        while not self._is_stopped and (following := self._next_piece()):
            arrival_ms, piece = following
            if arrival_ms > now_ms:
                break
            self._next = None
            self.size -= len(piece)
            rest = self._deliver(piece)
            if rest:
                self._is_blocked = True
                self._next = arrival_ms, rest
                self.size += len(rest)
        self._schedule()
