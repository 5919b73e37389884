"""Lane: one direction of a connection whose bytes arrive later, slowly, or not at all."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from kafkalite.server.link_rules import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.ports.entropy import Entropy
    from kafkalite.server.link_rules import Shape

_PIECES_PER_SECOND: Final = 20
"""The number of pieces in which the bytes of one second arrive with a bandwidth."""
_MILLISECONDS_PER_SECOND: Final = 1000


class Lane:
    """Bytes on their way, and the times at which they arrive.

    `deliver(data)` returns the rest that cannot be delivered now; `resume` tries it again. The data
    is valid during the call only.
    """

    __slots__ = (
        "_clock",
        "_deliver",
        "_entropy",
        "_free_ms",
        "_is_blocked",
        "_latest_ms",
        "_pieces",
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
        self._pieces: deque[tuple[int, memoryview]] = deque()
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
        if self.shape == UNCHANGED and not self._pieces:
            data = self._deliver(data)
            if data:
                self._is_blocked = True
                self._add(0, memoryview(bytes(data)))
            return
        data = memoryview(bytes(data))
        rate = self.shape.bytes_per_second
        length = len(data) if rate is None else max(1, rate // _PIECES_PER_SECOND)
        for start in range(0, len(data), length or 1):
            piece = data[start : start + length]
            self._add(self._arrival_ms(len(piece)), piece)
        self._schedule()

    def _arrival_ms(self, length: int) -> int:
        """Return when the next bytes arrive."""
        shape = self.shape
        self._free_ms = max(self._free_ms, self._clock.now_ms())
        if shape.bytes_per_second is not None:
            self._free_ms += length * _MILLISECONDS_PER_SECOND / shape.bytes_per_second
        jitter_ms = self._entropy.integer(shape.jitter_ms + 1) if shape.jitter_ms else 0
        arrival_ms = round(self._free_ms) + shape.latency_ms + jitter_ms
        self._latest_ms = max(self._latest_ms, arrival_ms)
        return self._latest_ms

    def change(self, shape: Shape) -> None:
        """Use another shape; bytes on a way that nothing disturbs any more arrive at once."""
        self.shape = shape
        if shape == UNCHANGED:
            self._free_ms = self._latest_ms = 0
            self._pieces = deque((0, piece) for _, piece in self._pieces)
        self._arrive()

    def resume(self) -> None:
        """Deliver bytes again, after some could not be delivered."""
        self._is_blocked = False
        self._arrive()

    def close(self) -> None:
        """Drop all bytes."""
        self._pieces.clear()
        self.size = 0
        self._cancel()

    def _add(self, arrival_ms: int, piece: memoryview) -> None:
        self._pieces.append((arrival_ms, piece))
        self.size += len(piece)

    def _cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    @property
    def _is_stopped(self) -> bool:
        return self.shape.is_cut or self._is_blocked

    def _schedule(self) -> None:
        if self._timer is None and self._pieces and not self._is_stopped:
            self._timer = self._clock.call_at(self._pieces[0][0], self._arrive)

    def _arrive(self) -> None:
        """Deliver the bytes whose time has come."""
        self._cancel()
        now_ms = self._clock.now_ms()
        while self._pieces and not self._is_stopped and self._pieces[0][0] <= now_ms:
            arrival_ms, piece = self._pieces.popleft()
            self.size -= len(piece)
            rest = self._deliver(piece)
            if rest:
                self._is_blocked = True
                self._pieces.appendleft((arrival_ms, rest))
                self.size += len(rest)
        self._schedule()
