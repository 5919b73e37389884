"""Timers of members and groups: set once, moved without a timer, forgotten."""

from __future__ import annotations

from kafkalite.coordinator.contract import CancelTimer
from kafkalite.groups.streams.sessions import (
    InitialDelayEnded,
    InitialDelays,
    RebalanceExpiry,
    SessionExpiry,
    Sessions,
    cancel_rebalance_timer,
    rebalance_timer,
)

EVENT = SessionExpiry("g", "m")


def test_a_session_is_extended_without_a_timer() -> None:
    sessions = Sessions()
    timer = sessions.start("g", "m", 10)
    assert (timer.deadline_ms, timer.event) == (10, EVENT)
    assert sessions.extend("g", "m", 15) is None
    again = sessions.still_running(EVENT, 10)
    assert again is not None
    assert again.deadline_ms == 15
    assert sessions.still_running(EVENT, 15) is None


def test_a_session_that_gets_shorter_needs_a_new_timer() -> None:
    sessions = Sessions()
    sessions.start("g", "m", 50)
    timer = sessions.extend("g", "m", 20)
    assert timer is not None
    assert timer.deadline_ms == 20
    timer = sessions.extend("g", "unknown", 20)
    assert timer is not None
    assert timer.event == SessionExpiry("g", "unknown")


def test_who_goes_is_forgotten() -> None:
    sessions = Sessions()
    timer = sessions.start("g", "m", 10)
    assert sessions.end("g", "m") == (CancelTimer(timer.key), cancel_rebalance_timer("g", "m"))
    assert sessions.still_running(EVENT, 5) is None


def test_a_rebalance_has_its_own_timer() -> None:
    timer = rebalance_timer("g", "m", 3, 10)
    assert timer.event == RebalanceExpiry("g", "m", 3)
    assert cancel_rebalance_timer("g", "m") == CancelTimer(timer.key)


def test_a_delay_runs_from_the_first_member_on() -> None:
    delays = InitialDelays()
    assert not delays.is_under_way("g", 0)
    timer = delays.begin("g", 100, 30, is_new=True)
    assert (timer.deadline_ms, timer.event) == (130, InitialDelayEnded("g"))
    assert delays.begin("g", 110, 30, is_new=False) == timer
    assert delays.is_under_way("g", 129)
    assert not delays.is_under_way("g", 130)
    assert delays.begin("g", 120, 30, is_new=True).deadline_ms == 150
    delays.end("g")
    assert not delays.is_under_way("g", 120)
