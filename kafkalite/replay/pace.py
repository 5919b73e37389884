"""Pace: when the next step is due, by the machine's clock or by one that is driven.

Where the target's clock can be driven, it is: it stands, and is set to the recorded time of each
step, so that all that the target does by itself happens where it happened, and days take seconds.
It never goes on before the target has seen what was sent until then: a member whose heartbeat is
still on its way is not to be taken for one that is gone.
"""

from __future__ import annotations

import asyncio
import time
from http.client import HTTPConnection, HTTPException
from json import dumps, loads
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from kafkalite.replay.lanes import Pending

_MS_NS = 1_000_000
_S_NS = 1_000_000_000
_HTTP_TIMEOUT_S = 120.0
_SOON_S = 0.05
"""How long an answer that needs no time of the target's takes at most, as a rule."""
_AT_ONCE_S = 0.01
"""How long an answer is on its way here when the target has seen the request."""
_NUDGES_MS = (1, 10, 100, 1_000, 5_000)
"""How far time is moved beyond where an answer came, when it does not come there."""


class TargetClock(Protocol):
    """The target's time, in milliseconds since the epoch; that of a `testing.Broker` is one."""

    def pause(self) -> None:
        """Let time stand but for what is told."""

    def now_ms(self) -> int:
        """Return the time."""

    def set_ms(self, now_ms: int) -> None:
        """Set the time forward; all that is due on the way has been done on return."""


class ClockError(Exception):
    """A clock that cannot be driven; the text is one line for people."""


class ControlledClock:
    """The clock of a kafkalite of another process, by its control endpoint.

    It keeps one connection, for a replay of days asks tens of thousands of times; one that was left
    alone too long is closed by the other side, and made anew.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = HTTPConnection(parts.hostname, parts.port, timeout=_HTTP_TIMEOUT_S)
        self._now_ms = 0

    def pause(self) -> None:
        """Let time stand but for what is told."""
        self._now_ms = self._tell(b'{"mode": "manual"}')

    def now_ms(self) -> int:
        """Return the time, as it was when it was told last."""
        return self._now_ms

    def set_ms(self, now_ms: int) -> None:
        """Set the time forward."""
        self._now_ms = self._tell(b'{"now_ms": %d}' % now_ms)

    def close(self) -> None:
        """Leave; the clock stays as it is."""
        self._connection.close()

    def _tell(self, body: bytes) -> int:
        try:
            told = loads(self._post(body))
            if "error" in told:
                raise ClockError(f"the clock at {self._url} cannot be driven: {told['error']}")
            return int(told["now_ms"])
        except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
            told = getattr(error, "strerror", None) or dumps(str(error))
            raise ClockError(
                f"no clock can be driven at {self._url}: {told.lower()} "
                "(is the target served with --control?)"
            ) from error

    def _post(self, body: bytes) -> bytes:
        is_kept = self._connection.sock is not None
        try:
            return self._post_once(body)
        except ConnectionError:
            self._connection.close()
            if not is_kept:
                raise
        # To be told a time twice is the same as once.
        return self._post_once(body)

    def _post_once(self, body: bytes) -> bytes:
        self._connection.request("POST", "/v1/clock", body, {"Content-Type": "application/json"})
        return self._connection.getresponse().read()


class Pace(Protocol):
    """When steps are due."""

    is_driven: bool
    """Whether the target's time is set, and does not pass while an answer is waited for."""
    hurry: float
    """How many times as fast as recorded waits of clients may end; 0: at once, 1: as recorded."""

    def begin(self, at_ns: int) -> None:
        """Take the recorded time of the first step."""

    async def due(self, at_ns: int) -> None:
        """Wait until a step recorded at that time is due."""

    def sent(self, pending: Pending) -> None:
        """Take that a request goes out."""

    async def arrived(self, pending: Pending, at_ns: int, patience_s: float) -> bool:
        """Wait for an answer that was recorded at that time; return whether it came."""


