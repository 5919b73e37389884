"""The event loop: uvloop's if it is installed, otherwise asyncio's selector loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.server.logging import Log

try:
    import uvloop
except ImportError:  # not available on every platform
    uvloop = None  # type: ignore[assignment]


def new_event_loop(log: Log) -> asyncio.AbstractEventLoop:
    """Return a new loop that writes unhandled exceptions to `log`.

    It is never a proactor loop, because that one receives into a buffer while other callbacks run,
    and here all connections share one receive buffer.
    """
    loop = asyncio.SelectorEventLoop() if uvloop is None else uvloop.new_event_loop()

    def report(_: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        error = context.get("exception")
        log.error(
            str(context.get("message", "an unhandled exception of the event loop")),
            exception=error if isinstance(error, BaseException) else None,
        )

    loop.set_exception_handler(report)
    return loop
