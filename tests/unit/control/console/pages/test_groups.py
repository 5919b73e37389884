"""The pages about groups."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from kafkalite.control.commands.groups import ListGroups
from kafkalite.coordinator.contract import Event
from tests.unit.control.console.served_console import (
    HOSTILE,
    NOW_MS,
    ServedConsole,
    served_console,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


async def test_groups_are_selected_by_id_and_state(console: ServedConsole) -> None:
    await console.members.join_classic("shop")
    await console.members.commit("billing", 1)
    text = await console.get("/groups")
    assert "2 of 2" in text
    assert "billing" not in await console.get("/groups", q="SHOP")
    assert "shop" not in await console.get("/groups", state="Empty")
    assert "No group is selected" in await console.get("/groups", q="none")


async def test_many_groups_are_paged(console: ServedConsole) -> None:
    for number in range(101):
        await console.members.commit(f"g{number:03}", 1)
    text = await console.get("/groups", q="g")
    assert "100 of 101" in text
    assert "/console/groups?q=g&amp;page=2" in text
    assert "101 of 101" in await console.get("/groups", q="g", page=2)


async def test_a_group_has_members_commits_and_reasons(console: ServedConsole) -> None:
    member = await console.members.join_classic("shop")
    await console.members.commit("shop", 1, member=member)
    event = Event("shop", "refused", "commit refused: old generation", {"member_id": member[0]})
    console.broker.history.add(event, NOW_MS + 1)
    text = await console.get("/group", group="shop")
    assert "commit refused: old generation" in text
    assert "1 refusal" in text
    assert "orders-0 committed 1" in text
    assert "kafkalite explain --group shop" in text
    assert "GET /v1/groups/shop" in text
    svg = ET.fromstring(text[text.index('<svg width="100%"') : text.index("</svg>\n</div>") + 6])  # noqa: S314 - our own text
    marks = [each.get("class") for each in svg.iter("g") if "mark" in (each.get("class") or "")]
    assert {"mark joined", "mark refused", "mark commit"} <= {*marks}


async def test_an_earlier_state_is_shown(console: ServedConsole) -> None:
    member = await console.members.join_classic("shop")
    steps = len(console.broker.history.about("shop"))
    await console.members.commit("shop", 1, member=member)
    console.clock.advance(60_000)
    now = await console.get("/group", group="shop")
    assert "The group has no members" in now
    text = await console.get("/group", group="shop", step=steps)
    assert f"event {steps} of" in text
    assert "The group has no members" not in text
    assert "data-changes" not in text
    assert "data-changes" in now


async def test_a_group_before_its_first_record_is_reported(console: ServedConsole) -> None:
    console.broker.history.add(Event("shop", "refused", "early", {}), NOW_MS - 10)
    await console.members.join_classic("shop")
    assert "there is no group" in await console.get("/group", group="shop", step=1)


async def test_a_deleted_group_has_its_history(console: ServedConsole) -> None:
    console.broker.history.add(Event("shop", "deleted", "it was deleted", {}), NOW_MS)
    text = await console.get("/group", group="shop")
    assert "Dead" in text
    assert "it was deleted" in text


async def test_nothing_of_a_group_is_markup(console: ServedConsole) -> None:
    facts = {"member_id": HOSTILE, "client_id": HOSTILE, "client_host": "/1", HOSTILE: [HOSTILE]}
    await console.members.commit(HOSTILE, 1)
    for kind in ("joined", "refused", HOSTILE):
        console.broker.history.add(Event(HOSTILE, kind, HOSTILE, facts), NOW_MS)
    for path in ("/group", "/groups"):
        text = await console.get(path, group=HOSTILE, q=HOSTILE.partition("\u202e")[0])
        assert "alert(1)" in text
        assert "<script>alert" not in text
        # The fields of forms send the text back, so they have it as it is.
        assert "\u202e" not in re.sub(r'value="[^"]*"', "", text)


async def test_an_empty_group_is_deleted_after_a_question(console: ServedConsole) -> None:
    await console.members.commit("shop", 1)
    assert "/console/groups/delete" in await console.get("/group", group="shop")
    answer = await console.post("/groups/delete", group="shop", back="/console/groups")
    assert "DELETE /v1/groups/shop" in answer.body
    assert (await console.source.ask(ListGroups())).groups
    answer = await console.post(
        "/groups/delete", group="shop", back="/console/groups", confirmed="yes"
    )
    assert answer.headers["location"] == "/console/groups"
    assert not (await console.source.ask(ListGroups())).groups
    await console.members.join_classic("busy")
    assert "/console/groups/delete" not in await console.get("/group", group="busy")
    answer = await console.post("/groups/delete", group="busy", confirmed="yes")
    assert answer.status == 400


async def test_the_lane_of_a_member_has_its_partitions(console: ServedConsole) -> None:
    await console.members.join_consumer("shop", "m")
    text = await console.get("/group", group="shop")
    assert '<rect class="assignment"' in text
    assert "orders 0-1 from " in text
