"""Sessions: the timers of single members, and when they are moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.groups.classic.member import UNARMED

if TYPE_CHECKING:
    from kafkalite.groups.classic.draft import Draft
    from kafkalite.groups.classic.member import ClassicMember
    from kafkalite.groups.group import GroupId, MemberId

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a new member may stay in its first join: it cannot send heartbeats before it ends."""


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """Timer event: the session of a member, or of an id that was given out, may have ended."""

    group_id: GroupId
    member_id: MemberId


def renew(draft: Draft, group_id: GroupId, member: ClassicMember, timeout_ms: int) -> None:
    """Let a member's session last `timeout_ms` from now.

    A timer that goes off too early is left alone, for it will find the deadline moved.
    """
    deadline_ms = draft.now_ms + timeout_ms
    member.deadline_ms = deadline_ms
    if deadline_ms < member.armed_ms:
        arm(draft, group_id, member)


def arm(draft: Draft, group_id: GroupId, member: ClassicMember) -> None:
    """Set the timer for the end of a member's session."""
    member.armed_ms = member.deadline_ms
    event = SessionExpired(group_id, member.member_id)
    draft.set_timer(event, member.deadline_ms, event)


def renew_pending(
    draft: Draft, group_id: GroupId, member_id: MemberId, session_timeout_ms: int
) -> None:
    """Let an id that was given out be valid for one session timeout."""
    event = SessionExpired(group_id, member_id)
    draft.set_timer(event, draft.now_ms + session_timeout_ms, event)


def end(draft: Draft, group_id: GroupId, member_id: MemberId) -> None:
    """Forget a member's timer."""
    draft.cancel_timer(SessionExpired(group_id, member_id))


def disarm(member: ClassicMember) -> None:
    """Take note that a member's timer has gone off."""
    member.armed_ms = UNARMED
