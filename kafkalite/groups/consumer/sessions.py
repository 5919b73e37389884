"""Sessions: until when a member may be silent. Soft state: a reload gives each a new session.

A timer is set once and left alone while heartbeats push the deadline out; when it fires early it
is set anew. So a heartbeat costs no timer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CancelTimer, SetTimer

if TYPE_CHECKING:
    from kafkalite.groups.group import GroupId, MemberId


@dataclass(frozen=True, slots=True)
class SessionExpiry:
    """A member's session may be over."""

    group_id: GroupId
    member_id: MemberId


@dataclass(frozen=True, slots=True)
class RebalanceExpiry:
    """A member had its time to give up partitions at this epoch."""

    group_id: GroupId
    member_id: MemberId
    member_epoch: int


class Sessions:
    """The deadline of every member of every consumer group of one shard."""

    __slots__ = ("_armed", "_deadlines")

    def __init__(self) -> None:
        self._deadlines: dict[tuple[GroupId, MemberId], int] = {}
        self._armed: dict[tuple[GroupId, MemberId], int] = {}

    def start(self, group_id: GroupId, member_id: MemberId, deadline_ms: int) -> SetTimer:
        """Begin a session, or begin it anew."""
        self._deadlines[group_id, member_id] = deadline_ms
        self._armed[group_id, member_id] = deadline_ms
        return SetTimer(
            ("consumer-session", group_id, member_id),
            deadline_ms,
            SessionExpiry(group_id, member_id),
        )

    def extend(self, group_id: GroupId, member_id: MemberId, deadline_ms: int) -> SetTimer | None:
        """Move a deadline; None when the timer that stands will do."""
        if self.prolong(group_id, member_id, deadline_ms):
            return None
        return self.start(group_id, member_id, deadline_ms)

    def prolong(self, group_id: GroupId, member_id: MemberId, deadline_ms: int) -> bool:
        """Move a deadline, unless that takes a new timer; then nothing is done."""
        key = (group_id, member_id)
        armed_ms = self._armed.get(key)
        if armed_ms is None or armed_ms > deadline_ms:
            return False
        self._deadlines[key] = deadline_ms
        return True

    def still_running(self, event: SessionExpiry, now_ms: int) -> SetTimer | None:
        """Return the timer anew if the deadline has moved on; None: the session is over."""
        deadline_ms = self._deadlines.get((event.group_id, event.member_id), now_ms)
        if deadline_ms <= now_ms:
            return None
        return self.start(event.group_id, event.member_id, deadline_ms)

    def end(self, group_id: GroupId, member_id: MemberId) -> tuple[CancelTimer, CancelTimer]:
        """Forget a member and all its timers."""
        self._deadlines.pop((group_id, member_id), None)
        self._armed.pop((group_id, member_id), None)
        return (
            CancelTimer(("consumer-session", group_id, member_id)),
            cancel_rebalance_timer(group_id, member_id),
        )


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
