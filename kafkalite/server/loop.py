"""The event loop: uvloop's where it is installed, else asyncio's own selector loop."""

from __future__ import annotations

import asyncio

try:
    import uvloop
except ImportError:
    uvloop = None


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop.

    Never a proactor loop: that one receives into a buffer while others run, and here all
    connections share theirs.
    """
    if uvloop is not None:
        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        return loop
    return asyncio.SelectorEventLoop()
