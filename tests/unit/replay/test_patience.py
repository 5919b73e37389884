"""Patience: how long answers are waited for, and when a target is given up."""

from __future__ import annotations

import pytest

from kafkalite.control.kafka_client import UnreachableError
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.replay.patience import GivenUpError, Patience
from tests.unit.replay.made import exchange

SLOW = exchange(HeartbeatRequest(group_id="g"), HeartbeatResponse(), 4, waited_ms=3_000)


class Target:
    """Says whether it is there, and counts who asks."""

    def __init__(self, *, is_there: bool) -> None:
        self._is_there = is_there
        self.asked = 0

    async def reach(self) -> None:
        self.asked += 1
        if not self._is_there:
            raise UnreachableError("nobody is there")


async def test_what_took_long_when_it_was_recorded_may_take_as_long_again() -> None:
    target = Target(is_there=True)
    patience = Patience(5.0, target.reach)
    assert patience.seconds(SLOW) == 8.0
    await patience.silent()
    assert patience.seconds(SLOW) == 4.0
    patience.answered()
    assert patience.seconds(SLOW) == 8.0
    assert Patience(5.0, target.reach, is_driven=True).seconds(SLOW) == 5.0


async def test_a_target_that_never_said_anything_is_given_up_soon() -> None:
    target = Target(is_there=True)
    patience = Patience(5.0, target.reach)
    await patience.silent()
    await patience.silent()
    with pytest.raises(GivenUpError, match="none of 3 requests"):
        await patience.silent()
    assert target.asked == 0


async def test_a_target_that_fell_silent_is_asked_whether_it_is_there() -> None:
    for is_there, silences in ((True, 30), (False, 3)):
        target = Target(is_there=is_there)
        patience = Patience(5.0, target.reach)
        patience.answered()
        for _ in range(silences - 1):
            await patience.silent()
        with pytest.raises(GivenUpError, match=f"none of {silences} requests in a row"):
            await patience.silent()
        assert target.asked == (silences - 1) // 3 + (not is_there)


async def test_a_target_that_ends_every_connection_is_given_up() -> None:
    patience = Patience(5.0, Target(is_there=True).reach)
    for _ in range(9):
        await patience.ended("it closes")
    with pytest.raises(GivenUpError, match="it closes, on 10 connections in a row"):
        await patience.ended("it closes")
