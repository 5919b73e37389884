"""Timers of the members of consumer groups, including members of the classic protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.groups.modern.sessions import (
    RebalanceExpiry,
    SessionExpiry,
    Sessions,
    cancel_rebalance_timer,
)

if TYPE_CHECKING:
    from kafkalite.groups.group import GroupId, MemberId


@dataclass(frozen=True, slots=True)
class ConsumerSessionExpiry(SessionExpiry):
    """Timer event: a session in a consumer group may have expired."""


@dataclass(frozen=True, slots=True)
class ConsumerRebalanceExpiry(RebalanceExpiry):
    """Timer event: the rebalance timeout for revoking partitions expired."""

    TIMER = "consumer-rebalance"


@dataclass(frozen=True, slots=True)
class JoinExpiry:
    """Timer event: the rebalance timeout for a classic member's JoinGroup expired."""

    group_id: GroupId
    member_id: MemberId


@dataclass(frozen=True, slots=True)
class SyncExpiry:
    """Timer event: the rebalance timeout for a classic member's SyncGroup expired."""

    group_id: GroupId
    member_id: MemberId


class ConsumerSessions(Sessions):
    """The timers of all members of consumer groups in one shard."""

    __slots__ = ("_joining",)

    def __init__(self) -> None:
        super().__init__(ConsumerSessionExpiry)
        self._joining: set[tuple[GroupId, MemberId]] = set()
        """Members of the classic protocol that were asked to rejoin."""

    def cancel_timers(self, group_id: GroupId, member_id: MemberId) -> tuple[CancelTimer, ...]:
        """End a member's session; return the cancellations of all its timers."""
        return (
            self.end_session(group_id, member_id),
            cancel_rebalance_timer(ConsumerRebalanceExpiry(group_id, member_id, 0)),
            self.cancel_join_timer(group_id, member_id),
            cancel_sync_timer(group_id, member_id),
        )

    def start_join_timer(
        self, group_id: GroupId, member_id: MemberId, deadline_ms: int
    ) -> tuple[SetTimer, ...]:
        """Return the timer for a classic member that must rejoin by `deadline_ms`.

        The time starts when it is first asked; later calls return no timer.
        """
        if (group_id, member_id) in self._joining:
            return ()
        self._joining.add((group_id, member_id))
        event = JoinExpiry(group_id, member_id)
        return (SetTimer(("consumer-join", group_id, member_id), deadline_ms, event),)

    def cancel_join_timer(self, group_id: GroupId, member_id: MemberId) -> CancelTimer:
        """Return the cancellation of a classic member's join timer."""
        self._joining.discard((group_id, member_id))
        return CancelTimer(("consumer-join", group_id, member_id))


def sync_timer(group_id: GroupId, member_id: MemberId, deadline_ms: int) -> SetTimer:
    """Return the timer for a classic member that must send SyncGroup by `deadline_ms`."""
    event = SyncExpiry(group_id, member_id)
    return SetTimer(("consumer-sync", group_id, member_id), deadline_ms, event)


def cancel_sync_timer(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    """Return the cancellation of a classic member's sync timer."""
    return CancelTimer(("consumer-sync", group_id, member_id))
