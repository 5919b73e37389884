"""Lanes: the connections of a replay to its target, one for each that was recorded."""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.server.addresses import Address

_LENGTH = Struct(">i")
_CORRELATION = Struct(">i")
_MOST_HELD = 256 * 1024
"""Bytes that wait for a `flush` at most."""
_LARGEST_FRAME = 512 * 1024 * 1024


class Pending:
    """An answer that is awaited: here, not yet here, or never to come."""

    __slots__ = ("_waiter", "correlation_id", "is_over", "response")

    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id
        self.response: bytes | None = None
        """The frame without its length, None while it is not there or when it never comes."""
        self.is_over = False
        self._waiter: asyncio.Future[None] | None = None

    def resolve(self, response: bytes | None) -> None:
        """Say what came, None when the connection ended first."""
        self.response = response
        self.is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Wait until it is over, so long at most; return whether it is."""
        if self.is_over:
            return True
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait_for(self._waiter, seconds)
        except TimeoutError:
            return self.is_over
        return True


class Lane(asyncio.Protocol):
    """One connection to the target, which answers in the order of its requests."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._rest = bytearray()
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._waiting: deque[Pending] = deque()
        self._drained: asyncio.Future[None] | None = None
        self.is_lost = False
        """Whether the target has ended it, or it was ended here."""

    @classmethod
    async def open(cls, address: Address, seconds: float) -> Lane:
        """Connect to a node of the target; OSError, TimeoutError where that cannot be."""
        loop = asyncio.get_running_loop()
        _, lane = await asyncio.wait_for(
            loop.create_connection(cls, address.host, address.port), seconds
        )
        return lane

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take what bytes go out by."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hand each whole frame to whoever awaits it."""
        rest = self._rest
        rest += data
        position, end = 0, len(rest)
        while end - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(rest, position)
            if not _CORRELATION.size <= length <= _LARGEST_FRAME:
                self.close()
                return
            stop = position + _LENGTH.size + length
            if stop > end:
                break
            self._answer(bytes(rest[position + _LENGTH.size : stop]))
            position = stop
        del rest[:position]

    def _answer(self, frame: bytes) -> None:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        waiting = self._waiting
        for place, pending in enumerate(waiting):
            if pending.correlation_id == correlation_id:
                # Answers come in order: what stands before this one gets none.
                for _ in range(place):
                    waiting.popleft().resolve(None)
                waiting.popleft().resolve(frame)
                return

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits that nothing comes any more."""
        del exc
        self.is_lost = True
        while self._waiting:
            self._waiting.popleft().resolve(None)
        self.resume_writing()

    def pause_writing(self) -> None:
        """Let `drained` wait: the target does not keep up."""
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Let `drained` go on."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    async def drained(self) -> None:
        """Wait until the target keeps up."""
        if self._drained is not None:
            await self._drained

    def send(self, frame: bytes, correlation_id: int, *, is_answered: bool) -> Pending:
        """Send a frame, given without its length, with the next `flush`.

        One that gets no answer is over at once.
        """
        pending = Pending(correlation_id)
        if self.is_lost or self._transport is None:
            pending.resolve(None)
            return pending
        if is_answered:
            self._waiting.append(pending)
        else:
            pending.resolve(None)
        self._out += (_LENGTH.pack(len(frame)), frame)
        self._out_bytes += len(frame)
        if self._out_bytes > _MOST_HELD:
            self.flush()
        return pending

    def flush(self) -> None:
        """Write what was sent: several requests at once, as a client that pipelines does."""
        out = self._out
        if out and self._transport is not None and not self.is_lost:
            self._transport.write(b"".join(out))
        out.clear()
        self._out_bytes = 0

    def close(self) -> None:
        """Leave."""
        self.flush()
        self.is_lost = True
        if self._transport is not None:
            self._transport.close()
