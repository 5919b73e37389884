"""Sessions: one timer per member, which finds out when it fires how far the deadline has moved."""

from __future__ import annotations

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.groups.consumer.sessions import (
    RebalanceExpiry,
    SessionExpiry,
    Sessions,
    rebalance_timer,
)

EVENT = SessionExpiry("g", "m")
KEY = ("consumer-session", "g", "m")


def test_a_heartbeat_costs_no_timer() -> None:
    sessions = Sessions()
    assert sessions.start("g", "m", 100) == SetTimer(KEY, 100, EVENT)
    assert sessions.extend("g", "m", 150) is None
    assert sessions.still_running(EVENT, 100) == SetTimer(KEY, 150, EVENT)
    assert sessions.still_running(EVENT, 150) is None


def test_a_shorter_session_is_not_kept_waiting_by_the_longer_ones_timer() -> None:
    sessions = Sessions()
    sessions.start("g", "m", 100)
    assert sessions.extend("g", "m", 60) == SetTimer(KEY, 60, EVENT)


def test_a_member_never_heard_of_gets_its_timer_with_the_first_heartbeat() -> None:
    assert Sessions().extend("g", "m", 60) == SetTimer(KEY, 60, EVENT)


def test_the_end_takes_both_timers_along() -> None:
    sessions = Sessions()
    timer = rebalance_timer("g", "m", 3, 500)
    assert timer == SetTimer(("consumer-rebalance", "g", "m"), 500, RebalanceExpiry("g", "m", 3))
    sessions.start("g", "m", 100)
    assert sessions.end("g", "m") == (CancelTimer(KEY), CancelTimer(timer.key))
    assert sessions.still_running(EVENT, 0) is None
