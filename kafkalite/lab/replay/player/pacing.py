"""`Pace`: decides when the steps of a replay are due, by the system's clock or the target's clock.

A replay can drive the target's clock: it stops the clock and sets it to the recorded time of each
step. Timers of the target then expire at the recorded time, and days take seconds. The clock is
advanced only after the target has read all requests sent so far. Otherwise a member could expire
while its heartbeat is in flight.
"""

from __future__ import annotations

import asyncio
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from json import dumps, loads
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND, NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from kafkalite.client.exchanges import PendingResponse
    from kafkalite.control.endpoint import Endpoint

_HTTP_TIMEOUT_S = 120.0
_USUAL_RESPONSE_S = 0.05
"""Usual maximum time of a response that does not wait for the target's clock."""
_PROCESSING_S = 0.01
"""Time in which a response arrives after the target has read the request."""
_CLOCK_ADVANCES_MS = (1, 10, 100, 1_000, 5_000)
"""Times after the recorded time to which the clock is set, in turn, until a response arrives."""


class TargetClock(Protocol):
    """The target's clock, in milliseconds since the epoch, such as that of a `testing.Broker`."""

    def pause(self) -> None:
        """Stop the clock, so that only `set_ms` advances it."""

    def now_ms(self) -> int:
        """Return the time."""

    def set_ms(self, now_ms: int) -> None:
        """Set the time forward, and return after all timers that are due have run."""


class ClockError(Exception):
    """A clock cannot be driven; the text is one line for users."""


class ControlledClock:
    """The clock of a kafkalite in another process, driven through its control endpoint.

    It reuses one HTTP connection, because a replay of days sends tens of thousands of requests. If
    the server has closed the idle connection, it opens a new one.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._url = endpoint.url
        parts = urlsplit(endpoint.url)
        assert parts.hostname is not None
        self._connection = (
            HTTPConnection(parts.hostname, parts.port, timeout=_HTTP_TIMEOUT_S)
            if endpoint.tls is None
            else HTTPSConnection(
                parts.hostname, parts.port, timeout=_HTTP_TIMEOUT_S, context=endpoint.tls
            )
        )
        self._headers = {"Content-Type": "application/json", **endpoint.headers}
        self._now_ms = 0

    def pause(self) -> None:
        """Stop the clock, so that only `set_ms` advances it."""
        self._now_ms = self._post_clock(b'{"mode": "manual"}')

    def now_ms(self) -> int:
        """Return the time in the last response."""
        return self._now_ms

    def set_ms(self, now_ms: int) -> None:
        """Set the time forward."""
        self._now_ms = self._post_clock(b'{"now_ms": %d}' % now_ms)

    def close(self) -> None:
        """Close the HTTP connection; the clock does not change."""
        self._connection.close()

    def _post_clock(self, body: bytes) -> int:
        try:
            response = loads(self._post(body))
            if "error" in response:
                raise ClockError(f"cannot drive the clock at {self._url}: {response['error']}")
            return int(response["now_ms"])
        except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
            reason = getattr(error, "strerror", None) or dumps(str(error))
            raise ClockError(
                f"cannot drive a clock at {self._url}: {reason.lower()} "
                "(is the target served with --control?)"
            ) from error

    def _post(self, body: bytes) -> bytes:
        is_reused = self._connection.sock is not None
        try:
            return self._post_once(body)
        except ConnectionError:
            self._connection.close()
            if not is_reused:
                raise
        # Setting a time twice has the same result as once.
        return self._post_once(body)

    def _post_once(self, body: bytes) -> bytes:
        self._connection.request("POST", "/v1/clock", body, self._headers)
        return self._connection.getresponse().read()


class Pace(Protocol):
    """Decides when steps are due."""

    is_driven: bool
    """Whether the target's clock is driven, so that its time does not pass by itself."""
    wait_speedup: float
    """Divisor of the maximum waits of long polls; 1 for the recorded waits, 0 for no waiting."""

    def start(self, at_ns: int) -> None:
        """Start at the recorded time of the first step."""

    async def wait_until_due(self, at_ns: int) -> None:
        """Wait until a step recorded at that time is due."""

    def add_sent(self, pending: PendingResponse) -> None:
        """Add a request that was sent."""

    async def wait_for_response(
        self, pending: PendingResponse, at_ns: int, timeout_s: float
    ) -> bool:
        """Wait for a response that was recorded at that time; return whether it arrived."""


