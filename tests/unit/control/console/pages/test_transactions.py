"""The pages about transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.coordinator.contract import Event
from kafkalite.protocol.acl_operations import Entity
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


async def test_open_transactions_are_selected(console: ServedConsole) -> None:
    await console.begin_transaction("pay")
    console.clock.advance(1_000)
    text = await console.get("/transactions", state="open")
    assert "Ongoing" in text
    assert "1 s <span" in text
    assert "<code>orders</code> 0" in text
    console.clock.advance(100_000)
    assert "No transactional id is selected" in await console.get("/transactions", state="open")
    assert "CompleteAbort" in await console.get("/transactions", q="PAY")


async def test_states_and_the_last_fencing_are_shown(console: ServedConsole) -> None:
    await console.begin_transaction("pay")
    console.clock.advance(1_000)
    await console.begin_transaction("pay")
    text = await console.get("/transaction", id="pay")
    assert "Last fencing" in text
    assert "another producer was initialized with this id" in text
    states = [part.split("<")[0] for part in text.split('<rect class="state ')[1:]]
    assert [part.split('"')[0] for part in states][:3] == ["empty", "ongoing", "prepareabort"]
    assert "another producer was initialized" in await console.get("/transactions")


async def test_an_unknown_id_is_named(console: ServedConsole) -> None:
    assert "there is no transactional id" in await console.get("/transaction", 404, id="x")
    assert "id must be a transactional id" in await console.get("/transaction", 400)


async def test_a_removed_id_has_its_history(console: ServedConsole) -> None:
    event = Event("pay", "expired", "it expired", {}, Entity.TRANSACTIONAL_ID)
    console.broker.history.add(event, NOW_MS)
    text = await console.get("/transaction", id="pay")
    assert "does not exist any more" in text
    assert "it expired" in text


async def test_nothing_of_a_transaction_is_markup(console: ServedConsole) -> None:
    name = HOSTILE.replace("\x00", "")
    await console.begin_transaction(name)
    event = Event(name, "fenced", HOSTILE, {HOSTILE: HOSTILE}, Entity.TRANSACTIONAL_ID)
    console.broker.history.add(event, NOW_MS)
    for path in ("/transactions", "/transaction"):
        text = await console.get(path, id=name)
        assert "alert(1)" in text
        assert "<script>alert" not in text
        assert "\u202e" not in text
