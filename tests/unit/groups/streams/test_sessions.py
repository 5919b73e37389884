"""Timers of members and of initial rebalance delays."""

from __future__ import annotations

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.groups.modern.sessions import cancel_rebalance_timer, rebalance_timer
from kafkalite.groups.streams.sessions import (
    InitialDelayEnded,
    InitialDelays,
    StreamsRebalanceExpiry,
    StreamsSessionExpiry,
    StreamsSessions,
)

EVENT = StreamsSessionExpiry("g", "m")


def test_an_ended_session_has_no_timers() -> None:
    sessions = StreamsSessions()
    timer = sessions.start("g", "m", 10)
    assert timer == SetTimer(EVENT, 10, EVENT)
    rebalance = cancel_rebalance_timer(StreamsRebalanceExpiry("g", "m", 0))
    assert sessions.cancel_timers("g", "m") == (CancelTimer(timer.key), rebalance)
    assert sessions.restart_if_extended(EVENT, 5) is None


def test_a_rebalance_has_its_own_timer() -> None:
    timer = rebalance_timer(StreamsRebalanceExpiry("g", "m", 3), 10)
    assert timer.event == StreamsRebalanceExpiry("g", "m", 3)
    assert cancel_rebalance_timer(StreamsRebalanceExpiry("g", "m", 0)) == CancelTimer(timer.key)


def test_an_initial_delay_starts_with_the_first_member() -> None:
    delays = InitialDelays()
    assert not delays.is_running("g", 0)
    timer = delays.begin("g", 100, 30, is_new=True)
    assert (timer.deadline_ms, timer.event) == (130, InitialDelayEnded("g"))
    assert delays.begin("g", 110, 30, is_new=False) == timer
    assert delays.is_running("g", 129)
    assert not delays.is_running("g", 130)
    assert delays.begin("g", 120, 30, is_new=True).deadline_ms == 150
    delays.end("g")
    assert not delays.is_running("g", 120)
