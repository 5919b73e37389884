"""Sessions of share group members: one timer each, which finds out when it fires how things are."""

from __future__ import annotations

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.groups.share.sessions import ShareSessionExpiry, ShareSessions

EVENT = ShareSessionExpiry("g", "m")


def test_a_heartbeat_costs_no_timer() -> None:
    sessions = ShareSessions()
    assert sessions.start("g", "m", 100) == SetTimer(EVENT, 100, EVENT)
    assert sessions.prolong("g", "m", 150)
    assert sessions.still_running(EVENT, 100) == SetTimer(EVENT, 150, EVENT)
    assert sessions.still_running(EVENT, 150) is None


def test_a_shorter_session_takes_a_timer_of_its_own() -> None:
    sessions = ShareSessions()
    sessions.start("g", "m", 100)
    assert not sessions.prolong("g", "m", 60)
    assert not sessions.prolong("g", "n", 600)


def test_the_end_takes_the_timer_along() -> None:
    sessions = ShareSessions()
    sessions.start("g", "m", 100)
    assert sessions.forget("g", "m") == CancelTimer(EVENT)
    assert sessions.still_running(EVENT, 0) is None
