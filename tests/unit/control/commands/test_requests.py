"""Commands about the log of requests."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.config.typed_json import JsonError, read, to_json
from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.requests import (
    ClearRequests,
    ExpectRequests,
    ListRequests,
    StreamRequests,
    line_of,
    recorded,
)
from kafkalite.coordinator.contract import Event
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.gateway.refusals import Refusal
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.server.request_log import RequestLog
from kafkalite.testing.clock import ManualClock
from tests.unit.control.test_turns import turns_of
from tests.unit.exchanges import end, ended_exchange, pending_exchange

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker


def broker(*groups: str) -> Broker:
    """Return a broker that has logged heartbeats of members of these groups."""
    log = RequestLog()
    running = SimpleNamespace(
        request_log=log, logs_requests=True, clock=ManualClock(), history=EventHistory()
    )
    for group in groups:
        beat(log, group)
    return cast("Broker", running)


def beat(log: RequestLog, group: str, error: ErrorCode = ErrorCode.NONE) -> None:
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
    log.observe(ended_exchange(request, 4, HeartbeatResponse(error_code=error)))


def expectation(**fields: object) -> ExpectRequests:
    return read(ExpectRequests, {"api": "Heartbeat", **fields}, "an expectation")


async def test_requests_are_listed() -> None:
    running = broker("a", "b", "a")
    listed = await read(ListRequests, {"group": "a"}, "requests").perform(running)
    assert [each.number for each in listed.requests] == [1, 3]
    assert (listed.last_number, listed.logged) == (3, 3)
    latest = await ListRequests(limit=1, since=1).perform(running)
    assert [each.groups for each in latest.requests] == [("a",)]
    assert (await ListRequests(since=3).perform(running)).requests == ()
    pieces = [each async for each in ListRequests().json_pieces(running)]
    assert json.loads("".join(pieces)) == to_json(await ListRequests().perform(running))
    assert (await ClearRequests().perform(running)).removed == 3
    assert (await ListRequests().perform(running)).logged == 0


async def test_other_tasks_run_while_many_requests_are_examined() -> None:
    running = broker(*["a"] * 400)
    assert await turns_of(ListRequests(limit=400).perform(running)) >= 40
    unmet = expectation(group="b", within_ms=0).perform(running)
    assert await turns_of(unmet) >= 40


async def test_a_list_waits_for_the_first_request() -> None:
    running = broker("other")
    command = read(ListRequests, {"group": "shop", "wait_ms": 60_000}, "requests")
    waiting = asyncio.create_task(command.perform(running))
    await asyncio.sleep(0)
    beat(running.request_log, "other")
    await asyncio.sleep(0)
    beat(running.request_log, "shop")
    assert [each.number for each in (await waiting).requests] == [3]


async def test_pending_requests_are_listed_last() -> None:
    running = broker()
    running.request_log.observe(pending_exchange(JoinGroupRequest(group_id="g"), 9))
    beat(running.request_log, "g")
    ended, pending = (await ListRequests().perform(running)).requests
    assert (ended.number, ended.api, pending.number, pending.api) == (
        1, "Heartbeat", None, "JoinGroup",
    )  # fmt: skip
    assert (pending.latency_ms, pending.response) == (None, None)
    assert line_of(pending).endswith("me JoinGroup v9 g pending")


async def test_a_request_has_the_reasons_of_its_refusals() -> None:
    response = HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
    exchange = ended_exchange(HeartbeatRequest(group_id="g"), 4, response)
    error = KafkaError(ErrorCode.ILLEGAL_GENERATION, explanation="generation 1 has ended")
    exchange.note_refusal(Refusal("Heartbeat", "g", error))
    exchange.note_fault("f1")
    running = broker()
    running.request_log.observe(exchange)
    (logged,) = running.request_log.after(0)
    request = recorded(logged)
    assert request.reasons == ("ILLEGAL_GENERATION: generation 1 has ended",)
    assert request.errors == ("ILLEGAL_GENERATION",)
    assert str(request) == (
        "2023-11-14T22:13:20.000Z #1 me Heartbeat v4 g ILLEGAL_GENERATION 0 ms fault f1"
    )


@pytest.mark.parametrize(
    ("fields", "is_met"),
    [
        ({}, True),
        ({"group": "a", "times": 2}, True),
        ({"group": "a", "times": 1, "within_ms": 0}, False),
        ({"group": "a", "times": 3, "within_ms": 0}, False),
        ({"group": "a", "at_least": 2}, True),
        ({"group": "a", "at_least": 3, "within_ms": 0}, False),
        ({"group": "c", "never": True}, True),
        ({"group": "a", "never": True}, False),
        ({"fields": {"generationId": 1}, "times": 3}, True),
        ({"fields": {"generationId": 2}, "within_ms": 0}, False),
        ({"since": 2, "times": 1}, True),
        ({"times": 0}, False),
    ],
)
async def test_the_number_of_matching_requests_is_checked(
    fields: dict[str, object],
    is_met: bool,  # noqa: FBT001 - a parameter
) -> None:
    result = await expectation(**fields).perform(broker("a", "b", "a"))
    assert result.met is is_met


async def test_an_unmet_expectation_names_the_nearest_requests() -> None:
    running = broker("a", "b")
    running.history.add(Event("a", "joined", "m joined", {}), running.clock.now_ms())
    running.request_log.observe(ended_exchange(JoinGroupRequest(group_id="a"), 9))
    result = await expectation(group="a", fields={"generationId": 2}, within_ms=0).perform(running)
    time = "2023-11-14T22:13:20.000Z"
    assert result.text.splitlines() == [
        (
            "expected at least 1 Heartbeat request with group='a', generationId=2; "
            "0 of 3 logged requests match"
        ),
        f"  near: {time} #1 me Heartbeat v4 a ok 0 ms",
        "    generationId is 1, not 2",
        f"  near: {time} #2 me Heartbeat v4 b ok 0 ms",
        "    group is 'b', not 'a'",
        "    generationId is 1, not 2",
        f"  near: {time} #3 me JoinGroup v9 a ok 0 ms",
        "    the API is JoinGroup, not Heartbeat",
        f"  explain: {time} a joined: m joined",
    ]
    assert [each.request.number for each in result.nearest] == [1, 2, 3]


async def test_a_maximum_needs_a_log_that_had_begun() -> None:
    running = broker()
    cast("SimpleNamespace", running).logs_requests = False
    for fields in ({"never": True}, {"times": 0}):
        with pytest.raises(CommandError, match="were not logged before this expectation"):
            await expectation(**fields).perform(running)
    assert (await expectation(never=True, within_ms=1).perform(running)).met
    unmet = await expectation(within_ms=0).perform(running)
    assert "were not logged before this expectation" in unmet.text


async def test_an_expectation_waits_for_enough_requests() -> None:
    running = broker("a")
    waiting = asyncio.create_task(
        expectation(group="a", at_least=2, within_ms=60_000).perform(running)
    )
    await asyncio.sleep(0)
    pending = pending_exchange(HeartbeatRequest(group_id="a"), 4)
    running.request_log.observe(pending)
    result = await waiting
    assert (result.met, result.matches) == (True, 2)
    assert [each.number for each in result.requests] == [1, None]


async def test_a_request_that_ends_is_counted_once() -> None:
    running = broker()
    pending = pending_exchange(HeartbeatRequest(group_id="a"), 4)
    running.request_log.observe(pending)
    pending.wait()
    waiting = asyncio.create_task(
        expectation(group="a", at_least=2, within_ms=60_000).perform(running)
    )
    for _ in range(5):
        await asyncio.sleep(0)
    running.request_log.observe(end(pending, HeartbeatResponse()))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    beat(running.request_log, "a")
    assert (await waiting).matches == 2


def test_contradictory_expectations_are_rejected() -> None:
    with pytest.raises(JsonError, match="one of times, at_least and never"):
        expectation(times=1, never=True)
    with pytest.raises(JsonError, match="similar names are generationId"):
        expectation(fields={"generation": 1})


async def test_a_stream_begins_with_the_latest_requests() -> None:
    running = broker("a", "b", "a", "a")
    events = read(StreamRequests, {"group": "a", "limit": 2}, "requests").events(running)
    beat(running.request_log, "a")
    beat(running.request_log, "b")
    beat(running.request_log, "a")
    found = [await anext(events) for _ in range(3)]
    assert [each.partition("\n")[0] for each in found] == [": requests", "id: 5", "id: 7"]
    beat(running.request_log, "a")
    assert (await anext(events)).startswith("id: 8\n")


async def test_a_stream_has_each_request_when_it_ends() -> None:
    running = broker("a", "b", "a")
    events = read(StreamRequests, {"group": "a", "since": 1}, "requests").events(running)
    assert await anext(events) == ": requests\n\n"
    event = await anext(events)
    assert event.startswith("id: 3\nevent: request\ndata: {")
    later: asyncio.Task[str] = asyncio.create_task(anext(events))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    beat(running.request_log, "a")
    assert (await later).startswith("id: 4\n")
    await events.aclose()  # type: ignore[attr-defined]
    with pytest.raises(CommandError, match="has no end"):
        await StreamRequests().perform(running)
