"""The pages about requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.typed_json import read
from kafkalite.coordinator.contract import Event
from kafkalite.gateway.fault_rules import Rule, describe_rule
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.control.console.served_console import HOSTILE, ServedConsole, served_console

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


def beat(console: ServedConsole, group: str, error: ErrorCode = ErrorCode.NONE) -> None:
    request = HeartbeatRequest(group_id=group, generation_id=3, member_id="m")
    console.log(request, HeartbeatResponse(error_code=error))


async def test_the_log_begins_and_ends_with_a_form(console: ServedConsole) -> None:
    assert "Requests are not logged" in await console.get("/requests")
    assert not console.source.logs_requests
    answer = await console.post("/requests/log", back="/console/requests")
    assert (answer.status, answer.headers["location"]) == (303, "/console/requests")
    assert console.source.logs_requests
    assert "No client has sent a request yet" in await console.get("/requests")
    await console.post("/requests/stop", back="https://evil.example/")
    assert not console.source.logs_requests


async def test_requests_are_selected_by_the_conditions_of_the_log(console: ServedConsole) -> None:
    beat(console, "shop", UNKNOWN)
    beat(console, "billing")
    text = await console.get("/requests")
    assert text.index("number=2") < text.index("number=1")
    assert "2 shown, newest first; 2 of 2 logged requests examined" in text
    text = await console.get("/requests", group="shop", error="UNKNOWN_MEMBER_ID", api="Heartbeat")
    assert "1 shown" in text
    assert "billing" not in text
    assert "/v1/requests?api=Heartbeat&amp;group=shop&amp;error=UNKNOWN_MEMBER_ID" in text


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("api", "Hartbeat", "is not an API of Kafka; similar names are Heartbeat"),
        ("error", "NO_SUCH", "is not an error of Kafka"),
        ("node", "one", "node must be a whole number"),
    ],
)
async def test_a_wrong_condition_is_named(
    console: ServedConsole, field: str, value: str, problem: str
) -> None:
    beat(console, "shop")
    text = await console.get("/requests", 400, **{field: value})
    assert problem in text


async def test_what_an_update_does_not_show_is_counted(console: ServedConsole) -> None:
    for _ in range(70):
        beat(console, "shop")
    assert "10 requests since the previous update are not shown" not in await console.get(
        "/requests"
    )
    text = await console.get("/requests", seen=0)
    assert "10 requests since the previous update are not shown" in text
    assert 'hx-get="/console/requests"' in text
    assert 'name="seen" value="70"' in text


async def test_a_request_has_its_fields_and_events(console: ServedConsole) -> None:
    beat(console, "shop", UNKNOWN)
    console.broker.history.add(
        Event("shop", "refused", "heartbeat refused", {"error": "UNKNOWN_MEMBER_ID"}),
        console.clock.now_ms(),
    )
    text = await console.get("/request", number=1)
    assert "&#34;generationId&#34;: 3" in text
    assert "heartbeat refused" in text
    assert "UNKNOWN_MEMBER_ID" in text
    assert "/console/requests?client_id=app" in text
    assert "no request with number 9" in await console.get("/request", 404, number=9)
    assert "no request with number 0" in await console.get("/request", 404)


async def test_the_fault_of_a_request_is_described(console: ServedConsole) -> None:
    rule = read(Rule, {"match": {"api": "Heartbeat"}, "action": {"delay_ms": 5}}, "a fault")
    fault = console.broker.faults.add(rule)
    request = HeartbeatRequest(group_id="shop", generation_id=3, member_id="m")
    console.log(request, HeartbeatResponse(), fault=fault.id)
    assert f"fault {fault.id}" in await console.get("/requests")
    text = await console.get("/request", number=1)
    assert f"Fault {fault.id} was applied: {describe_rule(rule)}" in text
    console.broker.faults.remove(fault.id)
    assert "it has been removed" in await console.get("/request", number=1)


async def test_an_event_leads_to_its_request(console: ServedConsole) -> None:
    beat(console, "shop")
    beat(console, "shop", UNKNOWN)
    now_ms = console.clock.now_ms()
    history = console.broker.history
    history.add(Event("shop", "refused", "refused", {"error": "UNKNOWN_MEMBER_ID"}), now_ms)
    history.add(Event("shop", "expired", "expired", {}), now_ms + 5)
    refused, expired = history.about("shop")
    text = await console.get("/entry", entry=refused.number)
    assert "number=2" in text
    assert "number=1" not in text
    assert "a timer caused the event" in await console.get("/entry", entry=expired.number)
    assert "has no entry with number 99" in await console.get("/entry", 404, entry=99)


async def test_nothing_of_a_request_is_markup(console: ServedConsole) -> None:
    console.log(
        HeartbeatRequest(group_id=HOSTILE, generation_id=3, member_id=HOSTILE),
        HeartbeatResponse(),
        client_id=HOSTILE,
    )
    for path in ("/requests", "/request"):
        text = await console.get(path, number=1)
        assert "alert(1)" in text
        assert "<script>alert" not in text
        assert "\u202e" not in text


async def test_older_requests_are_on_further_pages(console: ServedConsole) -> None:
    console.broker.request_log.clear()
    for number in range(70):
        console.log(HeartbeatRequest(group_id=f"group-{number}"), HeartbeatResponse())
    newest = await console.get("/requests", api="Heartbeat")
    assert 'href="/console/requests?before=11&amp;api=Heartbeat"' in newest
    older = await console.get("/requests", api="Heartbeat", before=11)
    assert "group-9<" in older
    assert "group-10<" not in older
    assert 'href="/console/requests?api=Heartbeat">newest' in older
    assert "data-changes" not in older
    assert "No request is selected" in await console.get("/requests", at="2001-01-01T00:00:00Z")
    assert "is not a time" in await console.get("/requests", 400, at="noon")
