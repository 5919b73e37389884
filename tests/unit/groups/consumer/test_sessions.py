"""Sessions: one timer per member, which is set again if the deadline was extended."""

from __future__ import annotations

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.groups.consumer.sessions import (
    ConsumerRebalanceExpiry,
    ConsumerSessionExpiry,
    ConsumerSessions,
    JoinExpiry,
    SyncExpiry,
    sync_timer,
)
from kafkalite.groups.modern.sessions import rebalance_timer

EVENT = ConsumerSessionExpiry("g", "m")


def test_repeated_requests_to_rejoin_do_not_extend_the_join_timer() -> None:
    sessions = ConsumerSessions()
    key = ("consumer-join", "g", "m")
    assert sessions.start_join_timer("g", "m", 100) == (SetTimer(key, 100, JoinExpiry("g", "m")),)
    assert sessions.start_join_timer("g", "m", 200) == ()
    assert sessions.cancel_join_timer("g", "m") == CancelTimer(key)
    assert sessions.start_join_timer("g", "m", 300) == (SetTimer(key, 300, JoinExpiry("g", "m")),)


def test_the_end_of_a_session_cancels_all_timers() -> None:
    sessions = ConsumerSessions()
    timer = rebalance_timer(ConsumerRebalanceExpiry("g", "m", 3), 500)
    assert timer == SetTimer(
        ("consumer-rebalance", "g", "m"), 500, ConsumerRebalanceExpiry("g", "m", 3)
    )
    sessions.start("g", "m", 100)
    sync = sync_timer("g", "m", 700)
    assert sync == SetTimer(("consumer-sync", "g", "m"), 700, SyncExpiry("g", "m"))
    (join,) = sessions.start_join_timer("g", "m", 600)
    assert sessions.cancel_timers("g", "m") == tuple(
        CancelTimer(key) for key in (EVENT, timer.key, join.key, sync.key)
    )
    assert sessions.start_join_timer("g", "m", 600) == (join,)
    assert sessions.restart_if_extended(EVENT, 0) is None
