"""Waiting for changes of a broker, for commands and streams of events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.coordinator.runtime import CoordinatorRuntime
    from kafkalite.ports.watchers import Watchers

MAX_WAIT_MS: Final = 10 * 60 * 1000
"""The maximum time that a command waits."""

_KEEP_ALIVE_S: Final = 15


async def changed(watchers: Watchers, changes: int, deadline: float) -> bool:
    """Wait until there are more changes than these; return False at the deadline.

    The deadline is a time of the event loop.
    """
    if watchers.changes != changes:
        return True
    if asyncio.get_running_loop().time() >= deadline:
        return False
    event = asyncio.Event()
    watchers.watch(event.set)
    try:
        async with asyncio.timeout_at(deadline):
            await event.wait()
    except TimeoutError:
        return False
    finally:
        watchers.unwatch(event.set)
    return True


async def becomes_true(
    condition: Callable[[], bool], coordinator: CoordinatorRuntime[Any], wait_ms: int
) -> bool:
    """Wait until a condition about the state of a coordinator is true.

    Return False if it is not true after `wait_ms` of real time.
    """
    changed_once = asyncio.Event()
    coordinator.watch(changed_once.set)
    deadline = asyncio.get_running_loop().time() + wait_ms / 1000
    try:
        async with asyncio.timeout_at(deadline):
            while not condition():
                await changed_once.wait()
                changed_once.clear()
    except TimeoutError:
        return condition()
    finally:
        coordinator.unwatch(changed_once.set)
    return True


def keep_alive_deadline() -> float:
    """Return when a stream without events must show whether its client is connected."""
    return asyncio.get_running_loop().time() + _KEEP_ALIVE_S
