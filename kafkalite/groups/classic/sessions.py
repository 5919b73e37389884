"""Session timers of the members of classic groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.groups.classic.member import NO_TIMER_MS

if TYPE_CHECKING:
    from kafkalite.groups.classic.decision import DecisionBuilder
    from kafkalite.groups.classic.member import ClassicMember
    from kafkalite.groups.group import GroupId, MemberId

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""The session timeout during a member's first join, when it cannot send heartbeats."""


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """Timer event: the session of a member or of a pending member id may have expired."""

    group_id: GroupId
    member_id: MemberId


def extend(
    decision: DecisionBuilder, group_id: GroupId, member: ClassicMember, timeout_ms: int
) -> None:
    """Extend a member's session to `timeout_ms` from now.

    An earlier timer is not changed: when it expires, the new deadline is checked.
    """
    deadline_ms = decision.now_ms + timeout_ms
    member.deadline_ms = deadline_ms
    if deadline_ms < member.timer_deadline_ms:
        set_timer(decision, group_id, member)


def set_timer(decision: DecisionBuilder, group_id: GroupId, member: ClassicMember) -> None:
    """Set the timer for the end of a member's session."""
    member.timer_deadline_ms = member.deadline_ms
    event = SessionExpired(group_id, member.member_id)
    decision.set_timer(event, member.deadline_ms, event)


def set_pending_join_timer(
    decision: DecisionBuilder, group_id: GroupId, member_id: MemberId, session_timeout_ms: int
) -> None:
    """Keep a pending member id valid for one session timeout."""
    event = SessionExpired(group_id, member_id)
    decision.set_timer(event, decision.now_ms + session_timeout_ms, event)


def cancel_timer(decision: DecisionBuilder, group_id: GroupId, member_id: MemberId) -> None:
    """Cancel a member's timer."""
    decision.cancel_timer(SessionExpired(group_id, member_id))


def record_timer_expired(member: ClassicMember) -> None:
    """Record that a member's timer has expired."""
    member.timer_deadline_ms = NO_TIMER_MS
