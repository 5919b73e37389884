"""Waiting for changes of a broker, for commands and streams of events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.config.typed_json import JsonError, quote

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from kafkalite.ports.watchers import Watchers

MAX_WAIT_MS: Final = 10 * 60 * 1000
"""The maximum time that a command waits."""

_KEEP_ALIVE_S: Final = 15


def milliseconds_of(name: str, seconds: float) -> int:
    """Return a time limit in milliseconds; raises JsonError, which names the argument."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= MAX_WAIT_MS / 1000:
        limit = MAX_WAIT_MS // 1000
        raise JsonError(
            f"{name} must be a number of seconds from 0 to {limit}, not {quote(seconds)}"
        )
    return round(seconds * 1000)


class Changes:
    """The changes of some things while they are examined again and again, as a context manager."""

    __slots__ = ("_all_watchers", "_event", "_first_change", "_loop")

    def __init__(self, *all_watchers: Watchers) -> None:
        self._all_watchers = all_watchers
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._first_change = 0.0
        """When the event was set, in time of the event loop."""

    def __enter__(self) -> Self:
        for each in self._all_watchers:
            each.watch(self._note)
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for each in self._all_watchers:
            each.unwatch(self._note)

    def _note(self) -> None:
        if not self._event.is_set():
            self._first_change = self._loop.time()
            self._event.set()

    async def next(self, deadline: float) -> bool:
        """Wait for a change since the previous call, or since the context was entered.

        Return False if there is none before the deadline, a time of the event loop.
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return self._first_change < deadline


async def becomes_true(condition: Callable[[], bool], watchers: Watchers, wait_ms: int) -> bool:
    """Wait until a condition is true, which only the changes that are watched can make true.

    Return False if it is not true after `wait_ms` of real time.
    """
    deadline = deadline_after(wait_ms)
    with Changes(watchers) as changes:
        while not condition():
            if not await changes.next(deadline):
                return condition()
    return True


def deadline_after(wait_ms: int) -> float:
    """Return the time of the event loop in `wait_ms` of real time."""
    return asyncio.get_running_loop().time() + wait_ms / 1000


def keep_alive_deadline() -> float:
    """Return when a stream without events must show whether its client is connected."""
    return deadline_after(_KEEP_ALIVE_S * 1000)
