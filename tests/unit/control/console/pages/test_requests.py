"""The pages about requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.config.typed_json import read
from kafkalite.control.commands.records import NewRecordFields, ProduceRecords
from kafkalite.coordinator.contract import Event
from kafkalite.gateway.fault_rules import Rule, describe_rule
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.control.console.served_console import HOSTILE, ServedConsole, served_console
from tests.unit.storage.logs import batch

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
    assert 'href="/console/requests?client_id=app">app</a>' in text
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


def log_produce(console: ServedConsole, offset: int, topic: str = "orders") -> None:
    data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(batch(b"a", b"b").data))
    answer = ProduceResponse.PartitionProduceResponse(index=0, base_offset=offset)
    console.log(
        ProduceRequest(
            acks=1,
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        ),
        ProduceResponse(
            responses=[
                ProduceResponse.TopicProduceResponse(name=topic, partition_responses=[answer])
            ]
        ),
    )


async def test_a_record_leads_to_its_requests_and_back(console: ServedConsole) -> None:
    await ProduceRecords("orders", (NewRecordFields("v"),) * 2, 0).perform(console.broker)
    record: Any = {"topic": "orders", "partition": 0, "offset": 1}
    assert "/console/traffic" not in await console.get("/record", **record)
    assert "Requests are not logged" in await console.get("/traffic", **record)
    log_produce(console, 0)
    log_produce(console, 2)
    data = FetchResponse.PartitionData(
        partition_index=0, records=memoryview(batch(b"a", b"b").data)
    )
    answer = FetchResponse.FetchableTopicResponse(topic="orders", partitions=[data])
    console.log(FetchRequest(topics=[]), FetchResponse(responses=[answer]))
    assert "/console/traffic?topic=orders" in await console.get("/record", **record)
    text = await console.get("/traffic", **record)
    written, returned = text.split("It was returned by")
    assert "number=1" in written
    assert "number=2" not in text
    assert "number=3" in returned
    assert "3 requests of Produce, Fetch and ShareFetch examined" in text
    text = await console.get("/request", number=1)
    assert "offset=0" in text
    assert "orders-0, offsets 0 to 1" in text
    missing = await console.get("/traffic", topic="orders", partition=0, offset=9)
    assert "No request that wrote the record is in the log" in missing
    assert "<script>alert" not in await console.get("/traffic", topic=HOSTILE)


async def test_a_topic_id_leads_to_the_record(console: ServedConsole) -> None:
    answer = FetchResponse.FetchableTopicResponse(
        topic_id=console.members.topic_id(),
        partitions=[
            FetchResponse.PartitionData(partition_index=1, records=memoryview(batch(b"a").data))
        ],
    )
    console.log(FetchRequest(topics=[]), FetchResponse(responses=[answer]), version=13)
    assert "orders-1, offset 0" in await console.get("/request", number=1)
    text = await console.get("/traffic", topic="orders", partition=1, offset=0)
    assert "number=1" in text


async def test_an_event_leads_to_its_records(console: ServedConsole) -> None:
    member, _ = await console.members.join_classic("shop")
    assert member
    text = await console.get("/group", group="shop")
    assert "/console/records?topic=__consumer_offsets&amp;partition=0&amp;at=2023-11-14" in text
    await console.begin_transaction("pay")
    console.broker.history.add(
        Event("pay", "initialized", "initialized", {}, Entity.TRANSACTIONAL_ID),
        console.clock.now_ms(),
    )
    text = await console.get("/transaction", id="pay")
    assert "/console/records?topic=__transaction_state&amp;partition=" in text


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
