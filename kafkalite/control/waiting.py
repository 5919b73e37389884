"""Waiting for changes of a broker, for commands and streams of events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkalite.ports.watchers import Watchers

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


def keep_alive_deadline() -> float:
    """Return when a stream without events must show whether its client is connected."""
    return asyncio.get_running_loop().time() + _KEEP_ALIVE_S
