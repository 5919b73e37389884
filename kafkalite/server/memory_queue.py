"""Memory queue: the connections that wait because large requests use all allowed memory.

Kafka stops reading from its sockets while `queued.max.request.bytes` are in use. Here a connection
waits if it needs more memory than is available; a connection whose requests fit in the shared
buffer never waits. A client that does not send the rest of a large request must not block others.
So connections whose requests have stalled for STALL_TIMEOUT_S are closed, the largest request
first, until the needed memory is free.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from kafkalite.wire.frames import ReceiveBuffers

STALL_TIMEOUT_S: Final = 10.0
"""The maximum time for the rest of a large request while others wait for memory."""

_PROGRESS_BYTES: Final = 1024 * 1024
"""A connection that received less than this within STALL_TIMEOUT_S is stalled."""


class Receiver(Protocol):
    """A connection in the memory queue."""

    @property
    def incomplete_request_bytes(self) -> int:
        """The bytes received of an incomplete request; 0 while a request is served."""

    def reserve(self) -> bool:
        """Take the memory that the next read needs; return False if there is not enough."""

    def continue_reading(self) -> None:
        """Resume reading from the socket, if nothing else prevents it."""

    def close(self, reason: str) -> None:
        """Close, and log the reason."""


class MemoryQueue:
    """The connections that wait for memory, in the order in which they began to wait."""

    __slots__ = ("_buffers", "_bytes_at_timer_start", "_loop", "_receivers", "_timer", "_waiting")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffers: ReceiveBuffers,
        receivers: Callable[[], Iterable[Receiver]],
    ) -> None:
        """`receivers` returns all connections of the broker."""
        self._loop = loop
        self._buffers = buffers
        self._receivers = receivers
        self._waiting: deque[Receiver] = deque()
        self._bytes_at_timer_start: dict[Receiver, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        buffers.on_release = self._on_release

    def enqueue(self, receiver: Receiver) -> None:
        """Queue a connection until there is memory for its next read."""
        self._waiting.append(receiver)
        if self._timer is None:
            self._start_timer()

    def remove(self, receiver: Receiver) -> None:
        """Remove a connection that was closed."""
        if receiver in self._waiting:
            self._waiting.remove(receiver)

    def stop(self) -> None:
        """Remove all connections."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_release(self) -> None:
        if self._waiting:
            # In the next iteration: memory is released while a request is being served.
            self._loop.call_soon(self._admit)

    def _admit(self) -> None:
        """Let connections read in queue order, as long as there is memory for them."""
        while self._waiting and self._waiting[0].reserve():
            self._waiting.popleft().continue_reading()

    def _start_timer(self) -> None:
        self._bytes_at_timer_start = {
            receiver: receiver.incomplete_request_bytes for receiver in self._receivers()
        }
        self._timer = self._loop.call_later(STALL_TIMEOUT_S, self._close_stalled)

    def _close_stalled(self) -> None:
        """Close connections whose requests are stalled, the largest first, if others still wait.

        A waiting connection is closed only if all connections that hold memory wait. Then the last
        one in the queue is closed, so that the first one can continue.
        """
        self._timer = None
        if not self._waiting:
            return
        stalled = [
            receiver
            for receiver in self._receivers()
            if receiver in self._bytes_at_timer_start
            and 0
            < receiver.incomplete_request_bytes
            < self._bytes_at_timer_start[receiver] + _PROGRESS_BYTES
        ]
        waiting = set(self._waiting)
        not_waiting = [receiver for receiver in stalled if receiver not in waiting]
        if not_waiting:
            self._close_largest(not_waiting)
        elif len(stalled) > 1:
            self._close(
                next(receiver for receiver in reversed(self._waiting) if receiver in stalled)
            )
        self._start_timer()

    def _close_largest(self, stalled: list[Receiver]) -> None:
        """Close enough connections to free the memory that the first one in the queue needs."""
        # A full buffer is replaced by one of twice its size. So the first connection needs as many
        # more bytes as it has received.
        needed_bytes = self._waiting[0].incomplete_request_bytes
        stalled.sort(key=lambda receiver: receiver.incomplete_request_bytes)
        to_close: list[Receiver] = []
        while stalled and (not to_close or not self._buffers.can_allocate(needed_bytes)):
            to_close.append(stalled.pop())
            needed_bytes -= to_close[-1].incomplete_request_bytes
        for receiver in to_close:
            self._close(receiver)

    @staticmethod
    def _close(receiver: Receiver) -> None:
        receiver.close(
            f"an incomplete request made no progress for {STALL_TIMEOUT_S:g} s, and other "
            "connections wait for the memory of its "
            f"{receiver.incomplete_request_bytes} bytes (queued.max.request.bytes)"
        )
