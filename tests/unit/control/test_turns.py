"""Long answers that are built a few entries at a time."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from kafkalite.config.typed_json import to_json
from kafkalite.control.group_status import GroupList, ListedGroup
from kafkalite.control.turns import in_turns, json_pieces, result_in_turns, sorted_in_turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator


async def turns_of(work: Awaitable[object]) -> int:
    """Return the number of turns that another task gets during some work."""
    count = 0

    async def count_turns() -> None:
        nonlocal count
        while True:
            count += 1
            await asyncio.sleep(0)

    counter = asyncio.create_task(count_turns())
    await work
    counter.cancel()
    return count


async def test_other_tasks_run_between_entries_and_while_they_are_sorted() -> None:
    found: list[int] = []

    async def consume() -> None:
        entries = sorted_in_turns(range(10_000, 0, -1), lambda each: each)
        found.extend([each async for each in entries])

    assert await turns_of(consume()) >= 100
    assert found == list(range(1, 10_001))


async def test_few_entries_are_read_without_a_pause() -> None:
    async def consume() -> None:
        async for _ in in_turns(range(99)):
            pass
        async for _ in sorted_in_turns(range(99), lambda each: each):
            pass

    assert await turns_of(consume()) == 0


async def test_other_tasks_run_between_the_steps_of_a_task() -> None:
    def steps() -> Generator[None, None, str]:
        for _ in range(5):
            yield
        return "done"

    found: list[object] = []

    async def consume() -> None:
        found.append(await result_in_turns(steps()))

    assert await turns_of(consume()) == 5
    assert found == ["done"]


async def test_the_text_in_pieces_is_that_of_the_answer() -> None:
    groups = tuple(ListedGroup(f"ü{each}", "share", "share", "Empty", 1, 0) for each in range(950))
    for answer in (GroupList(groups), GroupList(())):
        pieces = [each async for each in json_pieces(answer)]
        assert json.loads("".join(pieces)) == to_json(answer)
        assert max(map(len, pieces)) < 20_000
