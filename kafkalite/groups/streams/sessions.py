"""Sessions: the timers of members and groups. Soft state: a reload begins each of them anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.groups.deadlines import Deadlines, MemberExpiry

if TYPE_CHECKING:
    from kafkalite.groups.group import GroupId, MemberId


@dataclass(frozen=True, slots=True)
class SessionExpiry(MemberExpiry):
    """A session in a streams group may be over."""


class RebalanceExpiry(NamedTuple):
    """A member had its time to give up tasks at this epoch."""

    group_id: GroupId
    member_id: MemberId
    member_epoch: int


class InitialDelayEnded(NamedTuple):
    """A group that was empty has waited for more members, and is to be assigned tasks now."""

    group_id: GroupId


class Sessions(Deadlines):
    """The timers of every member of every streams group of one shard."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(SessionExpiry)

    def end(self, group_id: GroupId, member_id: MemberId) -> tuple[CancelTimer, CancelTimer]:
        """Forget a member and all its timers."""
        return self.forget(group_id, member_id), cancel_rebalance_timer(group_id, member_id)


class InitialDelays:
    """Until when groups that were empty wait for more members before tasks are assigned."""

    __slots__ = ("_deadlines",)

    def __init__(self) -> None:
        self._deadlines: dict[GroupId, int] = {}

    def begin(self, group_id: GroupId, now_ms: int, delay_ms: int, *, is_new: bool) -> SetTimer:
        """Return the timer of a group's delay; one under way goes on, unless the group is new."""
        if is_new or not self.is_under_way(group_id, now_ms):
            self._deadlines[group_id] = now_ms + delay_ms
        # Set again in any case: an earlier decision may not have come to anything.
        deadline_ms = self._deadlines[group_id]
        return SetTimer(("streams-delay", group_id), deadline_ms, InitialDelayEnded(group_id))

    def is_under_way(self, group_id: GroupId, now_ms: int) -> bool:
        """Whether a group still waits."""
        return now_ms < self._deadlines.get(group_id, now_ms)

    def end(self, group_id: GroupId) -> None:
        """Forget a group's delay."""
        self._deadlines.pop(group_id, None)


def rebalance_timer(
    group_id: GroupId, member_id: MemberId, member_epoch: int, deadline_ms: int
) -> SetTimer:
    """Give a member until `deadline_ms` to let go of what it was told to."""
    return SetTimer(
        ("streams-rebalance", group_id, member_id),
        deadline_ms,
        RebalanceExpiry(group_id, member_id, member_epoch),
    )


def cancel_rebalance_timer(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    """Say that a member has let go."""
    return CancelTimer(("streams-rebalance", group_id, member_id))
