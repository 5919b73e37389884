"""The page about faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.commands.faults import ListFaults
from tests.unit.control.console.served_console import HOSTILE, ServedConsole, served_console

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.gateway.fault_rules import FaultState

BACK = "/console/faults"
HOLD = {"match.api": "OffsetCommit", "action.hold": "1", "back": BACK}


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


async def faults(console: ServedConsole) -> tuple[FaultState, ...]:
    return (await console.source.ask(ListFaults())).faults


async def test_a_fault_is_added_and_removed(console: ServedConsole) -> None:
    text = await console.get("/faults")
    assert "There are no faults" in text
    assert '<details class="make" id="add" open>' in text
    assert "data-changes" in text
    assert "kafkalite fault remove --all" in text
    answer = await console.post("/faults/add", **HOLD)
    assert (answer.status, answer.headers["location"]) == (303, BACK)
    (state,) = await faults(console)
    text = await console.get("/faults")
    assert state.id in text
    assert f"kafkalite fault remove {state.id}" in text
    assert f"DELETE /v1/faults/{state.id}" in text
    await console.post("/faults/remove", fault_id=state.id, back=BACK)
    assert await faults(console) == ()


async def test_a_fault_that_holds_is_released(console: ServedConsole) -> None:
    await console.post("/faults/add", **HOLD)
    (state,) = await faults(console)
    answer = await console.post("/faults/release", fault_id=state.id, count="1", back=BACK)
    assert answer.status == 303
    answer = await console.post("/faults/release", fault_id="missing", back=BACK)
    assert answer.status == 400
    assert "missing" in answer.body


async def test_the_command_of_a_fault_is_shown_first(console: ServedConsole) -> None:
    answer = await console.post("/faults/add", **HOLD, preview="1")
    assert "kafkalite fault add --api OffsetCommit --hold" in answer.body
    assert "POST /v1/faults" in answer.body
    assert await faults(console) == ()


async def test_all_faults_are_removed_after_a_question(console: ServedConsole) -> None:
    await console.post("/faults/add", **HOLD)
    answer = await console.post("/faults/clear", back=BACK)
    assert "Yes, do it" in answer.body
    assert len(await faults(console)) == 1
    await console.post("/faults/clear", back=BACK, confirmed="yes")
    assert await faults(console) == ()


async def test_a_wrong_field_is_named(console: ServedConsole) -> None:
    answer = await console.post("/faults/add", **{**HOLD, "match.api": "Produse"})
    assert answer.status == 400
    assert "is not an API of Kafka; similar names are Produce" in answer.body
    answer = await console.post("/faults/add", back=BACK)
    assert "action needs at least one of these" in answer.body


async def test_nothing_of_a_fault_is_markup(console: ServedConsole) -> None:
    fields = {"match.client_id": HOSTILE, "match.group": HOSTILE, "action.hold": "1"}
    answer = await console.post("/faults/add", **fields, preview="1")
    assert "<script>alert" not in answer.body
    assert (await console.post("/faults/add", **fields)).status == 303
    text = await console.get("/faults")
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "\u202e" not in text
