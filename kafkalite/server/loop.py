"""The event loop: uvloop's where it is installed, else asyncio's own selector loop."""

from __future__ import annotations

import asyncio

try:
    import uvloop
except ImportError:  # not made for every platform
    uvloop = None  # type: ignore[assignment]


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop.

    Never a proactor loop: that one receives into a buffer while others run, and here all
    connections share theirs.
    """
    if uvloop is None:
        return asyncio.SelectorEventLoop()
    return uvloop.new_event_loop()
