"""Waiting for changes."""

from __future__ import annotations

import asyncio

from kafkalite.control.waiting import changed, keep_alive_deadline
from kafkalite.ports.watchers import Watchers


async def test_a_change_ends_the_wait() -> None:
    watchers = Watchers()
    waiting = asyncio.create_task(changed(watchers, 0, keep_alive_deadline()))
    await asyncio.sleep(0)
    assert not waiting.done()
    watchers.notify()
    assert await waiting


async def test_an_earlier_change_needs_no_wait() -> None:
    watchers = Watchers()
    watchers.notify()
    assert await changed(watchers, 0, deadline=0)


async def test_the_deadline_ends_the_wait() -> None:
    watchers = Watchers()
    assert not await changed(watchers, 0, deadline=0)
    almost_now = asyncio.get_running_loop().time() + 0.001
    assert not await changed(watchers, 0, almost_now)
