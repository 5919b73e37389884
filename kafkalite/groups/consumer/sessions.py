"""Sessions: the timers of members. Soft state: a reload gives each member a new session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.groups.deadlines import Deadlines, MemberExpiry

if TYPE_CHECKING:
    from kafkalite.groups.group import GroupId, MemberId


@dataclass(frozen=True, slots=True)
class SessionExpiry(MemberExpiry):
    """A session in a consumer group may be over."""


@dataclass(frozen=True, slots=True)
class RebalanceExpiry:
    """A member had its time to give up partitions at this epoch."""

    group_id: GroupId
    member_id: MemberId
    member_epoch: int


@dataclass(frozen=True, slots=True)
class JoinExpiry:
    """A member of the classic protocol had its time to join again."""

    group_id: GroupId
    member_id: MemberId


@dataclass(frozen=True, slots=True)
class SyncExpiry:
    """A member of the classic protocol had its time to ask for its assignment."""

    group_id: GroupId
    member_id: MemberId


class Sessions(Deadlines):
    """The timers of every member of every consumer group of one shard."""

    __slots__ = ("_joining",)

    def __init__(self) -> None:
        super().__init__(SessionExpiry)
        self._joining: set[tuple[GroupId, MemberId]] = set()
        """Members of the classic protocol that were told to join again."""

    def end(self, group_id: GroupId, member_id: MemberId) -> tuple[CancelTimer, ...]:
        """Forget a member and all its timers."""
        return (
            self.forget(group_id, member_id),
            cancel_rebalance_timer(group_id, member_id),
            self.joined(group_id, member_id),
            cancel_sync_timer(group_id, member_id),
        )

    def must_join(
        self, group_id: GroupId, member_id: MemberId, deadline_ms: int
    ) -> tuple[SetTimer, ...]:
        """Give a member of the classic protocol until `deadline_ms` to join, or what it has left.

        The time runs from when it was first told.
        """
        if (group_id, member_id) in self._joining:
            return ()
        self._joining.add((group_id, member_id))
        event = JoinExpiry(group_id, member_id)
        return (SetTimer(("consumer-join", group_id, member_id), deadline_ms, event),)

    def joined(self, group_id: GroupId, member_id: MemberId) -> CancelTimer:
        """Say that a member of the classic protocol need not join for now."""
        self._joining.discard((group_id, member_id))
        return CancelTimer(("consumer-join", group_id, member_id))


def rebalance_timer(
    group_id: GroupId, member_id: MemberId, member_epoch: int, deadline_ms: int
) -> SetTimer:
    """Give a member until `deadline_ms` to let go of what it was told to."""
    return SetTimer(
        ("consumer-rebalance", group_id, member_id),
        deadline_ms,
        RebalanceExpiry(group_id, member_id, member_epoch),
    )


def cancel_rebalance_timer(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    """Say that a member has let go."""
    return CancelTimer(("consumer-rebalance", group_id, member_id))


def sync_timer(group_id: GroupId, member_id: MemberId, deadline_ms: int) -> SetTimer:
    """Give a member of the classic protocol until `deadline_ms` to ask for its assignment."""
    event = SyncExpiry(group_id, member_id)
    return SetTimer(("consumer-sync", group_id, member_id), deadline_ms, event)


def cancel_sync_timer(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    """Say that a member of the classic protocol has asked."""
    return CancelTimer(("consumer-sync", group_id, member_id))
