"""Deadlines of members: moved without a timer, and apart from those of other kinds of groups."""

from __future__ import annotations

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.coordinator.timers import TimerQueue
from kafkalite.groups.consumer.sessions import SessionExpiry
from kafkalite.groups.deadlines import Deadlines, MemberExpiry
from kafkalite.groups.share.sessions import ShareSessionExpiry
from kafkalite.groups.streams.sessions import SessionExpiry as StreamsSessionExpiry

EVENT = MemberExpiry("g", "m")


def test_a_heartbeat_costs_no_timer() -> None:
    deadlines = Deadlines(MemberExpiry)
    assert deadlines.start("g", "m", 100) == SetTimer(EVENT, 100, EVENT)
    assert deadlines.extend("g", "m", 150) is None
    assert deadlines.still_running(EVENT, 149) == SetTimer(EVENT, 150, EVENT)
    assert deadlines.still_running(EVENT, 150) is None


def test_a_shorter_session_takes_a_timer_of_its_own() -> None:
    deadlines = Deadlines(MemberExpiry)
    deadlines.start("g", "m", 100)
    assert not deadlines.prolong("g", "m", 60)
    assert deadlines.extend("g", "m", 60) == SetTimer(EVENT, 60, EVENT)
    assert deadlines.prolong("g", "m", 60)


def test_who_is_forgotten_is_silent_from_then_on() -> None:
    deadlines = Deadlines(MemberExpiry)
    deadlines.start("g", "m", 100)
    assert deadlines.forget("g", "m") == CancelTimer(EVENT)
    assert deadlines.still_running(EVENT, 0) is None
    assert not deadlines.prolong("g", "m", 200)


def test_a_member_of_two_kinds_of_groups_has_two_sessions() -> None:
    """A group that changes its kind may have timers of both for a moment."""
    kinds = (SessionExpiry, StreamsSessionExpiry, ShareSessionExpiry)
    timers = TimerQueue()
    timers.apply([Deadlines(kind).start("g", "m", 100) for kind in kinds], lambda at_ms: at_ms)
    due = {type(timers.pop_due(100)) for _ in kinds}
    assert due == set(kinds)