async def pause(seconds: float) -> None:
    """Let the target come to rest for a moment of the machine's time."""
    await asyncio.sleep(seconds)


class RealPace:
    """Steps as far apart as they were, or so many times closer; at once where `speed` is None."""

    is_driven = False

    def __init__(self, speed: float | None) -> None:
        self._speed = speed
        self.hurry = 0.0 if speed is None else speed
        self._first_ns = 0
        self._began_s = 0.0

    def begin(self, at_ns: int) -> None:
        """Take the recorded time of the first step."""
        self._first_ns = at_ns
        self._began_s = time.monotonic()

    async def due(self, at_ns: int) -> None:
        """Wait until a step recorded at that time is due."""
        if self._speed is None:
            return
        due_s = self._began_s + (at_ns - self._first_ns) / _S_NS / self._speed
        rest_s = due_s - time.monotonic()
        if rest_s > 0:
            await asyncio.sleep(rest_s)

    def sent(self, pending: Pending) -> None:
        """Time goes by itself, whatever was sent."""

    async def arrived(self, pending: Pending, at_ns: int, patience_s: float) -> bool:
        """Wait for an answer; what was recorded of its time says nothing here."""
        del at_ns
        return await pending.wait(patience_s)


class DrivenPace:
    """Steps as fast as the target takes them, each at its recorded time by the target's clock.

    Where the target's time is beyond the recorded one already, all times are later by as much.
    """

    is_driven = True

    def __init__(self, clock: TargetClock) -> None:
        self._clock = clock
        self.hurry = 1.0
        self._now_ms = 0
        self._later_ms = 0
        self._unseen: list[Pending] = []
        """Requests that may be on their way to the target still."""

    @property
    def later_ms(self) -> int:
        """By how much the target's time is later than what was recorded."""
        return self._later_ms

    def begin(self, at_ns: int) -> None:
        """Stop the target's clock, and set it to the recorded time of the first step."""
        self._clock.pause()
        self._now_ms = self._clock.now_ms()
        self._later_ms = max(0, self._now_ms - at_ns // _MS_NS)
        self._go_to(at_ns // _MS_NS + self._later_ms)

    async def due(self, at_ns: int) -> None:
        """Set the target's time to when a step was recorded."""
        await self._set(at_ns // _MS_NS + self._later_ms)

    def sent(self, pending: Pending) -> None:
        """Take what the target is to see before time goes on."""
        self._unseen.append(pending)

    async def _set(self, now_ms: int) -> None:
        if now_ms > self._now_ms:
            if not all(each.is_over for each in self._unseen):
                await self._be_seen()
            self._unseen.clear()
            self._go_to(now_ms)

    async def _be_seen(self) -> None:
        """Let the target see what was sent.

        It is told what time it is, which is nothing new: when it answers, it has gone once through
        all that had come by then.
        """
        await asyncio.sleep(0)  # uvloop writes at the end of its turn
        self._clock.set_ms(self._now_ms)

    def _go_to(self, now_ms: int) -> None:
        if now_ms > self._now_ms:
            self._clock.set_ms(now_ms)
            self._now_ms = now_ms

    async def arrived(self, pending: Pending, at_ns: int, patience_s: float) -> bool:
        """Wait for an answer, which may wait for its time by the target's clock."""
        if pending.is_over:
            return True
        # Up to a millisecond may have passed before the request was seen: times are cut to whole.
        recorded_ms = at_ns // _MS_NS + self._later_ms
        if recorded_ms <= self._now_ms and await pending.wait(_SOON_S):
            return True
        await self._set(recorded_ms)
        for nudge_ms in _NUDGES_MS:
            if await pending.wait(_SOON_S):
                return True
            # It may be busy: only when it has gone through all there is, it waits for its time.
            await self._be_seen()
            if await pending.wait(_AT_ONCE_S):
                return True
            self._go_to(recorded_ms + nudge_ms)
        return await pending.wait(patience_s)
