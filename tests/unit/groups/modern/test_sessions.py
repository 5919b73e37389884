"""Sessions of members: extension without a timer, and separation by group type."""

from __future__ import annotations

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.coordinator.timers import TimerQueue
from kafkalite.groups.consumer.sessions import ConsumerSessionExpiry
from kafkalite.groups.modern.sessions import SessionExpiry, Sessions
from kafkalite.groups.share.groups import ShareSessionExpiry
from kafkalite.groups.streams.sessions import StreamsSessionExpiry

EVENT = SessionExpiry("g", "m")


def test_a_heartbeat_sets_no_timer() -> None:
    deadlines = Sessions(SessionExpiry)
    assert deadlines.start("g", "m", 100) == SetTimer(EVENT, 100, EVENT)
    assert deadlines.try_extend("g", "m", 120)
    assert deadlines.extend("g", "m", 150) is None
    assert deadlines.restart_if_extended(EVENT, 149) == SetTimer(EVENT, 150, EVENT)
    assert deadlines.restart_if_extended(EVENT, 150) is None


def test_a_shorter_session_takes_a_timer_of_its_own() -> None:
    deadlines = Sessions(SessionExpiry)
    deadlines.start("g", "m", 100)
    assert not deadlines.try_extend("g", "m", 60)
    assert deadlines.extend("g", "m", 60) == SetTimer(EVENT, 60, EVENT)
    assert deadlines.try_extend("g", "m", 60)


def test_an_unknown_member_gets_its_timer_with_the_first_heartbeat() -> None:
    deadlines = Sessions(SessionExpiry)
    assert not deadlines.try_extend("g", "m", 600)
    assert deadlines.extend("g", "m", 600) == SetTimer(EVENT, 600, EVENT)


def test_an_ended_session_does_not_expire() -> None:
    deadlines = Sessions(SessionExpiry)
    deadlines.start("g", "m", 100)
    assert deadlines.end_session("g", "m") == CancelTimer(EVENT)
    assert deadlines.restart_if_extended(EVENT, 0) is None
    assert not deadlines.try_extend("g", "m", 200)


def test_members_of_two_group_types_have_separate_sessions() -> None:
    """A group that changes its type may temporarily have timers of both types."""
    kinds = (ConsumerSessionExpiry, StreamsSessionExpiry, ShareSessionExpiry)
    timers = TimerQueue()
    timers.apply([Sessions(kind).start("g", "m", 100) for kind in kinds], lambda at_ms: at_ms)
    due = {type(timers.pop_due(100)) for _ in kinds}
    assert due == set(kinds)
