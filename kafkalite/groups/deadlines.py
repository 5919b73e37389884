"""Deadlines: until when each member of a shard's groups may be silent. Soft state.

A timer is set once and left alone while heartbeats push the deadline out; when it fires early it
is set anew. So a heartbeat costs no timer. A reload gives each member a new session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CancelTimer, SetTimer

if TYPE_CHECKING:
    from kafkalite.groups.group import GroupId, MemberId


@dataclass(frozen=True, slots=True)
class MemberExpiry:
    """A member's session may be over; each kind of group has its own kind of this."""

    group_id: GroupId
    member_id: MemberId


class Deadlines:
    """The deadline of every member of one kind of group; its timers' events are `kind`."""

    __slots__ = ("_armed", "_deadlines", "_kind")

    def __init__(self, kind: type[MemberExpiry]) -> None:
        self._kind = kind
        self._deadlines: dict[tuple[GroupId, MemberId], int] = {}
        self._armed: dict[tuple[GroupId, MemberId], int] = {}

    def start(self, group_id: GroupId, member_id: MemberId, deadline_ms: int) -> SetTimer:
        """Begin a session, or begin it anew."""
        key = (group_id, member_id)
        self._deadlines[key] = self._armed[key] = deadline_ms
        event = self._kind(group_id, member_id)
        return SetTimer(event, deadline_ms, event)

    def prolong(self, group_id: GroupId, member_id: MemberId, deadline_ms: int) -> bool:
        """Move a deadline, unless that takes a new timer; then nothing is done."""
        key = (group_id, member_id)
        armed_ms = self._armed.get(key)
        if armed_ms is None or armed_ms > deadline_ms:
            return False
        self._deadlines[key] = deadline_ms
        return True

    def extend(self, group_id: GroupId, member_id: MemberId, deadline_ms: int) -> SetTimer | None:
        """Move a deadline; None when the timer that stands will do."""
        if self.prolong(group_id, member_id, deadline_ms):
            return None
        return self.start(group_id, member_id, deadline_ms)

    def still_running(self, event: MemberExpiry, now_ms: int) -> SetTimer | None:
        """Return the timer anew if the deadline has moved on; None: the session is over."""
        deadline_ms = self._deadlines.get((event.group_id, event.member_id), now_ms)
        if deadline_ms <= now_ms:
            return None
        return self.start(event.group_id, event.member_id, deadline_ms)

    def forget(self, group_id: GroupId, member_id: MemberId) -> CancelTimer:
        """End a session, whose timer is not needed any more."""
        self._deadlines.pop((group_id, member_id), None)
        self._armed.pop((group_id, member_id), None)
        return CancelTimer(self._kind(group_id, member_id))
