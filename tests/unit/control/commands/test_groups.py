"""Commands about groups: list, show, wait and delete, over HTTP, too."""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.typed_json import JsonError, read, to_json
from kafkalite.control.command_table import CommandError, running_cluster
from kafkalite.control.commands.groups import DeleteGroup, ListGroups, ShowGroup
from kafkalite.control.group_reader import UnknownGroupError
from kafkalite.control.http import ControlApp
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from tests.unit.control.asgi_client import ask
from tests.unit.control.group_members import CONFIG, TOPIC, Members
from tests.unit.control.ports import ANY_PORT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    running = Broker(Settings(listen=ANY_PORT, topics={TOPIC: 2}, config=CONFIG))
    await running.start()
    yield running
    await running.stop(grace_s=0)


async def test_a_group_without_members_is_deleted(broker: Broker) -> None:
    members = Members(broker)
    await members.commit("shop", 1)
    await members.join_consumer("busy", "c")
    assert (await DeleteGroup("shop").perform(broker)).group_id == "shop"
    with pytest.raises(UnknownGroupError, match="no group 'shop'"):
        await DeleteGroup("shop").perform(broker)
    with pytest.raises(CommandError, match="NON_EMPTY_GROUP"):
        await DeleteGroup("busy").perform(broker)
    assert [each.group_id for each in (await ListGroups().perform(broker)).groups] == ["busy"]


async def test_a_wait_ends_when_the_group_changes(broker: Broker) -> None:
    members = Members(broker)
    command = ShowGroup("shop", "Stable", 1, wait_ms=60_000)
    waiting = asyncio.create_task(command.expected(broker))
    await asyncio.sleep(0)
    await members.commit("shop", 1)
    await asyncio.sleep(0)
    assert not waiting.done()
    epoch = await members.join_consumer("shop", "c")
    assert (await waiting).epoch == epoch
    gone = asyncio.create_task(ShowGroup("idle", "Dead", wait_ms=60_000).perform(broker))
    assert (await gone).state == "Dead"
    created = asyncio.create_task(ShowGroup("new", wait_ms=60_000).perform(broker))
    await asyncio.sleep(0)
    await members.commit("new", 1)
    assert (await created).state == "Empty"
    assert len(running_cluster(broker).groups.watchers) == 0


async def test_a_wait_that_is_over_shows_the_group_and_its_history(broker: Broker) -> None:
    members = Members(broker)
    await members.join_consumer("shop", "c")
    with pytest.raises(AssertionError) as raised:
        await ShowGroup("shop", "Empty", wait_ms=1).expected(broker)
    first, *rest = str(raised.value).splitlines()
    assert first.startswith(
        "expected group 'shop' to be Empty within 0.001 s: <consumer group 'shop' Stable at epoch"
    )
    assert any("explain: " in line and "(c) joined" in line for line in rest)
    with pytest.raises(AssertionError, match="'x' to exist with 1 member within 0 s: there is no"):
        await ShowGroup("x", members=1).expected(broker)
    assert (await ShowGroup("shop", "Empty", wait_ms=1).perform(broker)).state == "Stable"
    assert len(running_cluster(broker).groups.watchers) == 0


def test_a_wait_that_cannot_end_is_rejected() -> None:
    with pytest.raises(JsonError, match=r"state must be Stable, Empty, .* or Dead, not 'stable'"):
        read(ShowGroup, {"group": "g", "state": "stable"}, "a group")
    with pytest.raises(CommandError, match="a group in state Empty has no members"):
        ShowGroup("g", "Empty", 1)


async def test_answers_over_http_are_those_of_the_commands(broker: Broker) -> None:
    app = ControlApp(broker, Log(Level.ERROR, "json", io.StringIO()), None).app
    members = Members(broker)
    await members.commit("a/b", 1)
    listed = await ask(app, "/v1/groups")
    assert (listed.status, listed.body) == (200, to_json(await ListGroups().perform(broker)))
    shown = await ask(app, "/v1/groups/a/b?state=Empty&wait_ms=1000")
    assert (shown.status, shown.body) == (200, to_json(await ShowGroup("a/b").perform(broker)))
    unknown = await ask(app, "/v1/groups/b")
    assert (unknown.status, unknown.body) == (404, {"error": "there is no group 'b'"})
    assert (await ask(app, "/v1/groups/a/b", method="DELETE")).body == {"group_id": "a/b"}


async def test_an_id_can_have_line_breaks(broker: Broker) -> None:
    members = Members(broker)
    app = ControlApp(broker, Log(Level.ERROR, "json", io.StringIO()), None).app
    for group in ("shop", "shop\n", "\r\n"):
        await members.commit(group, 1)
    shown = [await ask(app, f"/v1/groups/{group}") for group in ("shop\n", "\r\n")]
    assert [each.body["group_id"] for each in shown] == ["shop\n", "\r\n"]
    assert (await ask(app, "/v1/groups/shop\n", method="DELETE")).body == {"group_id": "shop\n"}
    left = [each.group_id for each in (await ListGroups().perform(broker)).groups]
    assert left == ["\r\n", "shop"]
