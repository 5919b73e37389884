"""Sessions: one timer per member, which finds out when it fires how far the deadline has moved."""

from __future__ import annotations

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.groups.consumer.sessions import (
    JoinExpiry,
    RebalanceExpiry,
    SessionExpiry,
    Sessions,
    SyncExpiry,
    rebalance_timer,
    sync_timer,
)

EVENT = SessionExpiry("g", "m")


def test_a_heartbeat_costs_no_timer() -> None:
    sessions = Sessions()
    assert sessions.start("g", "m", 100) == SetTimer(EVENT, 100, EVENT)
    assert sessions.extend("g", "m", 150) is None
    assert sessions.still_running(EVENT, 100) == SetTimer(EVENT, 150, EVENT)
    assert sessions.still_running(EVENT, 150) is None


def test_a_shorter_session_is_not_kept_waiting_by_the_longer_ones_timer() -> None:
    sessions = Sessions()
    sessions.start("g", "m", 100)
    assert sessions.extend("g", "m", 60) == SetTimer(EVENT, 60, EVENT)


def test_a_member_never_heard_of_gets_its_timer_with_the_first_heartbeat() -> None:
    assert Sessions().extend("g", "m", 60) == SetTimer(EVENT, 60, EVENT)


def test_a_member_told_to_join_again_and_again_has_the_time_it_had_at_first() -> None:
    sessions = Sessions()
    key = ("consumer-join", "g", "m")
    assert sessions.must_join("g", "m", 100) == (SetTimer(key, 100, JoinExpiry("g", "m")),)
    assert sessions.must_join("g", "m", 200) == ()
    assert sessions.joined("g", "m") == CancelTimer(key)
    assert sessions.must_join("g", "m", 300) == (SetTimer(key, 300, JoinExpiry("g", "m")),)


def test_the_end_takes_all_timers_along() -> None:
    sessions = Sessions()
    timer = rebalance_timer("g", "m", 3, 500)
    assert timer == SetTimer(("consumer-rebalance", "g", "m"), 500, RebalanceExpiry("g", "m", 3))
    sessions.start("g", "m", 100)
    sync = sync_timer("g", "m", 700)
    assert sync == SetTimer(("consumer-sync", "g", "m"), 700, SyncExpiry("g", "m"))
    (join,) = sessions.must_join("g", "m", 600)
    assert sessions.end("g", "m") == tuple(
        CancelTimer(key) for key in (EVENT, timer.key, join.key, sync.key)
    )
    assert sessions.must_join("g", "m", 600) == (join,)
    assert sessions.still_running(EVENT, 0) is None
