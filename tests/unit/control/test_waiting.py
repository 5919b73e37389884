"""Waiting for changes."""

from __future__ import annotations

import asyncio

from kafkalite.control.waiting import Changes, becomes_true, deadline_after, keep_alive_deadline
from kafkalite.ports.watchers import Watchers


async def test_a_change_ends_the_wait_and_the_next_wait_needs_another_change() -> None:
    watchers = Watchers()
    with Changes(watchers) as changes:
        for _ in range(2):
            waiting = asyncio.create_task(changes.next(keep_alive_deadline()))
            await asyncio.sleep(0)
            assert not waiting.done()
            watchers.notify()
            assert await waiting
    assert len(watchers) == 0


async def test_a_change_since_the_last_wait_needs_no_wait() -> None:
    watchers = Watchers()
    with Changes(watchers) as changes:
        watchers.notify()
        watchers.notify()
        assert await changes.next(keep_alive_deadline())
        assert not await changes.next(deadline_after(0))


async def test_only_changes_before_the_deadline_count() -> None:
    watchers = Watchers()
    with Changes(watchers) as changes:
        assert not await changes.next(0)
        assert not await changes.next(deadline_after(1))
        deadline = deadline_after(0)
        watchers.notify()
        assert not await changes.next(deadline)


async def test_a_condition_is_checked_after_each_change() -> None:
    watchers = Watchers()
    answers = [False, False, True]
    waiting = asyncio.create_task(becomes_true(lambda: answers.pop(0), watchers, 60_000))
    await asyncio.sleep(0)
    for left in (1, 0):
        watchers.notify()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(answers) == left
    assert await waiting
    assert not await becomes_true(lambda: False, watchers, 0)
    assert len(watchers) == 0
