"""LeaveGroup: how members go, and who may send them away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.classic import rebalance, sessions
from kafkalite.groups.classic.membership import Membership
from kafkalite.groups.classic.refusals import unknown_instance, unknown_member

if TYPE_CHECKING:
    from kafkalite.groups.classic.draft import Draft
    from kafkalite.groups.classic.group import ClassicGroup
    from kafkalite.groups.group import GroupId, MemberId
    from kafkalite.protocol.messages.leave_group import LeaveGroupRequest

_REASON = 200
"""How much of a client's reason an explanation quotes."""


def leave_one(
    draft: Draft,
    group_id: GroupId,
    group: ClassicGroup | None,
    leaving: LeaveGroupRequest.MemberIdentity,
) -> MemberId:
    """Let one member go and return its id; KafkaError when there is none like that.

    To rebalance is for the caller, once for all that leave with one request.
    """
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if group is None:
        raise unknown_member(Membership(), "leave", member_id)
    soft = group.soft
    if not member_id:
        # An administrator names a static member by its instance alone.
        if instance_id is None or instance_id not in soft.static_members:
            raise unknown_instance("leave", member_id, instance_id or "(none)")
        member_id = soft.static_members[instance_id]
    if member_id in soft.pending_joins:
        soft.remove(member_id)
        sessions.end(draft, group_id, member_id)
    else:
        rebalance.strike_off(draft, group, soft.member_of(member_id, instance_id, "leave"))
    reason = f" ({leaving.reason[:_REASON]})" if leaving.reason else ""
    draft.tell(
        group_id,
        "left",
        f"member {member_id} left group {group_id}{reason}",
        member_id=member_id,
        group_instance_id=instance_id,
    )
    return member_id
