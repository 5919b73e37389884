"""The first page of the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.coordinator.contract import Event
from kafkalite.protocol.acl_operations import Entity
from tests.unit.control.console.served_console import HOSTILE, ServedConsole, served_console

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


async def test_a_new_broker_says_how_to_begin(console: ServedConsole) -> None:
    text = await console.get("/")
    assert "Nothing has happened yet" in text
    assert console.broker.bootstrap_servers in text
    assert "manual" in text


async def test_the_state_of_the_cluster_is_shown(console: ServedConsole) -> None:
    await console.members.join_classic("shop")
    text = await console.get("/")
    assert "<b>1</b> <span>group</span>" in text
    assert "<b>1</b> <span>topic, 2 partitions</span>" in text
    assert "generation 1 of group shop begins" in text
    assert "/console/group?group=shop" in text


@pytest.mark.parametrize(
    "kind", [Entity.GROUP, Entity.TOPIC, Entity.TRANSACTIONAL_ID, Entity.CLIENT]
)
async def test_names_and_texts_are_no_markup(console: ServedConsole, kind: Entity) -> None:
    event = Event(HOSTILE, "refused", HOSTILE, {HOSTILE: HOSTILE}, kind)
    console.broker.history.add(event, console.clock.now_ms())
    text = await console.get("/")
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "\x00" not in text
