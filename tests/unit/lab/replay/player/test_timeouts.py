"""Timeouts for responses, and detection of an unavailable target."""

from __future__ import annotations

import pytest

from kafkalite.client.connection import UnreachableError
from kafkalite.lab.replay.player.timeouts import ResponseTimeouts, TargetUnavailableError
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.unit.lab.replay.capture_builder import exchange

SLOW = exchange(HeartbeatRequest(group_id="g"), HeartbeatResponse(), 4, duration_ms=3_000)


class Target:
    """A target that counts the checks of its availability."""

    def __init__(self, *, is_reachable: bool) -> None:
        self._is_reachable = is_reachable
        self.requests = 0

    async def check_reachable(self) -> None:
        self.requests += 1
        if not self._is_reachable:
            raise UnreachableError("unreachable")


async def test_timeout_includes_the_recorded_duration() -> None:
    target = Target(is_reachable=True)
    timeouts = ResponseTimeouts(5.0, target.check_reachable)
    assert timeouts.timeout_s(SLOW) == 8.0
    await timeouts.count_timeout()
    assert timeouts.timeout_s(SLOW) == 4.0
    timeouts.count_response()
    assert timeouts.timeout_s(SLOW) == 8.0
    assert ResponseTimeouts(5.0, target.check_reachable, is_driven=True).timeout_s(SLOW) == 5.0


async def test_target_without_any_response_is_unavailable_after_3_timeouts() -> None:
    target = Target(is_reachable=True)
    timeouts = ResponseTimeouts(5.0, target.check_reachable)
    await timeouts.count_timeout()
    await timeouts.count_timeout()
    with pytest.raises(TargetUnavailableError, match="no response to 3 requests"):
        await timeouts.count_timeout()
    assert target.requests == 0


async def test_target_is_checked_after_consecutive_timeouts() -> None:
    for is_reachable, limit in ((True, 30), (False, 3)):
        target = Target(is_reachable=is_reachable)
        timeouts = ResponseTimeouts(5.0, target.check_reachable)
        timeouts.count_response()
        for _ in range(limit - 1):
            await timeouts.count_timeout()
        with pytest.raises(
            TargetUnavailableError, match=f"no response to {limit} requests in a row"
        ):
            await timeouts.count_timeout()
        assert target.requests == (limit - 1) // 3 + (not is_reachable)


async def test_target_that_closes_every_connection_is_unavailable() -> None:
    timeouts = ResponseTimeouts(5.0, Target(is_reachable=True).check_reachable)
    for _ in range(9):
        await timeouts.count_lost_connection("it closed")
    with pytest.raises(TargetUnavailableError, match="it closed, on 10 connections in a row"):
        await timeouts.count_lost_connection("it closed")
