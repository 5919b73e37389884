"""The event loop: uvloop's where it is installed, else asyncio's own selector loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.server.logging import Log

try:
    import uvloop
except ImportError:  # not made for every platform
    uvloop = None  # type: ignore[assignment]


def new_event_loop(log: Log) -> asyncio.AbstractEventLoop:
    """Return a new loop, which tells `log` of the faults that nobody else catches.

    Never a proactor loop: that one receives into a buffer while others run, and here all
    connections share theirs.
    """
    loop = asyncio.SelectorEventLoop() if uvloop is None else uvloop.new_event_loop()

    def tell(_: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        fault = context.get("exception")
        log.error(
            str(context.get("message", "a fault of this broker")),
            exception=fault if isinstance(fault, BaseException) else None,
        )

    loop.set_exception_handler(tell)
    return loop
