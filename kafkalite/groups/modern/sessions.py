"""Sessions: session deadlines of the members of one group type, and their timers.

They are soft state: after a reload each member has a new session. Heartbeats extend only the
deadline. When the timer expires before the deadline it is set again. So a heartbeat usually sets no
timer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kafkalite.coordinator.contract import CancelTimer, SetTimer

if TYPE_CHECKING:
    from kafkalite.groups.group import GroupId, MemberId


@dataclass(frozen=True, slots=True)
class SessionExpiry:
    """Timer event: a member's session may have expired; each group type has a subclass."""

    group_id: GroupId
    member_id: MemberId


@dataclass(frozen=True, slots=True)
class RebalanceExpiry:
    """Timer event: the rebalance timeout of a revocation expired; one subclass per group type."""

    group_id: GroupId
    member_id: MemberId
    member_epoch: int

    TIMER: ClassVar[str]
    """The first part of the timer keys of this class."""


def rebalance_timer(expiry: RebalanceExpiry, deadline_ms: int) -> SetTimer:
    """Return the timer for a member that must revoke partitions or tasks by `deadline_ms`."""
    return SetTimer((expiry.TIMER, expiry.group_id, expiry.member_id), deadline_ms, expiry)


def cancel_rebalance_timer(expiry: RebalanceExpiry) -> CancelTimer:
    """Return the cancellation of a member's rebalance timer, for any epoch."""
    return CancelTimer((expiry.TIMER, expiry.group_id, expiry.member_id))


class Sessions:
    """The session deadline of every member of one group type.

    Its timer events have the class `event_class`.
    """

    __slots__ = ("_deadlines", "_event_class", "_timer_deadlines")

    def __init__(self, event_class: type[SessionExpiry]) -> None:
        self._event_class = event_class
        self._deadlines: dict[tuple[GroupId, MemberId], int] = {}
        self._timer_deadlines: dict[tuple[GroupId, MemberId], int] = {}

    def start(self, group_id: GroupId, member_id: MemberId, deadline_ms: int) -> SetTimer:
        """Start or restart a session; return its timer."""
        key = (group_id, member_id)
        self._deadlines[key] = self._timer_deadlines[key] = deadline_ms
        event = self._event_class(group_id, member_id)
        return SetTimer(event, deadline_ms, event)

    def try_extend(self, group_id: GroupId, member_id: MemberId, deadline_ms: int) -> bool:
        """Extend a deadline and return True; return False if that needs a new timer."""
        key = (group_id, member_id)
        timer_deadline_ms = self._timer_deadlines.get(key)
        if timer_deadline_ms is None or timer_deadline_ms > deadline_ms:
            return False
        self._deadlines[key] = deadline_ms
        return True

    def extend(self, group_id: GroupId, member_id: MemberId, deadline_ms: int) -> SetTimer | None:
        """Extend a deadline; return the new timer, None if the current timer is early enough."""
        if self.try_extend(group_id, member_id, deadline_ms):
            return None
        return self.start(group_id, member_id, deadline_ms)

    def after_heartbeat(
        self, group_id: GroupId, member_id: MemberId, deadline_ms: int, *, is_join: bool
    ) -> list[SetTimer]:
        """Return the timers to set after a heartbeat, usually none.

        A join always sets its timer: if the append of an earlier join failed, its timer was not
        set either.
        """
        if not is_join and self.try_extend(group_id, member_id, deadline_ms):
            return []
        return [self.start(group_id, member_id, deadline_ms)]

    def restart_if_extended(self, event: SessionExpiry, now_ms: int) -> SetTimer | None:
        """Return a new timer if the deadline was extended; None if the session has expired."""
        deadline_ms = self._deadlines.get((event.group_id, event.member_id), now_ms)
        if deadline_ms <= now_ms:
            return None
        return self.start(event.group_id, event.member_id, deadline_ms)

    def end_session(self, group_id: GroupId, member_id: MemberId) -> CancelTimer:
        """End a session; return the cancellation of its timer."""
        self._deadlines.pop((group_id, member_id), None)
        self._timer_deadlines.pop((group_id, member_id), None)
        return CancelTimer(self._event_class(group_id, member_id))
