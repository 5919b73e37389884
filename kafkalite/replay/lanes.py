"""Lanes: the connections of a replay to its target.

There is one for each that was recorded; where what was asked on it belongs to several nodes of the
target, one to each of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, cast

from kafkalite.control.access import OPEN, LoginError, log_in
from kafkalite.control.kafka_client import (
    CANNOT_CONNECT,
    UnreachableError,
    check_address,
    framed,
    parsed_answer,
    why,
)
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.control.access import Access, Login
    from kafkalite.protocol.message import Message
    from kafkalite.server.addresses import Address

_LENGTH = Struct(">i")
_CORRELATION = Struct(">i")
_MOST_HELD = 256 * 1024
"""Bytes that wait for a `flush` at most."""
_FAREWELL_S = 1.0
_LARGEST_FRAME = 512 * 1024 * 1024
_MOST_CLOSING = 100
_MOST_WAITING = 200_000
"""Requests that have no answer yet, or get none; the oldest are given up first."""


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
        self._wake()

    async def wait(self, seconds: float | None) -> bool:
        """Wait until it is over, so long at most; return whether it is."""
        if self.is_over:
            return True
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        # By a timer of its own: `wait_for` takes longer than many an answer.
        timer = None if seconds is None else loop.call_later(seconds, self._wake)
        try:
            await self._waiter
        finally:
            if timer is not None:
                timer.cancel()
        return self.is_over

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Lane(asyncio.Protocol):
    """One connection to the target, which answers in the order of its requests."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._rest = bytearray()
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._waiting: deque[Pending] = deque()
        self._drained: asyncio.Future[None] | None = None
        self._gone = asyncio.Event()
        self.is_lost = False
        """Whether the target has ended it, or it was ended here."""
        self.why_lost = "the end of the connection"
        self.is_counted = False
        """Whether its loss has been taken note of."""

    @classmethod
    async def open(cls, address: Address, seconds: float, access: Access = OPEN) -> Lane:
        """Connect to a node of the target, and log in; UnreachableError where that cannot be."""
        check_address(address)
        loop = asyncio.get_running_loop()
        host, port = address.host, address.port
        try:
            async with asyncio.timeout(seconds):
                _, lane = await loop.create_connection(cls, host, port, ssl=access.tls)
                if access.login is not None:
                    await lane.log_in(access.login)
        except TimeoutError as error:
            raise UnreachableError(f"{address} lets nobody in within {seconds:g} s") from error
        except LoginError as error:
            raise UnreachableError(f"{address}: {error}") from error
        except CANNOT_CONNECT as error:
            raise UnreachableError(f"no broker answers at {address}: {why(error)}") from error
        return lane

    async def log_in(self, login: Login) -> None:
        """Say who asks; LoginError, and the end of the connection, where that does not do."""
        try:
            await log_in(login, self.call)
        except codec.PARSE_ERRORS as error:
            self.close()
            raise LoginError(f"what answers is no Kafka broker: {error}") from error
        except BaseException:
            self.close()
            raise

    async def call(self, request: Message, version: int) -> Any:  # noqa: ANN401 - any response
        """Ask something of our own, before anything that was recorded; LoginError."""
        key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
        pending = self.send(framed(request, key, version, 0)[_LENGTH.size :], 0)
        self.flush()
        await pending.wait(None)
        if pending.response is None:
            raise LoginError("the broker closes the connection instead of asking who is there")
        return parsed_answer(pending.response, key, version)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take what bytes go out by."""
        # uvloop's is one in all but name.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand each whole frame to whoever awaits it."""
        rest = self._rest
        rest += data
        position, end = 0, len(rest)
        while end - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(rest, position)
            if not _CORRELATION.size <= length <= _LARGEST_FRAME:
                self._leave(f"a frame of {length} bytes, as no broker sends one")
                return
            stop = position + _LENGTH.size + length
            if stop > end:
                break
            frame = bytes(rest[position + _LENGTH.size : stop])
            if not self._answer(frame):
                number = _CORRELATION.unpack_from(frame)[0]
                self._leave(f"an answer to request {number}, which was not asked")
                return
            position = stop
        del rest[:position]

    def _leave(self, why: str) -> None:
        """Close, for what comes is not what was asked for."""
        self.why_lost = why
        self._rest.clear()
        self.close()

    def _answer(self, frame: bytes) -> bool:
        """Hand a frame to whoever awaits it; return whether anybody does."""
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        waiting = self._waiting
        for place, pending in enumerate(waiting):
            if pending.correlation_id == correlation_id:
                # Answers come in order: what stands before this one gets none.
                for _ in range(place):
                    waiting.popleft().resolve(None)
                waiting.popleft().resolve(frame)
                return True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits that nothing comes any more."""
        del exc
        self._gone.set()
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

    def send(self, frame: bytes, correlation_id: int) -> Pending:
        """Send a frame, given without its length, with the next `flush`."""
        pending = Pending(correlation_id)
        if self.is_lost or self._transport is None:
            pending.resolve(None)
            return pending
        self._waiting.append(pending)
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft().resolve(None)
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

    async def closed(self) -> None:
        """Wait until it has ended, once it is told to; TLS says a word of farewell."""
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await self._gone.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()

    def close(self) -> None:
        """End the connection."""
        self.flush()
        self.is_lost = True
        if self._transport is not None:
            self._transport.close()


class Lanes:
    """All lanes of one replay."""

    def __init__(self, address: Callable[[int], Address], access: Access, seconds: float) -> None:
        """`address` tells where a node is; it may take `seconds` to let a connection in."""
        self._address = address
        self._access = access
        self._seconds = seconds
        self._open: dict[int, dict[int, Lane]] = {}
        self._closing: deque[Lane] = deque(maxlen=_MOST_CLOSING)
        self._unflushed: Lane | None = None
        self.opened = 0
        """How many there have been."""

    async def to(self, number: int, node: int) -> Lane:
        """Return the lane of a recorded connection to a node, opened if there is none.

        What was sent on another one before goes out before what will be sent on this one.
        """
        mine = self._open.get(number)
        lane = None if mine is None else mine.get(node)
        if lane is None or lane.is_lost:
            self.flush()
            lane = await Lane.open(self._address(node), self._seconds, self._access)
            self._open.setdefault(number, {})[node] = lane
            self.opened += 1
        if lane is not self._unflushed:
            self.flush()
            self._unflushed = lane
        return lane

    def flush(self) -> None:
        """Let go out what was sent last."""
        if self._unflushed is not None:
            self._unflushed.flush()
            self._unflushed = None

    def close(self, number: int) -> None:
        """End a recorded connection."""
        self.flush()
        for lane in self._open.pop(number, {}).values():
            lane.close()
            self._closing.append(lane)

    async def close_all(self) -> None:
        """End them all, and wait until they have."""
        for number in list(self._open):
            self.close(number)
        await asyncio.gather(*(lane.closed() for lane in self._closing))
