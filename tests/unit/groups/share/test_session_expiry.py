"""Sessions of share group members: one timer each, set again if the deadline was extended."""

from __future__ import annotations

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.groups.modern.sessions import Sessions
from kafkalite.groups.share.groups import ShareSessionExpiry

EVENT = ShareSessionExpiry("g", "m")


def test_a_heartbeat_sets_no_timer() -> None:
    sessions = Sessions(ShareSessionExpiry)
    assert sessions.start("g", "m", 100) == SetTimer(EVENT, 100, EVENT)
    assert sessions.try_extend("g", "m", 150)
    assert sessions.restart_if_extended(EVENT, 100) == SetTimer(EVENT, 150, EVENT)
    assert sessions.restart_if_extended(EVENT, 150) is None


def test_a_shorter_session_takes_a_timer_of_its_own() -> None:
    sessions = Sessions(ShareSessionExpiry)
    sessions.start("g", "m", 100)
    assert not sessions.try_extend("g", "m", 60)
    assert not sessions.try_extend("g", "n", 600)


def test_the_end_of_a_session_cancels_its_timer() -> None:
    sessions = Sessions(ShareSessionExpiry)
    sessions.start("g", "m", 100)
    assert sessions.end_session("g", "m") == CancelTimer(EVENT)
    assert sessions.restart_if_extended(EVENT, 0) is None
