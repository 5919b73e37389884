"""What the console reads from a running broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.commands.groups import ListGroups
from kafkalite.control.commands.snapshots import CreateSnapshot, RestoreSnapshot
from kafkalite.control.commands.topics import CreateTopic
from kafkalite.control.console import live_source
from kafkalite.control.console.source import RequestsUntil, Subject
from kafkalite.control.request_filter import RequestFilter
from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.api_keys import ApiKey
from tests.unit.control.console.served_console import NOW_MS, ServedConsole, served_console
from tests.unit.control.test_turns import turns_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


async def test_commands_are_answered(console: ServedConsole) -> None:
    await console.members.commit("shop", 1)
    (listed,) = (await console.source.ask(ListGroups())).groups
    assert listed.group_id == "shop"
    assert console.source.name == console.broker.cluster_id


async def test_a_group_is_returned_as_it_was(console: ServedConsole) -> None:
    await console.members.commit("shop", 1)
    console.clock.advance(1000)
    await console.members.commit("shop", 2)
    (offset,) = (await console.source.past_group("shop", NOW_MS)).offsets
    assert offset.offset == 1
    with pytest.raises(TimeTravelError, match="there is no group 'shop'"):
        await console.source.past_group("shop", NOW_MS - 1)


async def test_other_tasks_run_while_an_earlier_group_is_read(console: ServedConsole) -> None:
    for offset in range(450):
        await console.members.commit("shop", offset)
    found = []

    async def read() -> None:
        found.append(await console.source.past_group("shop", NOW_MS))

    # Each turn applies 20 records.
    assert await turns_of(asyncio.gather(read(), read())) >= 40
    assert [each.offsets[0].offset for each in found] == [449, 449]


async def test_reading_does_not_start_the_log_of_requests(console: ServedConsole) -> None:
    source = console.source
    page = await source.latest_requests(RequestFilter(), 10)
    assert (page.requests, page.logged) == ((), 0)
    assert await source.request(1) is None
    source.changes(list(Subject)).close()
    assert not source.logs_requests


async def test_a_new_topic_is_noticed(console: ServedConsole) -> None:
    changes = console.source.changes([Subject.HISTORY])
    assert not await changes.next(0)
    await console.source.ask(CreateTopic("new"))
    assert await changes.next(10)
    changes.close()


async def test_changes_after_a_restored_snapshot_are_noticed(console: ServedConsole) -> None:
    made = await console.source.ask(CreateSnapshot())
    changes = console.source.changes([Subject.GROUPS])
    await console.source.ask(RestoreSnapshot(made.id))
    assert await changes.next(0)
    assert not await changes.next(0)
    await console.members.commit("shop", 1)
    assert await changes.next(10)
    changes.close()


async def test_changes_are_noticed_once(console: ServedConsole) -> None:
    changes = console.source.changes([Subject.GROUPS, Subject.HISTORY])
    assert not await changes.next(0)
    await console.members.commit("shop", 1)
    await console.members.commit("shop", 2)
    assert await changes.next(10)
    assert not await changes.next(0)
    changes.close()
    await console.members.commit("shop", 3)
    assert not await changes.next(0)


async def test_few_requests_are_examined(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = console.broker.request_log
    monkeypatch.setattr(live_source, "MAX_EXAMINED", 0)
    page = await console.source.latest_requests(RequestFilter(api=ApiKey.FETCH), 10)
    assert (page.examined, page.last_number) == (0, log.last_number)


async def test_old_requests_are_found_by_the_time(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_source, "MAX_EXAMINED", 1)
    shop = RequestFilter(group="shop")
    assert await console.source.requests_at(shop, NOW_MS, 10) == ()
    for group in ("other", "shop", "shop", "other"):
        console.log(HeartbeatRequest(group_id=group), HeartbeatResponse())
        console.clock.advance(1)
    found = await console.source.requests_at(shop, NOW_MS + 1, 10)
    assert [each.number for each in found] == [2]
    assert len(await console.source.requests_at(RequestFilter(), NOW_MS + 1, 10)) == 1
    assert await console.source.requests_at(shop, NOW_MS + 9, 10) == []


async def test_older_requests_follow_the_newest(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, selected = console.source, RequestFilter(group="shop")
    for _ in range(4):
        for group in ("other", "shop"):
            console.log(HeartbeatRequest(group_id=group), HeartbeatResponse())
        console.clock.advance(1)
    page = await source.latest_requests(selected, 2)
    assert ([each.number for each in page.requests], page.next_before) == ([8, 6], 6)
    page = await source.latest_requests(selected, 2, RequestsUntil(page.next_before))
    assert ([each.number for each in page.requests], page.next_before) == ([4, 2], 2)
    page = await source.latest_requests(selected, 2, RequestsUntil(page.next_before))
    assert (page.requests, page.next_before) == ([], None)
    page = await source.latest_requests(selected, 2, RequestsUntil(time_ms=NOW_MS + 1))
    assert [each.number for each in page.requests] == [4, 2]
    monkeypatch.setattr(live_source, "MAX_EXAMINED", 3)
    page = await source.latest_requests(selected, 5)
    assert ([each.number for each in page.requests], page.next_before) == ([8, 6], 6)
    page = await source.latest_requests(RequestFilter(since=6), 5, RequestsUntil(8))
    assert ([each.number for each in page.requests], page.next_before) == ([7], None)
