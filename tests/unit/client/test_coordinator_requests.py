"""Requests to coordinators; the tests of GroupOffsets have the retries at a changed coordinator."""

from __future__ import annotations

import pytest

from kafkalite.client.coordinator_requests import GROUP, CoordinatorRequests
from kafkalite.client.errors import BrokerError, TimedOutError
from kafkalite.client.retries import Backoff, Retries
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from tests.unit.client.scripted_client import NODES, ScriptedClient, SkippingClock


class Stage:
    """A group whose coordinator answers heartbeats with scripted codes."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.codes = list(codes)
        self.client = ScriptedClient(
            answers={
                "FindCoordinatorRequest": lambda _node, _key: 2,
                "HeartbeatRequest": lambda _node, _request: HeartbeatResponse(
                    error_code=self.codes.pop(0)
                ),
            }
        )
        self.requests = CoordinatorRequests(
            self.client, "shop", GROUP, lambda lookup: NODES[1 + lookup]
        )

    async def ask(self) -> HeartbeatResponse:
        retries = Retries(SkippingClock(), Backoff(100, 1_000), 10_000)
        response: HeartbeatResponse = await self.requests.ask(
            HeartbeatRequest(), Versions(0, 4), retries
        )
        return response


async def test_each_lookup_may_ask_another_broker() -> None:
    stage = Stage(ErrorCode.NOT_COORDINATOR, ErrorCode.NONE)
    assert (await stage.ask()).error_code == ErrorCode.NONE
    assert stage.client.asked == [
        (1, "FindCoordinatorRequest"),
        (2, "HeartbeatRequest"),
        (2, "FindCoordinatorRequest"),
        (2, "HeartbeatRequest"),
    ]


async def test_final_error_names_the_group() -> None:
    with pytest.raises(BrokerError, match=r"group 'shop': .*\(UNKNOWN_MEMBER_ID\)"):
        await Stage(ErrorCode.UNKNOWN_MEMBER_ID).ask()
    with pytest.raises(TimedOutError, match=r"group 'shop': .*COORDINATOR_LOAD_IN_PROGRESS"):
        await Stage(*[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 99).ask()
