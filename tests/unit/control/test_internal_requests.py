"""Requests that the broker makes to itself."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.control.command_table import CommandError
from kafkalite.control.internal_requests import answer_of
from kafkalite.gateway.api import Api, Eras
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker


def broker(handler: Any) -> Broker:  # noqa: ANN401 - any handler
    api = Api(ApiKey.HEARTBEAT, Versions(0, 4), handler, eras=Eras((0, "former"), (4, "latest")))
    node = SimpleNamespace(id=1, endpoints={"A": None})
    gateway = SimpleNamespace(find_api={ApiKey.HEARTBEAT: api}.get)
    return cast(
        "Broker", SimpleNamespace(cluster=SimpleNamespace(nodes={1: node}), gateway=gateway)
    )


async def test_a_handler_answers_at_once_or_later() -> None:
    response, waiting = HeartbeatResponse(), Waiting[HeartbeatResponse]()
    calls = []

    def handle(call: Any, _: object) -> object:  # noqa: ANN401 - a Call
        calls.append((call.era, call.listener, call.sender.id))
        return response if len(calls) == 1 else waiting

    running = broker(handle)
    assert await answer_of(running, HeartbeatRequest()) is response
    later = asyncio.create_task(answer_of(running, HeartbeatRequest()))
    await asyncio.sleep(0)
    waiting.resolve(response)
    assert await later is response
    assert calls == [("latest", "A", 1)] * 2


async def test_a_refusal_is_a_command_error() -> None:
    def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR, "is elsewhere.")

    with pytest.raises(CommandError, match=r"^NOT_COORDINATOR: is elsewhere$"):
        await answer_of(broker(refuse), HeartbeatRequest())
    waiting = Waiting[HeartbeatResponse]()
    later = asyncio.create_task(answer_of(broker(lambda *_: waiting), HeartbeatRequest()))
    await asyncio.sleep(0)
    waiting.refuse(KafkaError(ErrorCode.NOT_COORDINATOR))
    with pytest.raises(CommandError, match="NOT_COORDINATOR"):
        await later


async def test_a_cancelled_request_is_abandoned() -> None:
    waiting = Waiting[HeartbeatResponse]()
    later = asyncio.create_task(answer_of(broker(lambda *_: waiting), HeartbeatRequest()))
    await asyncio.sleep(0)
    later.cancel()
    with pytest.raises(asyncio.CancelledError):
        await later
    assert waiting.is_abandoned