async def pause(seconds: float) -> None:
    """Wait in real time before a retry."""
    await asyncio.sleep(seconds)


class RealPace:
    """Makes steps due at the recorded intervals divided by `speed`, or at once if it is None."""

    is_driven = False

    def __init__(self, speed: float | None) -> None:
        self._speed = speed
        self.wait_speedup = 0.0 if speed is None else speed
        self._first_ns = 0
        self._began_s = 0.0

    def start(self, at_ns: int) -> None:
        """Start at the recorded time of the first step."""
        self._first_ns = at_ns
        self._began_s = time.monotonic()

    async def wait_until_due(self, at_ns: int) -> None:
        """Wait until a step recorded at that time is due."""
        if self._speed is None:
            return
        due_s = self._began_s + (at_ns - self._first_ns) / NANOSECONDS_PER_SECOND / self._speed
        remaining_s = due_s - time.monotonic()
        if remaining_s > 0:
            await asyncio.sleep(remaining_s)

    def add_sent(self, pending: PendingResponse) -> None:
        """Do nothing, because real time passes by itself."""

    async def wait_for_response(
        self, pending: PendingResponse, at_ns: int, timeout_s: float
    ) -> bool:
        """Wait for a response; its recorded time is not used."""
        del at_ns
        return await pending.wait(timeout_s)


class DrivenPace:
    """Sets the target's clock to the time of each step; steps follow each other without a pause.

    If the target's time is later than the first recorded time, all times are shifted by the
    difference.
    """

    is_driven = True

    def __init__(self, clock: TargetClock) -> None:
        self._clock = clock
        self.wait_speedup = 1.0
        self._now_ms = 0
        self._shift_ms = 0
        self._unread: list[PendingResponse] = []
        """Requests that the target may not have read yet."""

    @property
    def shift_ms(self) -> int:
        """The target's time minus the recorded time."""
        return self._shift_ms

    def start(self, at_ns: int) -> None:
        """Stop the target's clock, and set it to the recorded time of the first step."""
        self._clock.pause()
        self._now_ms = self._clock.now_ms()
        self._shift_ms = max(0, self._now_ms - at_ns // NANOSECONDS_PER_MILLISECOND)
        self._set_clock(at_ns // NANOSECONDS_PER_MILLISECOND + self._shift_ms)

    async def wait_until_due(self, at_ns: int) -> None:
        """Set the target's clock to the time of a recorded step."""
        await self._advance(at_ns // NANOSECONDS_PER_MILLISECOND + self._shift_ms)

    def add_sent(self, pending: PendingResponse) -> None:
        """Add a request that the target must read before its clock is advanced."""
        self._unread.append(pending)

    async def _advance(self, now_ms: int) -> None:
        if now_ms > self._now_ms:
            if not all(pending.is_resolved for pending in self._unread):
                await self._wait_until_requests_are_read()
            self._unread.clear()
            self._set_clock(now_ms)

    async def _wait_until_requests_are_read(self) -> None:
        """Wait until the target has read all requests that were sent.

        A request to set the clock to its current time changes nothing. When the target responds to
        it, its event loop has read all connections once.
        """
        await asyncio.sleep(0)  # uvloop writes at the end of its turn
        self._clock.set_ms(self._now_ms)

    def _set_clock(self, now_ms: int) -> None:
        if now_ms > self._now_ms:
            self._clock.set_ms(now_ms)
            self._now_ms = now_ms

    async def wait_for_response(
        self, pending: PendingResponse, at_ns: int, timeout_s: float
    ) -> bool:
        """Wait for a response; advance the target's clock until it arrives."""
        if pending.is_resolved:
            return True
        # Times are rounded down, so the response may be due up to one millisecond later.
        recorded_ms = at_ns // NANOSECONDS_PER_MILLISECOND + self._shift_ms
        if recorded_ms <= self._now_ms and await pending.wait(_USUAL_RESPONSE_S):
            return True
        await self._advance(recorded_ms)
        for advance_ms in _CLOCK_ADVANCES_MS:
            if await pending.wait(_USUAL_RESPONSE_S):
                return True
            # A busy target may not have read the request yet; then its clock must not be advanced.
            await self._wait_until_requests_are_read()
            if await pending.wait(_PROCESSING_S):
                return True
            self._set_clock(recorded_ms + advance_ms)
        return await pending.wait(timeout_s)
